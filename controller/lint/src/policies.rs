//! Policies of a VPC's router, and packets that are tried on them.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_reach::{PolicyMatch, PolicyMatchError, PolicyPacket, Protocol};
use patchbay_resources::object::kube_ovn::VpcPolicyRoute;

use crate::cluster::{Cluster, VpcView};
use crate::ranges::{is_ipv4, next_address, read_net};

/// Maximum number of constants of one kind that are taken out of a match.
const MAX_CONSTANTS: usize = 8;
/// Port of packets that no match is about.
const OTHER_PORT: u16 = 50_000;
/// Addresses of the internet, reserved for documentation, that no match is about.
const OTHER_ADDRESSES: [&str; 2] = ["203.0.113.113", "2001:db8:113::113"];

/// A policy of a VPC's router.
pub(crate) struct Policy<'a> {
    pub(crate) index: usize,
    pub(crate) spec: &'a VpcPolicyRoute,
    pub(crate) parsed: Result<PolicyMatch, PolicyMatchError>,
}

impl<'a> Policy<'a> {
    /// Policies of a VPC.
    pub(crate) fn of(cluster: &Cluster<'a>, vpc: &VpcView<'a>) -> Vec<Self> {
        let ports = ports(cluster, vpc);
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let policies = vpc.spec.policy_routes.iter().enumerate();
        policies
            .map(|(index, spec)| Policy {
                index,
                spec,
                parsed: PolicyMatch::parse(&spec.match_, &ports),
            })
            .collect()
    }

    /// Path of the policy.
    pub(crate) fn field(&self) -> String {
        format!("spec.policyRoutes[{}]", self.index)
    }

    /// `true` if a packet matches. A match that OVN rejects matches nothing.
    pub(crate) fn matches(&self, packet: &PolicyPacket<'_>) -> bool {
        self.parsed.as_ref().is_ok_and(|parsed| parsed.matches(packet))
    }

    /// `true` if the policy drops packets.
    pub(crate) fn is_drop(&self) -> bool {
        self.spec.action == "drop"
    }

    /// Next hops of a policy that reroutes packets.
    pub(crate) fn next_hops(&self) -> Vec<IpAddr> {
        let texts = self.spec.next_hop_ip.split(',').filter(|_| self.spec.action == "reroute");
        texts.filter_map(|text| text.trim().parse().ok()).collect()
    }
}

/// Names of a router's ports.
pub(crate) fn ports(cluster: &Cluster<'_>, vpc: &VpcView<'_>) -> Vec<String> {
    let mut ports: Vec<String> =
        (cluster.router_networks(vpc).into_iter()).map(|(port, _)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Packets that are tried on policies: all combinations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) destinations: Vec<IpAddr>,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) inputs: Vec<Option<String>>,
}

impl Probes {
    /// Packets of the machines of a VPC to the internet, by all protocols.
    pub(crate) fn of(cluster: &Cluster<'_>, vpc: &VpcView<'_>) -> Self {
        let mut probes = Self {
            destinations: OTHER_ADDRESSES.iter().filter_map(|text| text.parse().ok()).collect(),
            protocols: vec![Protocol::Icmp, Protocol::Tcp(OTHER_PORT), Protocol::Udp(OTHER_PORT)],
            ..Self::default()
        };
        for subnet in cluster.overlays_of(vpc).take(MAX_CONSTANTS) {
            probes.sources.extend(subnet.cidrs.iter().filter_map(inner_address));
            probes.inputs.push(Some(format!("{}-{}", vpc.name, subnet.name)));
        }
        if probes.sources.is_empty() {
            probes
                .sources
                .extend(OTHER_ADDRESSES.iter().filter_map(|text| text.parse::<IpAddr>().ok()));
            probes.inputs.push(None);
        }
        probes
    }

    /// Adds the constants of a match: as sources, destinations and ports.
    pub(crate) fn with_constants(mut self, text: &str) -> Self {
        let words =
            text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/')));
        for word in words.filter(|word| !word.is_empty()) {
            if let Some(net) = read_net(word) {
                let address = if net.prefix_len() == net.max_prefix_len() {
                    Some(net.addr())
                } else {
                    inner_address(&net)
                };
                push(&mut self.sources, address);
                push(&mut self.destinations, address);
            } else if let Ok(port) = word.parse::<u16>() {
                push(&mut self.protocols, Some(Protocol::Tcp(port)));
                push(&mut self.protocols, Some(Protocol::Udp(port)));
            }
        }
        self
    }

    /// The first packet for which a condition holds.
    pub(crate) fn find(
        &self,
        mut condition: impl FnMut(&PolicyPacket<'_>) -> bool,
    ) -> Option<(IpAddr, IpAddr)> {
        for source in &self.sources {
            let same_family = |one: &&IpAddr| is_ipv4(one) == is_ipv4(source);
            for destination in self.destinations.iter().filter(same_family) {
                for protocol in &self.protocols {
                    for input in &self.inputs {
                        let packet = PolicyPacket {
                            source: *source,
                            destination: *destination,
                            protocol: *protocol,
                            input: input.as_deref(),
                        };
                        if condition(&packet) {
                            return Some((*source, *destination));
                        }
                    }
                }
            }
        }
        None
    }
}

/// Adds a new value, as long as there are few.
fn push<T: PartialEq>(values: &mut Vec<T>, value: Option<T>) {
    if let Some(value) = value
        && values.len() < 3 * MAX_CONSTANTS
        && !values.contains(&value)
    {
        values.push(value);
    }
}

/// An address in the middle of a network, which no machine is known to have.
fn inner_address(net: &IpNet) -> Option<IpAddr> {
    let first = next_address(net.network())?;
    let second = next_address(first).filter(|address| net.contains(address));
    second.or(Some(first)).filter(|address| net.contains(address)).or(Some(net.addr()))
}

/// Addresses of an external subnet that a wall has to cover: all of a small one, and the edges of a
/// large one. The gateway may be open.
pub(crate) fn wall_addresses(net: &IpNet, gateways: &[IpAddr]) -> Vec<IpAddr> {
    const MAX_ADDRESSES: usize = 64;
    let from = |first: IpAddr| {
        let all = std::iter::successors(Some(first), |address| next_address(*address));
        all.take_while(|address| net.contains(address))
    };
    let mut addresses: Vec<IpAddr> = from(net.network()).take(MAX_ADDRESSES).collect();
    let mut halves = vec![*net];
    // The edges of each half, quarter and so on.
    while let Some(half) = halves.pop() {
        addresses.extend([half.network(), half.broadcast()]);
        let longer = half.prefix_len() + 1;
        if longer <= net.prefix_len() + 4 && longer <= net.max_prefix_len() {
            halves.extend(half.subnets(longer).into_iter().flatten());
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses.retain(|address| !gateways.contains(address));
    addresses
}
