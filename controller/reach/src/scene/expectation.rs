//! Expectations about the ways between machines.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::Serialize;

use super::{Ports, Reached, Scene};
use crate::mentions::{FactIds, Facts};
use crate::question::{Destination, Protocol};
use crate::similar;
use crate::zones::{Course, Machine, natural_key};

/// Prefix of networks of cluster-wide custom resources.
const CLUSTER_PREFIX: &str = "cluster_udn_";

/// Expectation such as `shop/web reaches db tcp 5432`, or `blue never reaches red`.
///
/// ```
/// use patchbay_reach::Expectation;
///
/// let expectation: Expectation = "blue never reaches red".parse()?;
/// assert_eq!(expectation.to_string(), "blue never reaches red");
/// assert!("blue reaches".parse::<Expectation>().is_err());
/// # Ok::<(), patchbay_reach::ExpectationError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expectation {
    from: String,
    to: String,
    is_reached: bool,
    /// `None`: echo requests if the destination is reached; otherwise all packets.
    protocol: Option<Protocol>,
}

/// Error: an expectation cannot be read or checked.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectationError {
    /// The text is no expectation.
    #[error(
        "expected `SENDER reaches DESTINATION [PROTOCOL PORT]` or `SENDER never reaches \
         DESTINATION [PROTOCOL PORT]`"
    )]
    Text,
    /// The protocol cannot be read.
    #[error(transparent)]
    Protocol(#[from] crate::question::ProtocolError),
    /// A name means no machine.
    #[error("no pod, network, namespace or switch port is named {name}{}", similar::hint(similar))]
    Unknown {
        /// The name.
        name: String,
        /// Names that may be meant.
        similar: Vec<String>,
    },
    /// No two machines are meant.
    #[error("{from} and {to} are one machine, which sends no packet to itself")]
    NoPair {
        /// Sender.
        from: String,
        /// Destination.
        to: String,
    },
}

/// Result of the check of an expectation.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Number of pairs of senders and destinations.
    pub pairs: usize,
    /// Packets that do what is not expected: one of each pair of classes. Empty: the expectation
    /// holds.
    pub violations: Vec<Violation>,
}

/// Packet that does what is not expected.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Sender.
    pub from: String,
    /// Destination.
    pub to: String,
    /// Protocol and ports.
    pub protocol: Ports,
    /// The packet. `None`: it cannot be sent, such as for want of a common address family.
    #[serde(flatten)]
    pub course: Option<Course>,
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (from, is_reached, to, rest) = match words[..] {
            [from, "reaches", to, ref rest @ ..] => (from, true, to, rest),
            [from, "never", "reaches", to, ref rest @ ..] => (from, false, to, rest),
            _ => return Err(ExpectationError::Text),
        };
        let protocol = if rest.is_empty() { None } else { Some(rest.join(" ").parse()?) };
        Ok(Self { from: from.to_owned(), to: to.to_owned(), is_reached, protocol })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_reached { "reaches" } else { "never reaches" };
        write!(f, "{} {verb} {}", self.from, self.to)?;
        self.protocol.map_or(Ok(()), |protocol| write!(f, " {protocol}"))
    }
}

impl Scene<'_> {
    /// Checks an expectation: all machines that the sender's name means reach all of the
    /// destination's, or none of them reaches any.
    ///
    /// # Errors
    /// A name means no machine, or both mean the same one only.
    pub fn check(&self, expectation: &Expectation) -> Result<Checked, ExpectationError> {
        let Expectation { from, to, is_reached, protocol } = expectation;
        let ports = match protocol {
            Some(protocol) => vec![Ports::one(*protocol)],
            None if *is_reached => vec![Ports::one(Protocol::Icmp)],
            None => self.ports.clone(),
        };
        let senders = self.by_class(self.selected(from)?);
        let mut checked = Checked { pairs: 0, violations: Vec::new() };
        if let Some(destination) = outside(to) {
            for class in senders {
                checked.pairs += class.len();
                let ask = |protocol| self.ask_for(class.first()?, &destination, protocol);
                checked.add((class.first().copied(), to), &ports, *is_reached, ask);
            }
            return Ok(checked);
        }
        let receivers = self.by_class(self.selected(to)?);
        for class in &senders {
            for others in &receivers {
                let mut pairs =
                    class.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
                let Some((sender, receiver)) = pairs.find(|(one, other)| one != other) else {
                    continue;
                };
                let same = class.iter().filter(|name| others.contains(name)).count();
                checked.pairs += class.len() * others.len() - same;
                let ask = |protocol| self.ask(sender, receiver, protocol);
                checked.add((Some(sender), receiver), &ports, *is_reached, ask);
            }
        }
        if checked.pairs == 0 {
            return Err(ExpectationError::NoPair { from: from.clone(), to: to.clone() });
        }
        Ok(checked)
    }

    /// The machines that a name means: a pod, the pods of a network or of a namespace, a switch
    /// port, or all whose names have the parts between `*`.
    fn selected(&self, name: &str) -> Result<Vec<&str>, ExpectationError> {
        let matches: [&dyn Fn(&Machine<'_>) -> bool; 4] = [
            &|machine| is_like(&machine.name, name),
            &|machine| machine.ports.iter().any(|place| is_network(place.network(), name)),
            &|machine| machine.name.split_once('/').is_some_and(|(namespace, _)| namespace == name),
            &|machine| machine.ports.iter().any(|place| is_like(place.name(), name)),
        ];
        for is_meant in matches {
            let meant = self.machines.values().filter(|machine| is_meant(machine));
            let names: Vec<&str> = meant.map(|machine| machine.name.as_str()).collect();
            if !names.is_empty() {
                return Ok(names);
            }
        }
        let networks = self.machines.values().flat_map(|machine| &machine.ports);
        let networks = networks.filter_map(|place| place.network().map(short));
        let namespaces = self.machines().filter_map(|name| Some(name.split_once('/')?.0));
        let all = self.machines().chain(networks).chain(namespaces).map(str::to_owned);
        let similar = similar::names(name, &all.collect());
        Err(ExpectationError::Unknown { name: name.to_owned(), similar })
    }

    /// Machines by class.
    fn by_class<'s>(&'s self, names: Vec<&'s str>) -> Vec<Vec<&'s str>> {
        let mut ids = FactIds::default();
        let mut classes: BTreeMap<Facts, Vec<&str>> = BTreeMap::new();
        for name in names {
            let facts = self.facts(&self.machines[name], &mut ids);
            classes.entry(facts).or_default().push(name);
        }
        let mut classes: Vec<_> = classes.into_values().collect();
        for class in &mut classes {
            class.sort_by_cached_key(|name| natural_key(name));
        }
        classes.sort_by_cached_key(|class| class.first().map(|name| natural_key(name)));
        classes
    }
}

impl Checked {
    /// Adds the packets between two machines that do what is not expected.
    fn add(
        &mut self,
        (from, to): (Option<&str>, &str),
        ports: &[Ports],
        is_expected: bool,
        ask: impl Fn(Protocol) -> Option<Reached>,
    ) {
        for protocol in ports {
            let reached = ask(protocol.sample());
            let is_unknown = reached.as_ref().is_some_and(|one| one.course.is_unasked());
            let is_reached = reached.as_ref().is_some_and(|one| one.is_connected);
            if is_unknown || is_reached != is_expected {
                self.violations.push(Violation {
                    from: from.unwrap_or_default().to_owned(),
                    to: to.to_owned(),
                    protocol: *protocol,
                    course: reached.map(|one| one.course),
                });
            }
        }
    }
}

/// The destination that is no machine of the databases: an address, or a service.
fn outside(name: &str) -> Option<Destination> {
    let address = name.parse::<IpAddr>().ok().map(Destination::Address);
    let service = || name.strip_prefix("service/").or(name.strip_prefix("svc/"));
    address.or_else(|| Some(Destination::Service(service()?.to_owned())))
}

/// `true` if a network has this name, with or without the prefix of cluster-wide networks.
fn is_network(network: Option<&str>, name: &str) -> bool {
    network.is_some_and(|network| network == name || short(network) == name)
}

/// Name of a network without the prefix of cluster-wide networks.
fn short(network: &str) -> &str {
    network.strip_prefix(CLUSTER_PREFIX).unwrap_or(network)
}

/// `true` if a name has the parts of a pattern between `*`, in their order.
fn is_like(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(inner) = name.strip_prefix(first).and_then(|name| name.strip_suffix(last)) else {
        return false;
    };
    let mut inner = Some(inner);
    for part in between.split('*') {
        inner = inner.and_then(|text| text.split_once(part).map(|(_, behind)| behind));
    }
    inner.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_the_parts_in_their_order() {
        for (pattern, name, expected) in [
            ("shop/web", "shop/web", true),
            ("shop/web", "shop/web-1", false),
            ("shop/*", "shop/web-1", true),
            ("*-1", "shop/web-1", true),
            ("s*w*1", "shop/web-1", true),
            ("s*1*w*", "shop/web-1", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{pattern} {name}");
        }
    }
}
