//! Packets of pods: what a frame holds, and how one is written.
//!
//! Only the parts that pods of a lab need: ARP, neighbour discovery, ICMP echo and errors, UDP and
//! TCP without options, over IPv4 and IPv6 without extension headers.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use decode::decode_geneve;
pub(crate) use encode::neighbour_request;

/// Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Ethernet address of all hosts.
pub(crate) const BROADCAST: Mac = [0xff; 6];

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const TCP_BYTES: usize = 20;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;

const ICMP_ECHO_REPLY: u8 = 0;
const ICMP_UNREACHABLE: u8 = 3;
const ICMP_ECHO_REQUEST: u8 = 8;
const ICMP_TIME_EXCEEDED: u8 = 11;
const ICMPV6_UNREACHABLE: u8 = 1;
const ICMPV6_TOO_BIG: u8 = 2;
const ICMPV6_TIME_EXCEEDED: u8 = 3;
const ICMPV6_ECHO_REQUEST: u8 = 128;
const ICMPV6_ECHO_REPLY: u8 = 129;
const ICMPV6_NEIGHBOUR_SOLICITATION: u8 = 135;
const ICMPV6_NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Hop limit of neighbour discovery (RFC 4861 section 7.1).
const NEIGHBOUR_HOP_LIMIT: u8 = 255;
/// UDP port of Geneve tunnels.
pub(crate) const GENEVE_PORT: u16 = 6081;

/// Content of a frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Payload {
    Arp(Arp),
    Ip(IpPacket),
    /// Anything else.
    Other,
}

/// Ethernet frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    pub(crate) destination: Mac,
    pub(crate) source: Mac,
    pub(crate) payload: Payload,
}

/// ARP request or reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Arp {
    pub(crate) is_request: bool,
    pub(crate) sender_mac: Mac,
    pub(crate) sender: Ipv4Addr,
    pub(crate) target_mac: Mac,
    pub(crate) target: Ipv4Addr,
}

/// IP packet. Source and destination have one family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct IpPacket {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// TTL or hop limit.
    pub(crate) ttl: u8,
    pub(crate) body: Body,
}

/// Content of an IP packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Body {
    Echo(Echo),
    Udp(Udp),
    Tcp(Tcp),
    /// Neighbour solicitation for the target, with the sender's address.
    Solicitation {
        target: Ipv6Addr,
        mac: Mac,
    },
    /// Neighbour advertisement of the target's address.
    Advertisement {
        target: Ipv6Addr,
        mac: Mac,
    },
    /// ICMP error about a packet, whose first bytes it quotes.
    Error {
        reason: &'static str,
        quoted: Vec<u8>,
    },
    Other,
}

/// ICMP echo request or reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Echo {
    pub(crate) is_request: bool,
    pub(crate) id: u16,
    pub(crate) sequence: u16,
    pub(crate) data: Vec<u8>,
}

/// UDP datagram.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Udp {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) data: Vec<u8>,
}

/// TCP segment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tcp {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Bits of [`tcp_flag`].
    pub(crate) flags: u8,
    pub(crate) data: Vec<u8>,
}

/// Flags of TCP segments.
pub(crate) mod tcp_flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
}
