//! Addresses that questions ask for, and those that routers have learned.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Cloud, Machine, NetworkKind, Router, RouterPort, host};
use crate::ovn::LearnedNeighbor;

/// Number of a machine outside in the subnets of networks with a VLAN.
pub(super) const OUTSIDE_HOST: u32 = 77;
/// Number of an address in a subnet that no port inside has.
const FREE_HOST: u32 = 99;
/// Addresses beyond all networks.
const FOREIGN: [&str; 4] = ["8.8.8.8", "172.16.0.5", "169.254.169.254", "2001:db8:ff::8"];

/// Owner of an address on a network, as a machine or router there sees it.
pub(super) enum Owner<'a> {
    Machine(&'a Machine),
    /// A router, with its MAC address there.
    Router(String),
    /// The metadata service of each chassis, or the port of a VIP.
    Service,
    /// A machine outside may have the address.
    Outside,
    Nobody,
}

impl Cloud {
    pub(super) fn collect_destinations(&mut self) {
        let machines = self.machines.iter().flat_map(|own| own.addresses.iter().copied());
        let mut all: Vec<_> = machines.clone().chain(machines).collect();
        for (_, port) in self.router_ports() {
            all.extend(port.addresses.iter().map(IpNet::addr));
        }
        for translated in &self.translated {
            all.extend([translated.address; 3]);
        }
        for network in &self.networks {
            for subnet in &network.subnets {
                if network.kind == NetworkKind::External {
                    all.push(host(subnet.range, 1));
                }
                all.push(host(subnet.range, FREE_HOST));
                all.push(host(subnet.range, OUTSIDE_HOST));
            }
        }
        all.extend(FOREIGN.map(|text| text.parse::<IpAddr>().expect("an address")));
        self.destinations.extend(all);
    }

    /// The owner of an address on a network. `asking`: the router that asks.
    pub(super) fn owner(
        &self,
        network: usize,
        address: IpAddr,
        asking: Option<usize>,
    ) -> Owner<'_> {
        let is_other = |router: usize| Some(router) != asking && self.routers[router].is_enabled;
        let mut machines = self.machines.iter();
        let machine =
            machines.find(|own| own.network == network && own.addresses.contains(&address));
        if let Some(machine) = machine {
            return Owner::Machine(machine);
        }
        if self.services.contains(&(network, address)) {
            return Owner::Service;
        }
        let mut ports = self.ports_on(network).filter(|(router, _)| is_other(*router));
        if let Some((_, port)) = ports.find(|(_, port)| port.has(address)) {
            return Owner::Router(port.mac.clone());
        }
        let translated = self.translated.iter().filter(|own| own.address == address);
        for translated in translated.filter(|own| is_other(own.router)) {
            let router = &self.routers[translated.router];
            let port =
                router.ports.iter().find(|port| port.network == network && port.is_near(address));
            if let Some(port) = port {
                let mac = translated.mac.as_ref().unwrap_or(&port.mac).clone();
                return Owner::Router(mac);
            }
        }
        let is_enabled = |router: usize| self.routers[router].is_enabled;
        let is_translated = |router: usize| {
            let mut own = self.translated.iter();
            own.any(|own| own.router == router && own.address == address)
        };
        let is_assigned = self.ports_on(network).any(|(router, port)| {
            is_enabled(router) && (port.has(address) || is_translated(router))
        });
        if self.networks[network].localnet.is_some() && !is_assigned {
            return Owner::Outside;
        }
        Owner::Nobody
    }

    pub(super) fn learn_neighbors(&mut self) {
        let mut learned = Vec::new();
        for (router, port) in self.router_ports() {
            let own = |address: &IpAddr| {
                let translated = self.translated.iter();
                let is_own =
                    |own: &super::Translated| own.router == router && own.address == *address;
                self.routers[router].ports.iter().any(|port| port.has(*address))
                    || translated.into_iter().any(is_own)
            };
            let near = self.destinations.iter().filter(|address| port.is_near(**address));
            for address in near.filter(|address| !own(address)) {
                match self.owner(port.network, *address, Some(router)) {
                    Owner::Router(mac) => learned.push(LearnedNeighbor {
                        router_port: port.name.clone(),
                        address: address.to_string(),
                        mac,
                    }),
                    Owner::Outside => learned.push(LearnedNeighbor::outside(&port.name, *address)),
                    Owner::Machine(_) | Owner::Service | Owner::Nobody => {}
                }
            }
        }
        learned.sort();
        learned.dedup();
        self.learned = learned;
    }
}

impl Machine {
    /// `true` if a router has a port in the network of the first address.
    pub(super) fn is_near(&self, router: &Router) -> bool {
        let is_near =
            |port: &RouterPort| port.network == self.network && port.is_near(self.addresses[0]);
        router.ports.iter().any(is_near)
    }
}
