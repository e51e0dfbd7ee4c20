//! Values of fields, and conditions on the kind of a packet.

use crate::address::bits;
use crate::packet::{Packet, Payload, Transport};

/// Packet header or state that a comparison reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    EthSource,
    EthDestination,
    EthType,
    Source,
    Destination,
    IpProtocol,
    Dscp,
    Ttl,
    IcmpType,
    SourcePort,
    DestinationPort,
    TcpFlags,
    ArpOperation,
    ArpSourceAddress,
    ArpSourceMac,
    ArpTargetAddress,
    ArpTargetMac,
    Mark,
    /// Bits of `ct_state`.
    ConnectionState,
    /// State that is zero where rows are matched.
    Zero,
}

/// Condition on the kind of a packet: a predicate, or the prerequisite of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Condition {
    True,
    /// Kinds of packets that are never traced: fragments, VLANs, multicast, neighbour discovery.
    False,
    Ip,
    Ip4,
    Ip6,
    Icmp,
    Icmp4,
    Icmp6,
    Tcp,
    Udp,
    Sctp,
    Arp,
    Tracked,
    EthBroadcast,
    EthMulticast6,
    Source4Multicast,
    Destination4Multicast,
}

/// `ct_state` of the first packet of a connection: `new` and `trk`.
const NEW_AND_TRACKED: u128 = 0b10_0001;
/// SYN in `tcp.flags`.
const TCP_SYN: u128 = 2;

impl Field {
    /// The value in a packet; 0 if the packet has no such field.
    pub(crate) fn value(self, packet: &Packet) -> u128 {
        match self {
            Self::EthSource => packet.eth_source.bits(),
            Self::EthDestination => packet.eth_destination.bits(),
            Self::EthType => match &packet.payload {
                Payload::Arp(_) => 0x806,
                Payload::Ip(ip) if ip.source.is_ipv4() => 0x800,
                Payload::Ip(_) => 0x86dd,
            },
            Self::Mark => packet.mark.into(),
            Self::ConnectionState if packet.is_tracked => NEW_AND_TRACKED,
            Self::ConnectionState | Self::Zero => 0,
            Self::ArpOperation
            | Self::ArpSourceAddress
            | Self::ArpSourceMac
            | Self::ArpTargetAddress
            | Self::ArpTargetMac => self.arp_value(packet),
            _ => self.ip_value(packet),
        }
    }

    fn ip_value(self, packet: &Packet) -> u128 {
        let Payload::Ip(ip) = &packet.payload else {
            return 0;
        };
        match (self, ip.transport) {
            (Self::Source, _) => bits(ip.source),
            (Self::Destination, _) => bits(ip.destination),
            (Self::IpProtocol, transport) => transport.number(ip.source.is_ipv4()).into(),
            (Self::Dscp, _) => packet.dscp.into(),
            (Self::Ttl, _) => packet.time_to_live.into(),
            (Self::IcmpType, Transport::Echo { is_reply }) => {
                match (ip.source.is_ipv4(), is_reply) {
                    (true, false) => 8,
                    (true, true) => 0,
                    (false, false) => 128,
                    (false, true) => 129,
                }
            }
            (Self::SourcePort, transport) => transport.source_port().into(),
            (Self::DestinationPort, transport) => transport.destination_port().into(),
            (Self::TcpFlags, Transport::Tcp { .. }) => TCP_SYN,
            _ => 0,
        }
    }

    fn arp_value(self, packet: &Packet) -> u128 {
        let Payload::Arp(arp) = &packet.payload else {
            return 0;
        };
        match self {
            Self::ArpOperation => {
                if arp.is_reply {
                    2
                } else {
                    1
                }
            }
            Self::ArpSourceAddress => arp.source.to_bits().into(),
            Self::ArpSourceMac => arp.source_mac.bits(),
            Self::ArpTargetAddress => arp.target.to_bits().into(),
            Self::ArpTargetMac => arp.target_mac.bits(),
            _ => 0,
        }
    }
}

impl Condition {
    /// `true` if the condition holds for a packet.
    pub(crate) fn holds(self, packet: &Packet) -> bool {
        let ip = match &packet.payload {
            Payload::Ip(ip) => Some(ip),
            Payload::Arp(_) => None,
        };
        let is_ip4 = ip.is_some_and(|ip| ip.source.is_ipv4());
        let is_ip6 = ip.is_some_and(|ip| ip.source.is_ipv6());
        let transport = ip.map(|ip| ip.transport);
        let is_echo = matches!(transport, Some(Transport::Echo { .. }));
        match self {
            Self::True => true,
            Self::False => false,
            Self::Ip => ip.is_some(),
            Self::Ip4 => is_ip4,
            Self::Ip6 => is_ip6,
            Self::Icmp => is_echo,
            Self::Icmp4 => is_echo && is_ip4,
            Self::Icmp6 => is_echo && is_ip6,
            Self::Tcp => matches!(transport, Some(Transport::Tcp { .. })),
            Self::Udp => matches!(transport, Some(Transport::Udp { .. })),
            Self::Sctp => matches!(transport, Some(Transport::Sctp { .. })),
            Self::Arp => ip.is_none(),
            Self::Tracked => packet.is_tracked,
            Self::EthBroadcast => packet.eth_destination.bits() == 0xffff_ffff_ffff,
            Self::EthMulticast6 => packet.eth_destination.bits() >> 32 == 0x3333,
            Self::Source4Multicast => is_ip4 && Field::Source.value(packet) >> 28 == 0xe,
            Self::Destination4Multicast => {
                is_ip4
                    && packet.eth_destination.bits() >> 40 & 1 == 1
                    && Field::Destination.value(packet) >> 28 == 0xe
            }
        }
    }
}
