//! Bytes of frames from packets.

use std::net::{IpAddr, Ipv6Addr};

use super::{
    Arp, BROADCAST, Body, ETHERNET_BYTES, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Frame,
    ICMP_ECHO_REPLY, ICMP_ECHO_REQUEST, ICMPV6_ECHO_REPLY, ICMPV6_ECHO_REQUEST,
    ICMPV6_NEIGHBOUR_ADVERTISEMENT, ICMPV6_NEIGHBOUR_SOLICITATION, IPV4_BYTES, IPV6_BYTES,
    IpPacket, Mac, NEIGHBOUR_HOP_LIMIT, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP,
    Payload, TCP_BYTES, Tcp, UDP_BYTES,
};

impl Frame {
    /// Writes a frame. A payload of another kind is empty.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (ethertype, payload) = match &self.payload {
            Payload::Arp(arp) => (ETHERTYPE_ARP, arp.encode()),
            Payload::Ip(packet) if packet.source.is_ipv4() => (ETHERTYPE_IPV4, packet.encode()),
            Payload::Ip(packet) => (ETHERTYPE_IPV6, packet.encode()),
            Payload::Other => (0, Vec::new()),
        };
        let mut bytes = Vec::with_capacity(ETHERNET_BYTES + payload.len());
        bytes.extend(self.destination);
        bytes.extend(self.source);
        bytes.extend(ethertype.to_be_bytes());
        bytes.extend(payload);
        bytes
    }
}

impl Arp {
    pub(super) fn encode(&self) -> Vec<u8> {
        // Ethernet and IPv4 with addresses of 6 and 4 bytes.
        let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, if self.is_request { 1 } else { 2 }];
        bytes.extend(self.sender_mac);
        bytes.extend(self.sender.octets());
        bytes.extend(self.target_mac);
        bytes.extend(self.target.octets());
        bytes
    }
}

impl IpPacket {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (protocol, body) = self.encode_body();
        let mut bytes = Vec::with_capacity(IPV6_BYTES + body.len());
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([0x45, 0]);
                bytes.extend(((IPV4_BYTES + body.len()) as u16).to_be_bytes());
                // No identification, do not fragment, no checksum yet.
                bytes.extend([0, 0, 0x40, 0, self.ttl, protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = checksum(&[&bytes]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (source, destination) => {
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend((body.len() as u16).to_be_bytes());
                bytes.extend([protocol, self.ttl]);
                bytes.extend(ipv6_octets(source));
                bytes.extend(ipv6_octets(destination));
            }
        }
        bytes.extend(body);
        bytes
    }

    /// Protocol number, and the body with its checksum.
    pub(super) fn encode_body(&self) -> (u8, Vec<u8>) {
        let is_ipv4 = self.source.is_ipv4();
        let (protocol, mut bytes, checksum_at) = match &self.body {
            Body::Echo(echo) => {
                let (protocol, [request, reply]) = if is_ipv4 {
                    (PROTOCOL_ICMP, [ICMP_ECHO_REQUEST, ICMP_ECHO_REPLY])
                } else {
                    (PROTOCOL_ICMPV6, [ICMPV6_ECHO_REQUEST, ICMPV6_ECHO_REPLY])
                };
                let mut bytes = vec![if echo.is_request { request } else { reply }, 0, 0, 0];
                bytes.extend(echo.id.to_be_bytes());
                bytes.extend(echo.sequence.to_be_bytes());
                bytes.extend(&echo.data);
                (protocol, bytes, 2)
            }
            Body::Udp(udp) => {
                let mut bytes = Vec::with_capacity(UDP_BYTES + udp.data.len());
                bytes.extend(udp.source_port.to_be_bytes());
                bytes.extend(udp.destination_port.to_be_bytes());
                bytes.extend(((UDP_BYTES + udp.data.len()) as u16).to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(&udp.data);
                (PROTOCOL_UDP, bytes, 6)
            }
            Body::Tcp(tcp) => (PROTOCOL_TCP, tcp.encode(), 16),
            Body::Solicitation { target, mac } => {
                let kind = ICMPV6_NEIGHBOUR_SOLICITATION;
                // Option 1: address of the sender.
                (PROTOCOL_ICMPV6, neighbour(kind, 0, *target, 1, *mac), 2)
            }
            Body::Advertisement { target, mac } => {
                let kind = ICMPV6_NEIGHBOUR_ADVERTISEMENT;
                // Solicited, overrides; option 2: address of the target.
                (PROTOCOL_ICMPV6, neighbour(kind, 0x60, *target, 2, *mac), 2)
            }
            Body::Error { .. } | Body::Other => return (PROTOCOL_ICMP, Vec::new()),
        };
        let pseudo_header = if protocol == PROTOCOL_ICMP {
            Vec::new()
        } else {
            self.pseudo_header(protocol, bytes.len())
        };
        let sum = checksum(&[&pseudo_header, &bytes]);
        // UDP has no checksum if the field is zero.
        let sum = if protocol == PROTOCOL_UDP && sum == 0 { 0xffff } else { sum };
        bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        (protocol, bytes)
    }

    pub(super) fn pseudo_header(&self, protocol: u8, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(IPV6_BYTES);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            (source, destination) => {
                bytes.extend(ipv6_octets(source));
                bytes.extend(ipv6_octets(destination));
            }
        }
        bytes.extend((length as u32).to_be_bytes());
        bytes.extend([0, 0, 0, protocol]);
        bytes
    }
}

impl Tcp {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(TCP_BYTES + self.data.len());
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(self.destination_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        // Five words of header, a window of 64 kB, no checksum yet, no urgent data.
        bytes.extend([0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(&self.data);
        bytes
    }
}

/// Packet that asks for the Ethernet address of `target`, with its own Ethernet destination.
pub(crate) fn neighbour_request(mac: Mac, source: IpAddr, target: IpAddr) -> Frame {
    let (destination, payload) = match (source, target) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let request =
                Arp { is_request: true, sender_mac: mac, sender, target_mac: [0; 6], target };
            (BROADCAST, Payload::Arp(request))
        }
        (source, target) => {
            let octets = ipv6_octets(target);
            let [.., x, y, z] = octets;
            // The solicited-node multicast address (RFC 4291 section 2.7.1).
            let mut group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(x), 0).octets();
            group[14..].copy_from_slice(&[y, z]);
            let packet = IpPacket {
                source,
                destination: IpAddr::from(group),
                ttl: NEIGHBOUR_HOP_LIMIT,
                body: Body::Solicitation { target: octets.into(), mac },
            };
            ([0x33, 0x33, 0xff, x, y, z], Payload::Ip(packet))
        }
    };
    Frame { destination, source: mac, payload }
}

fn neighbour(kind: u8, flags: u8, target: Ipv6Addr, option: u8, mac: Mac) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    bytes.extend(target.octets());
    // The option has one unit of eight bytes.
    bytes.extend([option, 1]);
    bytes.extend(mac);
    bytes
}

fn ipv6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The checksum of RFC 1071 over parts, all but the last of which have an even length.
pub(super) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
