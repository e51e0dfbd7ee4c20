//! Packet on its way: headers, ports, and the state that OVN keeps beside it.

use std::net::{IpAddr, Ipv4Addr};

use crate::address::Mac;
use crate::northbound::PortId;
use crate::question::Protocol;

/// Time to live of a packet when it is sent.
pub(crate) const TIME_TO_LIVE: u8 = 64;
/// Time to live of an answer of a router.
pub(crate) const ANSWER_TIME_TO_LIVE: u8 = 255;
/// Source port of every traced TCP, UDP and SCTP packet.
pub(crate) const SOURCE_PORT: u16 = 40000;

/// Packet on its way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) eth_source: Mac,
    pub(crate) eth_destination: Mac,
    pub(crate) payload: Payload,
    /// Port by which the packet came into the switch or router.
    pub(crate) input: PortId,
    /// `None`: no port is chosen yet.
    pub(crate) output: Option<PortId>,
    /// `pkt.mark`
    pub(crate) mark: u32,
    /// `ip.ttl`
    pub(crate) time_to_live: u8,
    /// `ip.dscp`
    pub(crate) dscp: u8,
    /// `true` if the switch sent the packet to connection tracking. It is the first packet of its
    /// connection, so that `ct.new` holds then.
    pub(crate) is_tracked: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Arp(Arp),
    Ip(IpPacket),
}

/// ARP packet.
#[derive(Clone, Debug)]
pub(crate) struct Arp {
    pub(crate) is_reply: bool,
    pub(crate) source: Ipv4Addr,
    pub(crate) source_mac: Mac,
    pub(crate) target: Ipv4Addr,
    pub(crate) target_mac: Mac,
}

/// IP packet.
#[derive(Clone, Debug)]
pub(crate) struct IpPacket {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) transport: Transport,
}

/// Header behind the IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// Echo of ICMP for either family.
    Echo {
        is_reply: bool,
    },
    Tcp {
        source: u16,
        destination: u16,
    },
    Udp {
        source: u16,
        destination: u16,
    },
    Sctp {
        source: u16,
        destination: u16,
    },
}

impl From<Protocol> for Transport {
    /// Header of the first packet of a connection.
    fn from(protocol: Protocol) -> Self {
        let source = SOURCE_PORT;
        match protocol {
            Protocol::Icmp => Self::Echo { is_reply: false },
            Protocol::Tcp(destination) => Self::Tcp { source, destination },
            Protocol::Udp(destination) => Self::Udp { source, destination },
            Protocol::Sctp(destination) => Self::Sctp { source, destination },
        }
    }
}

impl Transport {
    /// Protocol number.
    pub(crate) fn number(self, is_ipv4: bool) -> u8 {
        match self {
            Self::Echo { .. } if is_ipv4 => 1,
            Self::Echo { .. } => 58,
            Self::Tcp { .. } => 6,
            Self::Udp { .. } => 17,
            Self::Sctp { .. } => 132,
        }
    }

    /// Header of the reply to a packet with this header.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::Echo { .. } => Self::Echo { is_reply: true },
            Self::Tcp { source, destination } => {
                Self::Tcp { source: destination, destination: source }
            }
            Self::Udp { source, destination } => {
                Self::Udp { source: destination, destination: source }
            }
            Self::Sctp { source, destination } => {
                Self::Sctp { source: destination, destination: source }
            }
        }
    }

    /// Source port; 0 without ports.
    pub(crate) fn source_port(self) -> u16 {
        match self {
            Self::Echo { .. } => 0,
            Self::Tcp { source, .. } | Self::Udp { source, .. } | Self::Sctp { source, .. } => {
                source
            }
        }
    }

    /// Destination port; 0 without ports.
    pub(crate) fn destination_port(self) -> u16 {
        match self {
            Self::Echo { .. } => 0,
            Self::Tcp { destination, .. }
            | Self::Udp { destination, .. }
            | Self::Sctp { destination, .. } => destination,
        }
    }

    /// Replaces the source port; nothing without ports.
    pub(crate) fn set_source_port(&mut self, port: u16) {
        match self {
            Self::Echo { .. } => {}
            Self::Tcp { source, .. } | Self::Udp { source, .. } | Self::Sctp { source, .. } => {
                *source = port;
            }
        }
    }

    /// Replaces the destination port; nothing without ports.
    pub(crate) fn set_destination_port(&mut self, port: u16) {
        match self {
            Self::Echo { .. } => {}
            Self::Tcp { destination, .. }
            | Self::Udp { destination, .. }
            | Self::Sctp { destination, .. } => *destination = port,
        }
    }
}
