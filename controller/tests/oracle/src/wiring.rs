//! Packets that machines send, from the addresses of the ports on each switch.
//!
//! This is derived without `patchbay_reach`, so that a wrong next hop there is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_reach::{Protocol, Sender};
use patchbay_schemas::nb::{
    LoadBalancer, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
    LogicalSwitchPort, Nat,
};

use crate::arp::ArpRequest;
use crate::compare::TracedPacket;
use crate::headers::Headers;
use crate::ovn::LearnedNeighbor;

/// MAC address of a machine outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";

/// Headers of a sender's packet.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A packet.
    Packet(TracedPacket),
    /// Nothing, because no port has the address that it resolves.
    Nothing,
    /// Not determined by rows: the sender has no address of the family, or several neighbours
    /// answer.
    Unclear,
}

/// Ports and addresses of all switches.
#[derive(Debug, Default)]
pub struct Wiring {
    switches: Vec<Switch>,
    /// Number of the switch, by the name of the switch port.
    ports: BTreeMap<String, usize>,
    /// Router ports behind which machines are learned.
    outer: Vec<RouterPort>,
    /// Addresses that routers have beside those of their ports.
    translated: BTreeSet<IpAddr>,
    next_hops: BTreeSet<IpAddr>,
    router_addresses: Vec<IpAddr>,
}

#[derive(Debug, Default)]
struct Switch {
    name: String,
    machines: Vec<Machine>,
    routers: Vec<RouterPort>,
    subnets: Vec<IpNet>,
    localnet: Option<String>,
}

#[derive(Clone, Debug)]
struct Machine {
    port: String,
    is_local: bool,
    interfaces: Vec<(String, Vec<IpAddr>)>,
}

#[derive(Clone, Debug)]
struct RouterPort {
    name: String,
    mac: String,
    networks: Vec<IpNet>,
}

impl RouterPort {
    fn has(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

impl Wiring {
    /// Reads the rows.
    ///
    /// # Panics
    /// A row has values that the schema of this project forbids.
    pub fn new(snapshot: &Snapshot) -> Self {
        let routers = router_ports(snapshot);
        let mut wiring = Self::default();
        let ports = snapshot.typed::<LogicalSwitchPort>();
        for row in snapshot.typed::<LogicalSwitch>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            let mut switch = Switch { name: row.name, ..Switch::default() };
            let ipv4 = row.other_config.get("subnet").cloned();
            let ipv6 = row.other_config.get("ipv6_prefix");
            let subnets = [ipv4, ipv6.map(|prefix| format!("{prefix}/64"))];
            let subnets = subnets.iter().flatten();
            switch.subnets.extend(subnets.filter_map(|text| text.parse::<IpNet>().ok()));
            for reference in &row.ports {
                let Some(port) = ports.get(reference.uuid).expect("rows fit the schema") else {
                    continue;
                };
                wiring.ports.insert(port.name.clone(), wiring.switches.len());
                switch.add(port, &routers);
            }
            if switch.localnet.is_some() {
                wiring.outer.extend(switch.routers.iter().cloned());
            }
            wiring.switches.push(switch);
        }
        wiring.read_addresses(snapshot);
        wiring
    }

    fn read_addresses(&mut self, snapshot: &Snapshot) {
        let of_text = |text: &str| text.parse::<IpAddr>().ok();
        for row in snapshot.typed::<LogicalRouterPort>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            let port = RouterPort::new(&row);
            let addresses = port.networks.iter().map(IpNet::addr);
            self.router_addresses.extend(addresses);
            if row.peer.is_none() && row.options.contains_key("requested-chassis") {
                self.outer.push(port);
            }
        }
        for row in snapshot.typed::<Nat>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            self.translated.extend(of_text(&row.external_ip));
        }
        for row in snapshot.typed::<LoadBalancer>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            let vips = row.vips.keys().filter_map(|vip| vip_address(vip));
            self.translated.extend(vips);
        }
        for row in snapshot.typed::<LogicalRouterStaticRoute>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            self.next_hops.extend(of_text(&row.nexthop));
        }
        for row in snapshot.typed::<LogicalRouterPolicy>().iter() {
            let (_, row) = row.expect("rows fit the schema");
            let next_hops = row.nexthops.iter().filter_map(|text| of_text(text));
            self.next_hops.extend(next_hops);
        }
    }

    /// Names of the ports of local machines that have an address.
    pub fn local_ports(&self) -> impl Iterator<Item = &str> {
        let machines = self.switches.iter().flat_map(|switch| &switch.machines);
        machines
            .filter(|machine| machine.is_local)
            .filter(|machine| machine.interfaces.iter().any(|(_, all)| !all.is_empty()))
            .map(|machine| &*machine.port)
    }

    /// Names of localnet ports of switches with a router.
    pub fn localnet_ports(&self) -> impl Iterator<Item = &str> {
        let switches = self.switches.iter().filter(|switch| !switch.routers.is_empty());
        switches.filter_map(|switch| switch.localnet.as_deref())
    }

    /// Name of the only router port on the switch of a localnet port. `None`: none or several.
    pub fn router_port_of(&self, localnet: &str) -> Option<String> {
        let switch = &self.switches[*self.ports.get(localnet)?];
        match &switch.routers[..] {
            [router] => Some(router.name.clone()),
            _ => None,
        }
    }

    /// Addresses of machines, of routers, of NAT rules and load balancers, and of next hops.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let machines = self.switches.iter().flat_map(|switch| &switch.machines);
        let interfaces = machines.flat_map(|machine| &machine.interfaces);
        let addresses = interfaces.flat_map(|(_, addresses)| addresses);
        addresses
            .chain(&self.router_addresses)
            .chain(&self.translated)
            .chain(&self.next_hops)
            .copied()
            .collect()
    }

    /// Neighbours outside that routers know when they are asked for these addresses.
    pub fn learned(&self, addresses: &[IpAddr]) -> Vec<LearnedNeighbor> {
        let addresses: BTreeSet<_> = addresses.iter().chain(&self.next_hops).collect();
        let mut learned = BTreeSet::new();
        for port in &self.outer {
            let own = |address: &IpAddr| port.networks.iter().any(|net| net.addr() == *address);
            for address in &addresses {
                if port.has(**address) && !own(address) {
                    learned.insert(LearnedNeighbor::outside(&port.name, **address));
                }
            }
        }
        learned.into_iter().collect()
    }

    /// Packet of a sender to a destination. A sender behind a localnet port has an address.
    pub fn frame(&self, sender: &Sender, destination: IpAddr, protocol: Protocol) -> Frame {
        let Some(port) = &sender.port else {
            return Frame::Unclear;
        };
        let Some(switch) = self.ports.get(port).map(|number| &self.switches[*number]) else {
            return Frame::Unclear;
        };
        if let Some(source) = sender.ip {
            return match &switch.routers[..] {
                [router] => {
                    switch.packet(port, (OUTSIDE_MAC, source), &router.mac, destination, protocol)
                }
                _ => Frame::Unclear,
            };
        }
        let machine = switch.machines.iter().find(|machine| machine.port == *port);
        let own = machine.and_then(|machine| machine.own(destination.is_ipv4()));
        let Some((mac, source)) = own else {
            return Frame::Unclear;
        };
        if source == destination {
            return Frame::Unclear;
        }
        let target = if switch.is_on_link(source, destination) {
            destination
        } else {
            match &switch.gateways(source)[..] {
                [] => return Frame::Nothing,
                [only] => *only,
                _ => return Frame::Unclear,
            }
        };
        match &switch.owners(target)[..] {
            [] if self.translated.contains(&target) || switch.localnet.is_some() => Frame::Unclear,
            [] => Frame::Nothing,
            [owner] => {
                let (owner, owner_mac) = *owner;
                let frame = switch.packet(port, (mac, source), owner_mac, destination, protocol);
                match frame {
                    Frame::Packet(packet) if source.is_ipv4() => {
                        let (address, target) = (source.to_string(), target.to_string());
                        let arp = ArpRequest::new(port, mac, &address, &target);
                        let arp = match owner {
                            Some(port) => arp.owned_by([&switch.name, port, owner_mac]),
                            None => arp,
                        };
                        Frame::Packet(TracedPacket { arp: Some(arp), ..packet })
                    }
                    frame => frame,
                }
            }
            _ => Frame::Unclear,
        }
    }
}

impl Machine {
    /// MAC address and first address of a family.
    fn own(&self, is_ipv4: bool) -> Option<(&str, IpAddr)> {
        self.interfaces.iter().find_map(|(mac, addresses)| {
            let address = addresses.iter().find(|one| one.is_ipv4() == is_ipv4)?;
            Some((mac.as_str(), *address))
        })
    }
}

impl Switch {
    fn add(&mut self, port: LogicalSwitchPort, routers: &BTreeMap<String, RouterPort>) {
        match &*port.r#type {
            "router" => {
                let router = port.options.get("router-port");
                self.routers.extend(router.and_then(|name| routers.get(name)).cloned());
            }
            "localnet" => self.localnet = Some(port.name),
            "" | "remote" => self.machines.push(Machine {
                is_local: port.r#type.is_empty() && port.enabled != Some(false),
                interfaces: port.addresses.iter().filter_map(|text| interface(text)).collect(),
                port: port.name,
            }),
            _ => {}
        }
    }

    fn is_on_link(&self, source: IpAddr, destination: IpAddr) -> bool {
        let of_routers = self.routers.iter().flat_map(|router| &router.networks);
        let mut networks = of_routers.chain(&self.subnets);
        networks.any(|network| network.contains(&source) && network.contains(&destination))
            || self.routers.is_empty() && !self.owners(destination).is_empty()
    }

    /// Addresses of the routers in the network of an address.
    fn gateways(&self, source: IpAddr) -> Vec<IpAddr> {
        let networks = self
            .routers
            .iter()
            .flat_map(|router| &router.networks)
            .filter(|network| network.contains(&source));
        networks.map(IpNet::addr).collect()
    }

    /// Neighbours that have an address: port of a machine, and MAC address.
    fn owners(&self, address: IpAddr) -> Vec<(Option<&str>, &str)> {
        let machines = self.machines.iter().flat_map(|machine| {
            let own = machine
                .interfaces
                .iter()
                .filter(move |(_, addresses)| addresses.contains(&address));
            own.map(|(mac, _)| (Some(machine.port.as_str()), mac.as_str()))
        });
        let routers = self.routers.iter();
        let routers = routers.filter(|port| port.networks.iter().any(|net| net.addr() == address));
        machines.chain(routers.map(|port| (None, port.mac.as_str()))).collect()
    }

    fn packet(
        &self,
        port: &str,
        (mac, source): (&str, IpAddr),
        target_mac: &str,
        destination: IpAddr,
        protocol: Protocol,
    ) -> Frame {
        if source.is_ipv4() != destination.is_ipv4() {
            return Frame::Unclear;
        }
        let headers = Headers { port, macs: [mac, target_mac], source, destination, protocol };
        Frame::Packet(TracedPacket {
            datapath: self.name.clone(),
            expression: headers.expression(),
            arp: None,
        })
    }
}

impl RouterPort {
    fn new(row: &LogicalRouterPort) -> Self {
        let networks = row.networks.iter().filter_map(|text| text.parse().ok());
        Self { name: row.name.clone(), mac: row.mac.clone(), networks: networks.collect() }
    }
}

fn router_ports(snapshot: &Snapshot) -> BTreeMap<String, RouterPort> {
    let rows = snapshot.typed::<LogicalRouterPort>();
    let ports = rows.iter().map(|row| {
        let (_, row) = row.expect("rows fit the schema");
        (row.name.clone(), RouterPort::new(&row))
    });
    ports.collect()
}

/// MAC address and IP addresses of a text such as `0a:00:00:00:00:01 10.0.0.1`.
fn interface(text: &str) -> Option<(String, Vec<IpAddr>)> {
    let mut words = text.split_whitespace();
    let mac = words.next().filter(|word| word.contains(':'))?;
    let addresses = words.filter_map(|word| word.parse().ok()).collect();
    Some((mac.to_owned(), addresses))
}

/// Address of a key such as `10.96.0.1:80` or `[fd00::1]:80`.
fn vip_address(key: &str) -> Option<IpAddr> {
    if let Some(rest) = key.strip_prefix('[') {
        return rest.split_once(']')?.0.parse().ok();
    }
    let address = key.parse().ok();
    address.or_else(|| key.rsplit_once(':')?.0.parse().ok())
}
