//! Addresses, gateways and routes that a network gives its pods.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address_pool::AddressPool;
use super::arithmetic::nth_address;
use super::attached_network::{AttachedNetwork, AttachedTopology};
use super::network::{IpFamily, Role};
use super::pod_networks::{PodNetwork, PodRoute};
use super::settings::ClusterSettings;

/// Addresses of an infrastructure subnet that cannot be its management address: the gateway, and the
/// first and last address of the subnet.
const SKIPPED_ADDRESSES: u128 = 3;

impl AttachedNetwork {
    /// `true` if the network has a router.
    pub fn has_gateway(&self) -> bool {
        match self.topology {
            AttachedTopology::Layer3 => true,
            AttachedTopology::Layer2 => self.role == Role::Primary,
            AttachedTopology::Localnet => false,
        }
    }

    /// Addresses of the router and of the node's management port in a subnet. `None`: the network
    /// has no router, or the subnet has no such addresses.
    ///
    /// The gateway is the configured one, else the first usable address of the infrastructure
    /// subnets, else the first address. The management address is the next one of the infrastructure
    /// subnets, else the second address, or the first one if the gateway is the second.
    pub fn own_addresses(&self, subnet: IpNet) -> Option<(IpAddr, IpAddr)> {
        if !self.has_gateway() {
            return None;
        }
        let family = IpFamily::of_net(subnet);
        let infrastructure = || {
            let ranges = self.infrastructure_subnets.iter();
            let usable =
                ranges.filter(move |range| IpFamily::of_net(**range) == family).flat_map(|range| {
                    (0..=SKIPPED_ADDRESSES).map_while(|distance| nth_address(*range, distance))
                });
            let is_last =
                move |address: &IpAddr| family == IpFamily::V4 && *address == subnet.broadcast();
            usable.filter(move |address| *address != subnet.network() && !is_last(address))
        };
        let mut configured = self.default_gateways.iter().copied();
        let gateway = configured
            .find(|address| IpFamily::of(*address) == family)
            .or_else(|| infrastructure().next())
            .or_else(|| nth_address(subnet, 1))?;
        let management = infrastructure()
            .find(|address| *address != gateway)
            .or_else(|| nth_address(subnet, 2).filter(|address| *address != gateway))
            .or_else(|| nth_address(subnet, 1))?;
        Some((gateway, management))
    }

    /// A pool of the addresses of a subnet for pods.
    pub fn address_pool(&self, subnet: IpNet) -> AddressPool {
        let mut pool = AddressPool::new(subnet);
        if let Some((gateway, management)) = self.own_addresses(subnet) {
            pool.exclude(gateway.into());
            pool.exclude(management.into());
        }
        for range in &self.infrastructure_subnets {
            pool.exclude(*range);
        }
        for range in self.excluded_subnets.iter().chain(&self.reserved_subnets) {
            pool.keep_for_requests(*range);
        }
        pool
    }

    /// Gateways of a pod with these addresses, in their order.
    pub fn gateways(&self, addresses: &[IpNet]) -> Vec<IpAddr> {
        let gateways = addresses.iter().filter_map(|address| {
            let mut subnets = self.subnets.iter();
            let is_same =
                |subnet: &&IpNet| IpFamily::of_net(**subnet) == IpFamily::of_net(*address);
            let subnet = match self.topology {
                AttachedTopology::Layer3 => address.trunc(),
                AttachedTopology::Layer2 | AttachedTopology::Localnet => *subnets.find(is_same)?,
            };
            let (gateway, _) = self.own_addresses(subnet)?;
            Some(gateway)
        });
        gateways.collect()
    }

    /// Entry of a pod's annotation. `requested`: gateways that the pod requests.
    pub fn pod_network(
        &self,
        addresses: Vec<IpNet>,
        mac: String,
        requested: &[IpAddr],
        settings: &ClusterSettings,
    ) -> PodNetwork {
        let gateways = self.gateways(&addresses);
        let is_primary = self.role == Role::Primary;
        let mut destinations = Vec::new();
        if self.topology == AttachedTopology::Layer3 {
            destinations.extend(&self.subnets);
        }
        if is_primary {
            destinations.extend(&settings.service_cidrs);
            destinations.extend(&self.join_subnets);
        }
        let routes = gateways.iter().flat_map(|next_hop| {
            let family = IpFamily::of(*next_hop);
            let of_family =
                destinations.iter().filter(move |dest| IpFamily::of_net(**dest) == family);
            of_family.map(|dest| PodRoute { dest: *dest, next_hop: *next_hop })
        });
        PodNetwork {
            routes: routes.collect(),
            link_local_gateway: None,
            gateways: match requested {
                [] if is_primary => gateways,
                requested => requested.to_vec(),
            },
            addresses,
            mac,
            tunnel_id: None,
            role: if is_primary { "primary" } else { "secondary" }.to_owned(),
        }
    }
}
