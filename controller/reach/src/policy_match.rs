//! Matches of a router's policies, outside of a database.

use std::net::IpAddr;

use thiserror::Error;

use crate::address::Mac;
use crate::expression::{Match, MatchError, Names};
use crate::northbound::RouterPortId;
use crate::packet::{IpPacket, Packet, Payload, TIME_TO_LIVE};
use crate::question::Protocol;

/// Text that ovn-northd and the parser put before a match: `1 && (`, in bytes.
const PREFIX_BYTES: usize = 6;

/// Match of a policy of a router.
///
/// ```
/// use patchbay_reach::{PolicyMatch, PolicyPacket, Protocol};
///
/// let ports = ["alpha-vpc-external"];
/// let found = PolicyMatch::parse("ip4.dst == 192.0.2.0/24 && tcp", &ports).unwrap();
/// let packet = PolicyPacket {
///     source: "10.0.0.2".parse().unwrap(),
///     destination: "192.0.2.7".parse().unwrap(),
///     protocol: Protocol::Tcp(443),
///     input: None,
/// };
/// assert!(found.matches(&packet));
/// assert_eq!(PolicyMatch::parse("ip4.dst = 192.0.2.7", &ports).unwrap_err().column, 8);
/// ```
#[derive(Debug)]
pub struct PolicyMatch {
    expression: Match,
    /// Names of the router's ports.
    ports: Vec<String>,
}

/// The first packet of a connection, at the policies of a router.
#[derive(Clone, Copy, Debug)]
pub struct PolicyPacket<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol and destination port.
    pub protocol: Protocol,
    /// Name of the router's port by which the packet comes. `None`: a port that no match names.
    pub input: Option<&'a str>,
}

/// Error: OVN rejects a match.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("{reason} at column {column}")]
pub struct PolicyMatchError {
    /// Reason.
    pub reason: &'static str,
    /// Column in the match behind what was read, from 1, in bytes.
    pub column: usize,
}

impl PolicyMatch {
    /// Parses the match of a policy of a router with these ports. Address sets and port groups that
    /// the match names exist, and are empty.
    ///
    /// # Errors
    /// OVN rejects the match.
    pub fn parse(text: &str, ports: &[&str]) -> Result<Self, PolicyMatchError> {
        let mut names = Names::default();
        for (number, name) in (0..).zip(ports) {
            names.add_port(name, RouterPortId::new(number).into());
        }
        for name in marked(text, '$') {
            names.add_address_set(name, []);
        }
        for name in marked(text, '@') {
            names.add_group(name, &[]);
        }
        let expression = Match::parse_nested(text, &names)
            .map_err(|error| PolicyMatchError::new(&error, text))?;
        Ok(Self { expression, ports: ports.iter().map(|&name| name.to_owned()).collect() })
    }

    /// `true` if a packet matches.
    pub fn matches(&self, packet: &PolicyPacket<'_>) -> bool {
        let mut ports = self.ports.iter();
        let input = RouterPortId::new(
            ports.position(|name| Some(&**name) == packet.input).unwrap_or(self.ports.len()) as u32,
        );
        self.expression.matches(&Packet {
            eth_source: Mac::ZERO,
            eth_destination: Mac::ZERO,
            payload: Payload::Ip(IpPacket {
                source: packet.source,
                destination: packet.destination,
                transport: packet.protocol.into(),
            }),
            input: input.into(),
            output: None,
            mark: 0,
            time_to_live: TIME_TO_LIVE,
            dscp: 0,
            is_tracked: false,
        })
    }
}

impl PolicyMatchError {
    fn new(error: &MatchError, text: &str) -> Self {
        let column = error.position.saturating_sub(PREFIX_BYTES) + 1;
        Self {
            reason: error.reason,
            // The parenthesis behind the match is not of it.
            column: column.min(text.len() + 1),
        }
    }
}

/// Names behind a mark, such as `$set`.
fn marked(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).map(|rest| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(input: Option<&str>) -> PolicyPacket<'_> {
        PolicyPacket {
            source: "10.0.0.2".parse().unwrap(),
            destination: "192.0.2.7".parse().unwrap(),
            protocol: Protocol::Udp(53),
            input,
        }
    }

    #[test]
    fn ports_differ() {
        let ports = ["v-a", "v-b"];
        let found = PolicyMatch::parse("inport == \"v-b\" && udp.dst == 53", &ports).unwrap();
        assert!(found.matches(&packet(Some("v-b"))));
        assert!(!found.matches(&packet(Some("v-a"))));
        assert!(!found.matches(&packet(None)));
    }

    #[test]
    fn sets_and_groups_of_the_database_are_empty() {
        let found = PolicyMatch::parse("ip4.src == $a.b_1 || inport == @g", &[]).unwrap();
        assert!(!found.matches(&packet(None)));
        assert!(PolicyMatch::parse("ip4.src != $set", &[]).unwrap().matches(&packet(None)));
    }

    #[test]
    fn errors_have_the_column_in_the_match() {
        let column = |text| PolicyMatch::parse(text, &[]).unwrap_err().column;
        for (text, expected) in [("", 1), ("ip4 &", 5), ("ip4.dst == 10.0.0.0/33", 11)] {
            let found = column(text);
            assert!((1..=text.len() + 1).contains(&found), "{text}: {found}, about {expected}");
        }
    }
}
