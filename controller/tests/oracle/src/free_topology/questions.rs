//! Random questions about a random topology.

use patchbay_reach::{Destination, Protocol, Question, Sender};

use super::family::to_ipv6;
use super::{Families, Machine, Topology};
use crate::arp::ArpRequest;
use crate::compare::{Asked, TracedPacket};
use crate::neighbor::Resolved;
use crate::random::Random;

/// MAC address of a machine outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";

/// A random question. `resolve` finds the MAC address with which a switch or router answers the
/// request of a machine. `None`: the addresses that were picked do not fit together.
pub(crate) fn question(
    topology: &Topology,
    random: &mut Random,
    resolve: &mut dyn FnMut(&str, &ArpRequest) -> Resolved,
) -> Option<Asked> {
    let destination = random.pick(&topology.destinations).clone();
    let (protocol, header) = match random.below(5) {
        0 => (Protocol::Icmp, "icmp4.type == 8 && icmp4.code == 0".to_owned()),
        1 => (Protocol::Udp(53), "udp.src == 40000 && udp.dst == 53".to_owned()),
        2 if random.chance(50) => {
            (Protocol::Sctp(80), "sctp.src == 40000 && sctp.dst == 80".to_owned())
        }
        _ => {
            let port = *random.pick(&[80, 80, 80, 80, 22, 22, 8080, 179]);
            let header = format!("tcp.src == 40000 && tcp.dst == {port} && tcp.flags == 2");
            (Protocol::Tcp(port), header)
        }
    };
    let outside = &topology.outside;
    let (sender, datapath, port, macs, source, arp) = match outside.first() {
        Some(_) if random.chance(20) => {
            let outside = random.pick(outside);
            let sender = Sender {
                ip: outside.address.parse().ok(),
                mac: Some(OUTSIDE_MAC.to_owned()),
                mac_of: Some(outside.router_port.clone()),
                ..Sender::port(&outside.localnet)
            };
            let macs = (OUTSIDE_MAC.to_owned(), outside.router_mac.clone());
            (
                sender,
                outside.switch.clone(),
                outside.localnet.clone(),
                macs,
                outside.address.clone(),
                None,
            )
        }
        _ => {
            let machine = random.pick(&topology.machines).clone();
            let own = |address: &str| address.rsplit_once('.').map(|(net, _)| net.to_owned());
            let neighbor = topology.machines.iter().find(|other| {
                own(&other.address) == own(&machine.address) && other.address == destination
            });
            if destination == machine.address {
                return None;
            }
            let (mac, target) = match neighbor {
                Some(neighbor) if neighbor.has_unknown => return None,
                Some(neighbor) if !topology.has_proxy => {
                    (neighbor.mac.clone(), destination.clone())
                }
                None if destination == machine.gateway_address => {
                    (machine.gateway_mac.clone(), destination.clone())
                }
                _ if own(&destination) == own(&machine.address) => {
                    let request = ArpRequest::new(
                        &machine.port,
                        &machine.mac,
                        &machine.address,
                        &destination,
                    );
                    let switch = &machine.switch;
                    let answer = resolve_inside(topology, switch, &request, neighbor, resolve)?;
                    let Answer::Mac(mac) = answer else {
                        return Some(Asked {
                            question: Question {
                                sender: Sender::port(&machine.port),
                                destination: Destination::Address(destination.parse().ok()?),
                                protocol,
                            },
                            packet: None,
                        });
                    };
                    (mac, destination.clone())
                }
                _ => (machine.gateway_mac.clone(), machine.gateway_address.clone()),
            };
            let macs = (machine.mac.clone(), mac);
            let (port, source) = (machine.port.clone(), machine.address.clone());
            let datapath = machine.switch.clone();
            (
                Sender::port(&port),
                datapath,
                port,
                macs,
                source,
                Some((machine, neighbor.cloned(), target)),
            )
        }
    };
    let mut packet = format!(
        "inport == \"{port}\" && eth.src == {} && eth.dst == {} && ip4.src == {source} && \
         ip4.dst == {destination} && ip.ttl == 64 && {header}",
        macs.0, macs.1
    );
    let (mut sender, mut destination, mut arp) = (sender, destination, arp);
    let is_ipv6 = match topology.families {
        Families::Ipv4 => false,
        Families::Ipv6 => true,
        Families::Both => random.chance(50),
    };
    if is_ipv6 {
        packet = to_ipv6(&packet);
        destination = to_ipv6(&destination);
        sender.ip = sender.ip.and_then(|ip| to_ipv6(&ip.to_string()).parse().ok());
        // ACLs let neighbour discovery pass.
        arp = None;
    }
    let destination = destination.parse().expect("the address is written as one");
    let arp = arp.map(|(machine, neighbor, target)| {
        let arp = ArpRequest::new(&machine.port, &machine.mac, &machine.address, &target);
        match &neighbor {
            Some(owner) => arp.owned_by([&owner.switch, &owner.port, &owner.mac]),
            None => arp,
        }
    });
    Some(Asked {
        question: Question { sender, destination: Destination::Address(destination), protocol },
        packet: Some(TracedPacket { datapath, expression: packet, arp }),
    })
}

/// Answer to a machine's request.
enum Answer {
    Mac(String),
    Nothing,
}

/// Answer to a machine's request for an address of its network. `owner`: the machine that has the
/// address, if it is known. `None`: another machine may have to answer, or the topology has IPv6,
/// whose requests are not followed.
fn resolve_inside(
    topology: &Topology,
    switch: &str,
    request: &ArpRequest,
    owner: Option<&Machine>,
    resolve: &mut dyn FnMut(&str, &ArpRequest) -> Resolved,
) -> Option<Answer> {
    if topology.families != Families::Ipv4 {
        return None;
    }
    let is_silent = |port: &String| {
        let mut machines = topology.machines.iter();
        machines.any(|machine| machine.port == *port && !machine.has_unknown)
    };
    match resolve(switch, request) {
        Resolved::Mac(mac) => Some(Answer::Mac(mac)),
        Resolved::Asked(_) if owner.is_some() => owner.map(|owner| Answer::Mac(owner.mac.clone())),
        Resolved::Asked(ports) => ports.iter().all(is_silent).then_some(Answer::Nothing),
    }
}
