//! Addresses, gateways and routes that a network gives its pods.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{
    AddressPool, AttachedNetwork, AttachedTopology, ClusterSettings, IpFamily, PodNetwork,
    PodRoute, Role,
};

/// Place of the gateway in a subnet.
const GATEWAY: u128 = 1;
/// Place of the management port in a subnet.
const MANAGEMENT_PORT: u128 = 2;

/// Ranges of a network for the pods of a node, or of all nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Ranges<'a> {
    pub(crate) network: &'a AttachedNetwork,
    /// Subnets, at most one of each family, in the order of the node's annotation or the network.
    pub(crate) subnets: Vec<IpNet>,
}

impl<'a> Ranges<'a> {
    /// Ranges in a network, in which the pod's node has these subnets. `None`: the node has none
    /// yet.
    pub(crate) fn new(network: &'a AttachedNetwork, of_node: &[IpNet]) -> Option<Self> {
        let subnets = match network.topology {
            AttachedTopology::Layer3 if of_node.is_empty() => return None,
            AttachedTopology::Layer3 => of_node.to_vec(),
            AttachedTopology::Layer2 | AttachedTopology::Localnet => network.subnets.clone(),
        };
        Some(Self { network, subnets })
    }

    /// A pool of the addresses of a subnet.
    pub(crate) fn pool(&self, subnet: IpNet) -> AddressPool {
        let mut pool = AddressPool::new(subnet);
        let network = self.network;
        if has_gateway(network) {
            let management = self.management_port(subnet);
            for address in self.gateway(subnet).into_iter().chain(management) {
                pool.exclude(address.into());
            }
        }
        for range in &network.infrastructure_subnets {
            pool.exclude(*range);
        }
        for range in &network.excluded_subnets {
            pool.exclude(*range);
        }
        for range in &network.reserved_subnets {
            pool.exclude(*range);
        }
        pool
    }

    /// Address of the network's router in a subnet.
    fn gateway(&self, subnet: IpNet) -> Option<IpAddr> {
        let mut own = self.network.default_gateways.iter().copied();
        let own = own.find(|gateway| subnet.contains(gateway));
        own.or_else(|| nth_address(subnet, GATEWAY))
    }

    /// Address of the node itself in a subnet. `None`: it is in a range for such addresses.
    fn management_port(&self, subnet: IpNet) -> Option<IpAddr> {
        let is_special = |range: &IpNet| subnet.contains(range);
        if self.network.infrastructure_subnets.iter().any(is_special) {
            return None;
        }
        let usual = nth_address(subnet, MANAGEMENT_PORT);
        if usual == self.gateway(subnet) {
            return nth_address(subnet, GATEWAY);
        }
        usual
    }

    /// Entry of a pod's annotation, from its addresses.
    pub(crate) fn entry(
        &self,
        addresses: Vec<IpNet>,
        mac: String,
        requested_gateways: &[IpAddr],
        settings: &ClusterSettings,
    ) -> PodNetwork {
        let network = self.network;
        let gateways: Vec<IpAddr> = if has_gateway(network) {
            let subnets = self.subnets.iter();
            subnets.filter_map(|subnet| self.gateway(*subnet)).collect()
        } else {
            Vec::new()
        };
        let routes = gateways.iter().flat_map(|next_hop| {
            let family = IpFamily::of(*next_hop);
            let destinations = self.destinations(settings).into_iter();
            let of_family = destinations.filter(move |dest| IpFamily::of_net(*dest) == family);
            of_family.map(|dest| PodRoute {
                dest,
                next_hop: *next_hop,
            })
        });
        let is_primary = network.role == Role::Primary;
        PodNetwork {
            routes: routes.collect(),
            // Only layer2 networks have one, where the cluster manager gives the addresses.
            link_local_gateway: None,
            gateways: match requested_gateways {
                [] if is_primary => gateways,
                requested => requested.to_vec(),
            },
            addresses,
            mac,
            tunnel_id: None,
            role: if is_primary { "primary" } else { "secondary" }.to_owned(),
        }
    }

    /// Destinations that pods reach through the network's router.
    fn destinations(&self, settings: &ClusterSettings) -> Vec<IpNet> {
        let network = self.network;
        let mut destinations = Vec::new();
        if network.topology == AttachedTopology::Layer3 {
            destinations.extend(&network.subnets);
        }
        if network.role == Role::Primary {
            destinations.extend(&settings.service_cidrs);
            destinations.extend(&network.join_subnets);
        }
        destinations
    }
}

/// Returns `true` if the network has a router.
fn has_gateway(network: &AttachedNetwork) -> bool {
    match network.topology {
        AttachedTopology::Layer3 => true,
        AttachedTopology::Layer2 => network.role == Role::Primary,
        AttachedTopology::Localnet => false,
    }
}
