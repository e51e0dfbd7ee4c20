//! Matches of ports.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{
    IpFamily, PolicyDirection, PolicyPort, PortNumbers, Protocol, format_address,
};
use patchbay_zone::PlacedPod;

/// Text of the identity of an ACL without protocol.
const NO_PROTOCOL: &str = "None";

/// Match of the ports of one protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PortMatch {
    /// Name of the protocol, as the ACL's identity has it.
    pub(super) protocol: &'static str,
    /// Text of the match. `None`: all packets.
    pub(super) text: Option<String>,
}

/// The pods that receive packets of a rule. Their containers give numbers to named ports.
pub(super) struct Receivers<'a> {
    pub(super) network: &'a str,
    pub(super) direction: PolicyDirection,
    /// `true` if the rule's packets may have other receivers, which have no named ports.
    pub(super) has_others: bool,
    pub(super) pods: Vec<&'a PlacedPod>,
}

/// Matches of the ports of a rule, one for each protocol of which any packet is allowed.
pub(super) fn port_matches(
    ports: Option<&[PolicyPort]>,
    receivers: &Receivers<'_>,
) -> Vec<PortMatch> {
    let Some(ports) = ports else {
        return vec![PortMatch { protocol: NO_PROTOCOL, text: None }];
    };
    let matches = Protocol::ALL.into_iter().filter_map(|protocol| {
        let numbers = ports.iter().filter(|port| port.protocol == protocol);
        let numbers: Vec<&PortNumbers> = numbers.map(|port| &port.numbers).collect();
        let name = word(protocol);
        Some(PortMatch {
            protocol: name,
            text: Some(match_of(name, protocol, &numbers, receivers)?),
        })
    });
    matches.collect()
}

/// Name of a protocol in matches.
pub(super) const fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// Match of the ports of one protocol. `None`: no packet is allowed.
fn match_of(
    name: &str,
    protocol: Protocol,
    numbers: &[&PortNumbers],
    receivers: &Receivers<'_>,
) -> Option<String> {
    if numbers.contains(&&PortNumbers::All) {
        return Some(name.to_owned());
    }
    let (mut single, mut others) = (Vec::new(), Vec::new());
    for one in numbers {
        match one {
            PortNumbers::All => {}
            PortNumbers::One(number) => single.push(number.to_string()),
            PortNumbers::Range(first, last) if first == last => single.push(first.to_string()),
            PortNumbers::Range(first, last) => {
                others.push(format!("{first}<={name}.dst<={last}"));
            }
            PortNumbers::Name(port) => match receivers.numbers(port, protocol) {
                NamedPort::Same(number) => single.push(number.to_string()),
                NamedPort::ByPod(terms) => {
                    others.extend(terms.into_iter().map(|(number, receivers)| {
                        format!("({name}.dst=={number} && {receivers})")
                    }));
                }
            },
        }
    }
    let mut terms = match single.as_slice() {
        [] => Vec::new(),
        [number] => vec![format!("{name}.dst=={number}")],
        numbers => vec![format!("{name}.dst=={{{}}}", numbers.join(","))],
    };
    terms.extend(others);
    match terms.as_slice() {
        [] => None,
        [term] => Some(format!("{name} && {term}")),
        terms => Some(format!("{name} && ({})", terms.join(" || "))),
    }
}

/// Numbers of a named port.
enum NamedPort {
    /// All receivers have this number.
    Same(u16),
    /// Matches of the receivers by their number.
    ByPod(BTreeMap<u16, String>),
}

impl Receivers<'_> {
    /// The receivers of packets to or from peers by address. Destinations by address are no pods.
    pub(super) fn of_blocks(&self) -> Self {
        Receivers {
            pods: match self.direction {
                PolicyDirection::Ingress => self.pods.clone(),
                PolicyDirection::Egress => Vec::new(),
            },
            ..*self
        }
    }

    fn numbers(&self, port: &str, protocol: Protocol) -> NamedPort {
        let mut pods_of = BTreeMap::<Option<u16>, Vec<&PlacedPod>>::new();
        for pod in &self.pods {
            let number = pod.pod.named_port(port, protocol);
            pods_of.entry(number).or_default().push(pod);
        }
        if let (false, 1, Some((Some(number), _))) =
            (self.has_others, pods_of.len(), pods_of.first_key_value())
        {
            return NamedPort::Same(*number);
        }
        let of_number = pods_of.into_iter().filter_map(|(number, pods)| {
            let receivers = match self.direction {
                PolicyDirection::Ingress => self.ports(&pods),
                PolicyDirection::Egress => self.addresses(&pods),
            };
            Some((number?, receivers?))
        });
        NamedPort::ByPod(of_number.collect())
    }

    /// Match of packets to the switch ports of pods.
    fn ports(&self, pods: &[&PlacedPod]) -> Option<String> {
        let places = pods.iter().flat_map(|pod| pod.places_in(self.network));
        let ports: BTreeSet<String> = places.map(|place| format!("\"{}\"", place.port)).collect();
        (!ports.is_empty()).then(|| format!("outport == {}", set_of(ports)))
    }

    /// Match of packets to the addresses of pods.
    fn addresses(&self, pods: &[&PlacedPod]) -> Option<String> {
        let places = pods.iter().flat_map(|pod| pod.places_in(self.network));
        let addresses = places.flat_map(|place| &place.addresses.addresses);
        let mut by_family = BTreeMap::<&str, BTreeSet<String>>::new();
        for net in addresses {
            let family = ip_word(IpFamily::of_net(*net));
            let of_family = by_family.entry(family).or_default();
            of_family.insert(format_address(net.addr()));
        }
        let terms: Vec<String> = by_family
            .into_iter()
            .map(|(family, addresses)| format!("{family}.dst == {}", set_of(addresses)))
            .collect();
        match terms.as_slice() {
            [] => None,
            [term] => Some(term.clone()),
            terms => Some(format!("({})", terms.join(" || "))),
        }
    }
}

fn set_of(values: BTreeSet<String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    format!("{{{}}}", values.join(", "))
}

/// Name of a family in matches.
pub(super) const fn ip_word(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip4",
        IpFamily::V6 => "ip6",
    }
}
