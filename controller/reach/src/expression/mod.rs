//! Expression language of OVN's matches: parser and evaluation on one packet.
//!
//! The language is that of the column `match` of `Logical_Flow` (ovn-sb(5)). A match that OVN
//! rejects is rejected here, because OVN then ignores its row.

mod comparison;
mod constant;
mod constants;
mod field;
mod lexer;
mod names;
mod parser;
mod symbol;
mod tree;
mod value_set;
mod witness;

pub(crate) use value_set::ValueSet;

pub(crate) use names::{Names, PortGroupId};
pub(crate) use parser::MatchError;
use parser::Parser;
use tree::Expression;

use crate::northbound::SwitchId;
use crate::packet::Packet;

/// Parsed match of a row.
#[derive(Debug)]
pub(crate) struct Match {
    expression: Expression,
    /// Port groups that the match names.
    groups: Vec<PortGroupId>,
}

impl Match {
    /// Parses a match as ovn-northd puts it into a logical flow: in parentheses, behind other
    /// conditions.
    ///
    /// # Errors
    /// OVN rejects the match.
    pub(crate) fn parse_nested(text: &str, names: &Names) -> Result<Self, MatchError> {
        Self::parse(&format!("1 && ({text})"), names)
    }

    /// Parses a match that is a whole expression.
    ///
    /// # Errors
    /// OVN rejects the match.
    pub(crate) fn parse(text: &str, names: &Names) -> Result<Self, MatchError> {
        let text = names.expand_templates(text);
        let (expression, groups) = Parser::parse(&text, names)?;
        Ok(Self { expression, groups })
    }

    /// Port groups that the match names.
    pub(crate) fn groups(&self) -> &[PortGroupId] {
        &self.groups
    }

    /// A port group of the match that has no port on a switch. OVN does not know the group there,
    /// and ignores the match. `None`: there is no such group.
    pub(crate) fn missing_group<'a>(&self, switch: SwitchId, names: &'a Names) -> Option<&'a str> {
        let missing = self.groups.iter().find(|group| !names.is_group_on(**group, switch))?;
        Some(names.group_name(*missing))
    }

    /// A port group of the match. Routers know no port groups. `None`: the match has no group.
    pub(crate) fn first_group<'a>(&self, names: &'a Names) -> Option<&'a str> {
        self.groups.first().map(|group| names.group_name(*group))
    }

    /// A packet that this match and another one match. `None`: none was found, although there may
    /// be one.
    pub(crate) fn common_packet(&self, other: &Self) -> Option<Packet> {
        witness::common_packet(&self.expression, &other.expression)
    }

    /// `true` if a packet matches.
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        self.expression.matches(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Mac;
    use crate::northbound::SwitchPortId;
    use crate::packet::{IpPacket, Payload, TIME_TO_LIVE, Transport};

    fn names() -> Names {
        let mut names = Names::default();
        names.add_port("vm1", SwitchPortId::for_test(1).into());
        names.add_port("vm2", SwitchPortId::for_test(2).into());
        names.add_resident("vm1".into());
        names.add_address_set("set", ["10.0.0.1", "10.8.0.0/16"]);
        names.add_address_set("empty", []);
        names.add_address_set("mixed", ["10.0.0.1", "fd00::1"]);
        let group = [(SwitchPortId::for_test(1).into(), SwitchId::for_test(0))];
        names.add_group("group", &group);
        names.set_variables([("VIP".to_owned(), "10.0.0.2".to_owned())].into(), false);
        names
    }

    /// A TCP packet to port 80 from 10.0.0.1 behind `vm1` to 10.0.0.2.
    fn packet() -> Packet {
        Packet {
            eth_source: Mac::new([10, 0, 0, 0, 0, 1]),
            eth_destination: Mac::new([10, 0, 0, 0, 0, 2]),
            payload: Payload::Ip(IpPacket {
                source: "10.0.0.1".parse().unwrap(),
                destination: "10.0.0.2".parse().unwrap(),
                transport: Transport::Tcp { source: 40000, destination: 80 },
            }),
            input: SwitchPortId::for_test(1).into(),
            output: None,
            mark: 0,
            time_to_live: TIME_TO_LIVE,
            dscp: 0,
            is_tracked: false,
        }
    }

    #[test]
    fn matches_hold_as_in_ovn() {
        let holds = [
            "1",
            "ip4 && tcp",
            "tcp.dst == 80",
            "!(tcp.dst == 81)",
            "79 < tcp.dst <= 80",
            "tcp.dst == {80, 443}",
            "tcp.dst != {81, 443}",
            "ip4.src == 10.0.0.0/24",
            "ip4.src == $set",
            "ip4.src != $empty",
            "inport == @group",
            "inport == {\"vm2\", @group}",
            "!(inport != {@group, \"vm2\"})",
            "!(!(inport == {\"x\", @group}))",
            "ip4.src == {$empty, 9.9.9.9, $set}",
            "ip4.src != {$empty, 9.9.9.9}",
            "!(ip4.src != {9.9.9.9, $set})",
            "inport == {\"vm1\", \"x\"}",
            "!(inport != \"vm1\")",
            "eth.src[0..7] == 1",
            "ip4.dst == ^VIP",
            "is_chassis_resident(\"vm1\")",
            "!ct.trk",
            "ip4 /* any */ && ip.ttl == 64",
            "tcp.flags[1]",
            "10.0.0.1 == ip4.src",
        ];
        let fails = [
            "0",
            "udp",
            "udp.dst != 80",
            "!(udp.dst == 80)",
            "ip6.src != ::1",
            "!ct.new",
            "ct.new",
            "ip4.src != $set",
            "ip4.src != {$set, 9.9.9.9}",
            "ip4.src == {$empty, 9.9.9.9}",
            "outport == {@group, \"vm2\"}",
            "ip4.src == $empty",
            "inport == \"vm2\"",
            "outport == \"vm1\"",
            "is_chassis_resident(\"none\")",
            "eth.bcast",
            "icmp4.type == 8",
        ];
        let names = names();
        for (texts, expected) in [(&holds[..], true), (&fails[..], false)] {
            for text in texts {
                let parsed = Match::parse_nested(text, &names).unwrap();
                assert_eq!(parsed.matches(&packet()), expected, "{text}");
            }
        }
    }

    #[test]
    fn matches_that_ovn_rejects_are_errors() {
        let names = names();
        for text in [
            "",
            "ip4 && tcp || udp",
            "!tcp",
            "ip.proto != 6",
            "inport != \"vm1\"",
            "tcp.dst",
            "1) || (1",
            "!(inport == \"vm1\")",
            "tcp.dst == 65536",
            "tcp.dst == 080",
            "ip4.src == ::1",
            "ip4.src == $mixed",
            "ip4.src == $none",
            "inport == @none",
            "tcp.dst < {80}",
            "nothing == 1",
            "ip4.src == 10.0.0.0/33",
            "ip4 // hides the parenthesis",
            "/* open",
            "reg16 == 0",
            "79 < tcp.dst > 81",
            "ip4.dst == ^NONE",
            "tcp.dst[3..1] == 0",
            "ip.ttl > 1",
        ] {
            assert!(Match::parse_nested(text, &names).is_err(), "{text}");
        }
        let deep = format!("{}1{}", "(".repeat(101), ")".repeat(101));
        assert!(Match::parse(&deep, &names).is_err());
    }

    #[test]
    fn a_group_without_a_port_on_a_switch_is_missing_there() {
        let names = names();
        let parsed = Match::parse("inport == @group || ip4", &names).unwrap();
        assert_eq!(parsed.missing_group(SwitchId::for_test(0), &names), None);
        assert_eq!(parsed.missing_group(SwitchId::for_test(1), &names), Some("group"));
    }
}
