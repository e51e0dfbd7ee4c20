//! Random questions about a cloud. What a machine sends follows from the subnets of Neutron.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_reach::{Destination, Protocol, Question, Sender};

use super::neighbors::{OUTSIDE_HOST, Owner};
use super::{Cloud, Machine, NetworkKind, Subnet, host};
use crate::arp::ArpRequest;
use crate::compare::{Asked, TracedPacket};
use crate::headers::Headers;
use crate::neighbor::Resolved;
use crate::random::Random;

/// MAC address of a machine outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";
/// Address beyond the external networks.
const FAR_ADDRESS: &str = "8.8.8.8";
/// Number of the gateway of a network in its subnets.
const GATEWAY_HOST: u32 = 1;
/// Protocols of packets.
const PROTOCOLS: [Protocol; 8] = [
    Protocol::Icmp,
    Protocol::Icmp,
    Protocol::Tcp(80),
    Protocol::Tcp(80),
    Protocol::Tcp(22),
    Protocol::Tcp(8080),
    Protocol::Udp(53),
    Protocol::Tcp(443),
];

/// Neighbour to which a machine sends.
enum NextHop {
    /// IP address that it resolves.
    Address(IpAddr),
    /// It has no route.
    None,
    /// Several routers are in its network, and nothing names one.
    Unclear,
}

/// MAC address for an IP address.
enum Resolution {
    /// MAC address. The request is not followed for IPv6 and outside.
    Mac(String, Option<ArpRequest>),
    Nothing,
    /// It depends on the chassis.
    Unclear,
}

/// A random question. `resolve` finds out who answers the request of a machine. `None`: the
/// addresses that were picked do not fit together, or nothing names the gateway.
pub(crate) fn question(
    cloud: &Cloud,
    random: &mut Random,
    resolve: &mut dyn FnMut(&str, &ArpRequest) -> Resolved,
) -> Option<Asked> {
    let destination = *random.pick(&cloud.destinations);
    let protocol = *random.pick(&PROTOCOLS);
    let outer: Vec<_> =
        (0..cloud.networks.len()).filter(|own| cloud.networks[*own].localnet.is_some()).collect();
    let mut asking = Asking { cloud, destination, protocol, resolve };
    if !outer.is_empty() && random.chance(20) {
        let network = *random.pick(&outer);
        return asking.ask_outside(random, network);
    }
    if cloud.machines.is_empty() {
        return None;
    }
    asking.ask_machine(random.pick(&cloud.machines))
}

/// Question whose sender is to be found.
struct Asking<'a> {
    cloud: &'a Cloud,
    destination: IpAddr,
    protocol: Protocol,
    resolve: &'a mut dyn FnMut(&str, &ArpRequest) -> Resolved,
}

impl Asking<'_> {
    fn ask_machine(&mut self, machine: &Machine) -> Option<Asked> {
        let is_ipv4 = self.destination.is_ipv4();
        let mut own = machine.addresses.iter();
        let source = *own.find(|address| address.is_ipv4() == is_ipv4)?;
        if machine.addresses.contains(&self.destination) {
            return None;
        }
        let sender = Sender::port(&machine.port);
        let target = match self.cloud.next_hop(machine, source, self.destination) {
            // A host route may lead past the machine itself.
            NextHop::Address(target) if machine.addresses.contains(&target) => return None,
            NextHop::Address(target) => target,
            NextHop::None => return Some(self.asked(sender, None)),
            NextHop::Unclear => return None,
        };
        let place = (machine.port.as_str(), machine.mac.as_str(), source);
        let packet = match self.mac_of(machine.network, place, target) {
            Resolution::Mac(mac, arp) => {
                Some(TracedPacket { arp, ..self.packet(machine.network, place, &mac) })
            }
            Resolution::Nothing => None,
            Resolution::Unclear => return None,
        };
        Some(self.asked(sender, packet))
    }

    /// A packet of a machine on the VLAN of a network, or of one beyond an external network.
    fn ask_outside(&mut self, random: &mut Random, number: usize) -> Option<Asked> {
        let network = &self.cloud.networks[number];
        let port = network.localnet.as_deref()?;
        let subnets: Vec<_> = self.cloud.subnets(number, self.destination.is_ipv4()).collect();
        if subnets.is_empty() {
            return None;
        }
        let range = random.pick(&subnets).range;
        let is_far = network.kind == NetworkKind::External && range.addr().is_ipv4();
        let is_far = is_far && random.chance(40);
        let far = FAR_ADDRESS.parse().ok()?;
        let source = if is_far { far } else { host(range, OUTSIDE_HOST) };
        if self.destination == source {
            return None;
        }
        let sender =
            Sender { ip: Some(source), mac: Some(OUTSIDE_MAC.to_owned()), ..Sender::port(port) };
        let is_near = |subnet: &&Subnet| subnet.range.contains(&self.destination);
        if range.contains(&self.destination) || is_far && subnets.iter().any(is_near) {
            // Machines beyond the network are behind its gateway, which sends the request.
            let asker = if is_far { host(range, GATEWAY_HOST) } else { source };
            let packet = match self.mac_of(number, (port, OUTSIDE_MAC, asker), self.destination) {
                Resolution::Mac(mac, _) => {
                    Some(self.packet(number, (port, OUTSIDE_MAC, source), &mac))
                }
                Resolution::Nothing => None,
                Resolution::Unclear => return None,
            };
            return Some(self.asked(sender, packet));
        }
        let routers = self.cloud.ports_on(number);
        let routers: Vec<_> =
            routers.filter(|(router, _)| self.cloud.routers[*router].is_enabled).collect();
        if routers.is_empty() {
            return None;
        }
        let (_, router_port) = *random.pick(&routers);
        let sender = Sender { mac_of: Some(router_port.name.clone()), ..sender };
        let packet = self.packet(number, (port, OUTSIDE_MAC, source), &router_port.mac);
        Some(self.asked(sender, Some(packet)))
    }

    fn asked(&self, sender: Sender, packet: Option<TracedPacket>) -> Asked {
        Asked {
            question: Question {
                sender,
                destination: Destination::Address(self.destination),
                protocol: self.protocol,
            },
            packet,
        }
    }

    fn packet(
        &self,
        network: usize,
        (port, mac, source): (&str, &str, IpAddr),
        target_mac: &str,
    ) -> TracedPacket {
        let headers = Headers {
            port,
            macs: [mac, target_mac],
            source,
            destination: self.destination,
            protocol: self.protocol,
        };
        TracedPacket {
            datapath: self.cloud.networks[network].switch.clone(),
            expression: headers.expression(),
            arp: None,
        }
    }

    /// MAC address that a machine on a network finds for an address there.
    fn mac_of(
        &mut self,
        network: usize,
        (port, mac, source): (&str, &str, IpAddr),
        target: IpAddr,
    ) -> Resolution {
        let cloud = self.cloud;
        let owner = cloud.owner(network, target, None);
        if target.is_ipv6() {
            return match owner {
                // The switch answers for machines without the address `unknown`.
                Owner::Machine(machine)
                    if machine.is_enabled || machine.has_security && !is_outside(cloud, port) =>
                {
                    Resolution::Mac(machine.mac.clone(), None)
                }
                Owner::Router(mac) => Resolution::Mac(mac, None),
                Owner::Outside if !is_outside(cloud, port) => {
                    Resolution::Mac(OUTSIDE_MAC.to_owned(), None)
                }
                Owner::Service => Resolution::Unclear,
                Owner::Machine(_) | Owner::Outside | Owner::Nobody => Resolution::Nothing,
            };
        }
        let switch = &cloud.networks[network].switch;
        let request = ArpRequest::new(port, mac, &source.to_string(), &target.to_string());
        match ((self.resolve)(switch, &request), owner) {
            (Resolved::Mac(mac), _) => Resolution::Mac(mac, Some(request)),
            (Resolved::Asked(ports), Owner::Machine(machine)) if ports.contains(&machine.port) => {
                let owner = [switch, machine.port.as_str(), machine.mac.as_str()];
                Resolution::Mac(machine.mac.clone(), Some(request.owned_by(owner)))
            }
            (Resolved::Asked(ports), Owner::Outside) => {
                let localnet = cloud.networks[network].localnet.as_ref();
                if localnet.is_some_and(|localnet| ports.contains(localnet)) {
                    Resolution::Mac(OUTSIDE_MAC.to_owned(), None)
                } else {
                    Resolution::Nothing
                }
            }
            (Resolved::Asked(_), Owner::Service) => Resolution::Unclear,
            (Resolved::Asked(_), _) => Resolution::Nothing,
        }
    }
}

/// `true` if a port leads outside.
fn is_outside(cloud: &Cloud, port: &str) -> bool {
    let mut networks = cloud.networks.iter();
    networks.any(|network| network.localnet.as_deref() == Some(port))
}

impl Cloud {
    /// The neighbour to which a machine sends packets for a destination.
    fn next_hop(&self, machine: &Machine, source: IpAddr, destination: IpAddr) -> NextHop {
        let mut subnets = self.subnets(machine.network, source.is_ipv4());
        let Some(subnet) = subnets.find(|subnet| subnet.range.contains(&source)) else {
            return NextHop::None;
        };
        let mut routes: Vec<(IpNet, IpAddr)> = Vec::new();
        let is_served = subnet.has_dhcp && (subnet.gateway.is_some() || subnet.metadata.is_some());
        if is_served {
            routes.extend(subnet.routes());
            if routes.is_empty()
                && let Some(gateway) = subnet.gateway
            {
                let any = "0.0.0.0/0".parse().expect("a range is written as such");
                routes.push((any, gateway));
            }
        }
        let own = subnet.range;
        let fitting = routes.iter().filter(|(range, _)| range.contains(&destination));
        match fitting.max_by_key(|(range, _)| range.prefix_len()) {
            Some((range, hop))
                if range.prefix_len() > own.prefix_len() || !own.contains(&destination) =>
            {
                return NextHop::Address(*hop);
            }
            _ if own.contains(&destination) => return NextHop::Address(destination),
            _ => {}
        }
        let ports = self
            .ports_on(machine.network)
            .filter(|(router, _)| self.routers[*router].is_enabled)
            .flat_map(|(_, port)| &port.addresses);
        let near: Vec<_> = ports.filter(|own| own.contains(&source)).collect();
        match near[..] {
            [] if is_served => NextHop::None,
            [] if self.ports_on(machine.network).next().is_some() => NextHop::Unclear,
            // A router outside may be the gateway.
            [] => match self.owner(machine.network, destination, None) {
                Owner::Outside => NextHop::Address(host(own, GATEWAY_HOST)),
                Owner::Machine(_) | Owner::Router(_) | Owner::Service => NextHop::Unclear,
                Owner::Nobody => NextHop::None,
            },
            [only] => NextHop::Address(only.addr()),
            _ => NextHop::Unclear,
        }
    }
}
