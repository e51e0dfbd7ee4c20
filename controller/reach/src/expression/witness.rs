//! Packets that two expressions match.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::field::{Condition, Field};
use super::tree::{Expression, PortSet, Relation};
use crate::address::Mac;
use crate::northbound::{PortId, RouterPortId};
use crate::packet::{IpPacket, Packet, Payload, SOURCE_PORT, TIME_TO_LIVE, Transport};

/// Attempts with other operands of `||`.
const ATTEMPTS: usize = 8;
/// Destination port of a packet if no operand names one.
const DESTINATION_PORT: u16 = 80;

/// Values that operands ask of a packet. Bits that no operand asks for are free.
#[derive(Default)]
struct Wishes {
    /// Number of the attempt, which selects the operands of `||`.
    attempt: usize,
    conditions: Vec<Condition>,
    bits: Vec<(Field, u128, u128)>,
    /// Whole values that count where the bits of the field are free.
    hints: Vec<(Field, u128)>,
    /// Ports that each operand accepts.
    inputs: Vec<PortSet>,
    outputs: Vec<PortSet>,
}

/// A packet that both expressions match. `None`: none was found, although there may be one.
pub(super) fn common_packet(first: &Expression, second: &Expression) -> Option<Packet> {
    (0..ATTEMPTS).find_map(|attempt| {
        let mut wishes = Wishes { attempt, ..Wishes::default() };
        wishes.collect(first);
        wishes.collect(second);
        let packet = wishes.packet();
        (first.matches(&packet) && second.matches(&packet)).then_some(packet)
    })
}

impl Wishes {
    fn collect(&mut self, expression: &Expression) {
        match expression {
            Expression::Boolean(_) => {}
            Expression::And(parts) => parts.iter().for_each(|part| self.collect(part)),
            Expression::Or(parts) => {
                if let Some(part) = parts.get(self.attempt % parts.len().max(1)) {
                    self.collect(part);
                }
            }
            Expression::Compare { field, prerequisite, relation, value, mask } => {
                self.conditions.push(*prerequisite);
                match relation {
                    Relation::Equal => self.bits.push((*field, *value, *mask)),
                    Relation::LessOrEqual | Relation::GreaterOrEqual => {
                        self.hints.push((*field, *value));
                    }
                    Relation::Less => self.hints.push((*field, value.saturating_sub(1))),
                    Relation::Greater => self.hints.push((*field, value.saturating_add(1))),
                    Relation::NotEqual => {}
                }
            }
            Expression::Member { field, prerequisite, is_negated, values } => {
                self.conditions.push(*prerequisite);
                if let (false, Some((value, _))) = (is_negated, values.iter().nth(self.attempt)) {
                    self.hints.push((*field, value));
                } else if let (false, Some((value, _))) = (is_negated, values.iter().next()) {
                    self.hints.push((*field, value));
                }
            }
            Expression::Holds { condition, is_negated } => {
                if !is_negated {
                    self.conditions.push(*condition);
                }
            }
            Expression::Port { is_input: true, ports } => self.inputs.push(ports.clone()),
            Expression::Port { is_input: false, ports } => self.outputs.push(ports.clone()),
        }
    }

    fn packet(&self) -> Packet {
        let has = |wished: &[Condition]| self.conditions.iter().any(|one| wished.contains(one));
        let is_ipv6 =
            has(&[Condition::Ip6, Condition::Icmp6]) || self.value(Field::EthType, 0) == 0x86dd;
        let is_multicast = has(&[Condition::Destination4Multicast, Condition::EthMulticast6]);
        let destination = match (is_ipv6, is_multicast) {
            (false, false) => u128::from(Ipv4Addr::new(192, 0, 2, 2).to_bits()),
            (false, true) => u128::from(Ipv4Addr::new(224, 0, 0, 1).to_bits()),
            (true, _) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).to_bits(),
        };
        let source = if is_ipv6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).to_bits()
        } else {
            u128::from(Ipv4Addr::new(192, 0, 2, 1).to_bits())
        };
        let address = |bits: u128| {
            if is_ipv6 {
                IpAddr::V6(Ipv6Addr::from_bits(bits))
            } else {
                IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
            }
        };
        let port = |field, default: u16| self.value(field, default.into()) as u16;
        let (source_port, destination_port) =
            (port(Field::SourcePort, SOURCE_PORT), port(Field::DestinationPort, DESTINATION_PORT));
        let number = self.value(Field::IpProtocol, 0);
        let transport = if has(&[Condition::Udp]) || number == 17 {
            Transport::Udp { source: source_port, destination: destination_port }
        } else if has(&[Condition::Sctp]) || number == 132 {
            Transport::Sctp { source: source_port, destination: destination_port }
        } else if has(&[Condition::Icmp, Condition::Icmp4, Condition::Icmp6])
            || number == 1
            || number == 58
        {
            Transport::Echo { is_reply: false }
        } else {
            Transport::Tcp { source: source_port, destination: destination_port }
        };
        let mac = |field, default: u128| {
            let bytes = self.value(field, default).to_be_bytes();
            Mac::new([bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]])
        };
        let nowhere = PortId::from(RouterPortId::new(u32::MAX));
        Packet {
            eth_source: mac(Field::EthSource, 0x0200_0000_0001),
            eth_destination: mac(
                Field::EthDestination,
                if is_multicast { 0x3333_0000_0001 } else { 0x0200_0000_0002 },
            ),
            payload: Payload::Ip(IpPacket {
                source: address(self.value(Field::Source, source)),
                destination: address(self.value(Field::Destination, destination)),
                transport,
            }),
            input: common_port(&self.inputs).unwrap_or(nowhere),
            output: common_port(&self.outputs),
            mark: self.value(Field::Mark, 0) as u32,
            time_to_live: self.value(Field::Ttl, TIME_TO_LIVE.into()) as u8,
            dscp: self.value(Field::Dscp, 0) as u8,
            is_tracked: has(&[Condition::Tracked])
                || self.bits.iter().any(|(field, ..)| *field == Field::ConnectionState),
        }
    }

    /// Value of a field: the bits that operands ask for, on a hint or a default.
    fn value(&self, field: Field, default: u128) -> u128 {
        let hint = self.hints.iter().find(|(own, _)| *own == field);
        let base = hint.map_or(default, |(_, value)| *value);
        let bits = self.bits.iter().filter(|(own, ..)| *own == field);
        bits.fold(base, |value, (_, bits, mask)| value & !mask | bits)
    }
}

/// A port of all sets.
fn common_port(sets: &[PortSet]) -> Option<PortId> {
    let (first, rest) = sets.split_first()?;
    let is_common = |port: &PortId| rest.iter().all(|set| set.contains(*port));
    match first {
        PortSet::One(port) => Some(*port),
        PortSet::Many(ports) => ports.iter().copied().find(is_common).or(ports.first().copied()),
    }
}
