//! Ranges of destination ports that no row of a database distinguishes.

use std::collections::BTreeSet;
use std::fmt;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{Acl, LogicalRouterPolicy};
use serde::{Serialize, Serializer};

use crate::question::Protocol;

/// The protocol with a destination port.
type WithPort = fn(u16) -> Protocol;

/// Protocols with ports, as matches name them.
const FIELDS: [(&str, WithPort); 3] =
    [("tcp", Protocol::Tcp), ("udp", Protocol::Udp), ("sctp", Protocol::Sctp)];

/// Packets of a protocol whose destination ports no row distinguishes.
///
/// ```
/// use patchbay_reach::{Ports, Protocol};
///
/// let port = Ports::one(Protocol::Tcp(80));
/// assert_eq!((port.sample(), port.to_string()), (Protocol::Tcp(80), "tcp 80".to_owned()));
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ports {
    sample: Protocol,
    /// Last port of the range, whose first one is that of the sample.
    last: u16,
}

impl Ports {
    /// A protocol with one port, or without ports.
    pub fn one(protocol: Protocol) -> Self {
        Self { sample: protocol, last: protocol.port().unwrap_or_default() }
    }

    /// A protocol with the first port of the range.
    pub fn sample(&self) -> Protocol {
        self.sample
    }

    /// Ranges between the ports that the matches of databases name, for TCP and for each protocol
    /// that they name, and echo requests.
    pub(super) fn of_matches<'s>(snapshots: impl IntoIterator<Item = &'s Snapshot>) -> Vec<Self> {
        let mut named = FIELDS.map(|(name, _)| (name, name == "tcp", BTreeSet::from([1])));
        for snapshot in snapshots {
            let acls = snapshot.typed::<Acl>();
            let policies = snapshot.typed::<LogicalRouterPolicy>();
            let acls = acls.rows().filter_map(|row| Some(acls.read(row).ok()?.r#match));
            let policies = policies.rows().filter_map(|row| Some(policies.read(row).ok()?.r#match));
            for text in acls.chain(policies) {
                for (name, is_named, starts) in &mut named {
                    if text.contains(*name) {
                        *is_named = true;
                        starts.extend(starts_in(&text));
                    }
                }
            }
        }
        let starts = named.into_iter().zip(FIELDS).filter(|((_, is_named, _), _)| *is_named);
        Self::between(starts.map(|((_, _, starts), (_, protocol))| (protocol, starts)))
    }

    /// Ranges that neither of two lists divides.
    pub(super) fn of_both(one: &[Self], other: &[Self]) -> Vec<Self> {
        let starts = FIELDS.iter().map(|(_, protocol)| {
            let all = one
                .iter()
                .chain(other)
                .filter_map(|ports| ports.sample.port().zip(Some(ports.sample)));
            let own = all.filter(|(port, sample)| protocol(*port) == *sample);
            (*protocol, own.map(|(port, _)| port).collect::<BTreeSet<u16>>())
        });
        Self::between(starts)
    }

    /// Echo requests, and the ranges that begin with these ports.
    fn between(starts: impl Iterator<Item = (WithPort, BTreeSet<u16>)>) -> Vec<Self> {
        let mut all = vec![Self::one(Protocol::Icmp)];
        for (protocol, starts) in starts {
            let ends = starts.iter().skip(1).map(|next| next - 1).chain([u16::MAX]);
            let ranges = starts.iter().zip(ends);
            all.extend(ranges.map(|(first, last)| Self { sample: protocol(*first), last }));
        }
        all
    }
}

/// First ports of the ranges that the numbers of a match bound.
fn starts_in(text: &str) -> impl Iterator<Item = u16> {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | ':' | '_' | '/');
    let numbers = text.split(is_separator).filter_map(|word| word.parse::<u16>().ok());
    numbers.flat_map(|port| [Some(port), port.checked_add(1)]).flatten().filter(|port| *port > 0)
}

/// `icmp`, `tcp 80` or `tcp 81-65535`.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sample)?;
        match self.sample.port() {
            Some(first) if first != self.last => write!(f, "-{}", self.last),
            _ => Ok(()),
        }
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_matches_bound_ranges() {
        let text = "ip4.src == 10.0.0.1/24 && tcp.dst == {80, 443} && inport == \"a_7\"";
        assert_eq!(starts_in(text).collect::<Vec<_>>(), [80, 81, 443, 444]);
        assert_eq!(starts_in("tcp.dst <= 65535").collect::<Vec<_>>(), [65535]);
        assert_eq!(starts_in("0 <= udp.dst").collect::<Vec<_>>(), [1]);
    }
}
