//! Packets of pods: what a frame holds, and how one is written.
//!
//! Only the parts that pods of a lab need: ARP, neighbour discovery, ICMP echo and errors, UDP and
//! TCP without options, over IPv4 and IPv6 without extension headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Ethernet address of all stations.
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

impl Frame {
    /// Reads a frame. `None`: it is cut off.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let payload = bytes.get(ETHERNET_BYTES..)?;
        let payload = match be16(bytes, 12)? {
            ETHERTYPE_ARP => Arp::decode(payload).map(Payload::Arp),
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => IpPacket::decode(payload).map(Payload::Ip),
            _ => Some(Payload::Other),
        };
        Some(Self {
            destination: array(bytes, 0)?,
            source: array(bytes, 6)?,
            payload: payload?,
        })
    }

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
    fn decode(bytes: &[u8]) -> Option<Self> {
        let operation = be16(bytes, 6)?;
        (be16(bytes, 2)? == ETHERTYPE_IPV4 && matches!(operation, 1 | 2)).then_some(())?;
        Some(Self {
            is_request: operation == 1,
            sender_mac: array(bytes, 8)?,
            sender: array::<4>(bytes, 14)?.into(),
            target_mac: array(bytes, 18)?,
            target: array::<4>(bytes, 24)?.into(),
        })
    }

    fn encode(&self) -> Vec<u8> {
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
    /// Reads a packet. `None`: it is cut off, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => {
                let header = usize::from(bytes[0] & 15) * 4;
                let total = usize::from(be16(bytes, 2)?);
                // Ethernet pads short packets; quoted packets are cut off.
                let body = bytes.get(header..total.min(bytes.len()))?;
                Some(Self {
                    source: IpAddr::from(array::<4>(bytes, 12)?),
                    destination: IpAddr::from(array::<4>(bytes, 16)?),
                    ttl: *bytes.get(8)?,
                    body: Body::decode(*bytes.get(9)?, body),
                })
            }
            6 => {
                let total = IPV6_BYTES + usize::from(be16(bytes, 4)?);
                let body = bytes.get(IPV6_BYTES..total.min(bytes.len()))?;
                Some(Self {
                    source: IpAddr::from(array::<16>(bytes, 8)?),
                    destination: IpAddr::from(array::<16>(bytes, 24)?),
                    ttl: *bytes.get(7)?,
                    body: Body::decode(*bytes.get(6)?, body),
                })
            }
            _ => None,
        }
    }

    fn encode(&self) -> Vec<u8> {
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
    fn encode_body(&self) -> (u8, Vec<u8>) {
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
        let sum = if protocol == PROTOCOL_UDP && sum == 0 {
            0xffff
        } else {
            sum
        };
        bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        (protocol, bytes)
    }

    fn pseudo_header(&self, protocol: u8, length: usize) -> Vec<u8> {
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

impl Body {
    fn decode(protocol: u8, bytes: &[u8]) -> Self {
        let body = match protocol {
            PROTOCOL_ICMP => Self::decode_icmp(bytes),
            PROTOCOL_ICMPV6 => Self::decode_icmpv6(bytes),
            PROTOCOL_UDP => Udp::decode(bytes).map(Self::Udp),
            PROTOCOL_TCP => Tcp::decode(bytes).map(Self::Tcp),
            _ => None,
        };
        body.unwrap_or(Self::Other)
    }

    fn decode_icmp(bytes: &[u8]) -> Option<Self> {
        let reason = match (*bytes.first()?, *bytes.get(1)?) {
            (kind @ (ICMP_ECHO_REQUEST | ICMP_ECHO_REPLY), _) => {
                return echo(kind == ICMP_ECHO_REQUEST, bytes);
            }
            (ICMP_UNREACHABLE, 0) => "network unreachable",
            (ICMP_UNREACHABLE, 1) => "host unreachable",
            (ICMP_UNREACHABLE, 2) => "protocol unreachable",
            (ICMP_UNREACHABLE, 3) => "port unreachable",
            (ICMP_UNREACHABLE, 4) => "packet too big",
            (ICMP_UNREACHABLE, _) => "administratively prohibited",
            (ICMP_TIME_EXCEEDED, _) => "time to live exceeded",
            _ => return None,
        };
        Some(error(reason, bytes))
    }

    fn decode_icmpv6(bytes: &[u8]) -> Option<Self> {
        let reason = match (*bytes.first()?, *bytes.get(1)?) {
            (kind @ (ICMPV6_ECHO_REQUEST | ICMPV6_ECHO_REPLY), _) => {
                return echo(kind == ICMPV6_ECHO_REQUEST, bytes);
            }
            (kind @ (ICMPV6_NEIGHBOUR_SOLICITATION | ICMPV6_NEIGHBOUR_ADVERTISEMENT), _) => {
                let target = array::<16>(bytes, 8)?.into();
                // An advertisement of OVN has one option, the address of the target.
                let mac = array(bytes, 26).unwrap_or_default();
                return Some(if kind == ICMPV6_NEIGHBOUR_SOLICITATION {
                    Self::Solicitation { target, mac }
                } else {
                    Self::Advertisement { target, mac }
                });
            }
            (ICMPV6_UNREACHABLE, 0) => "no route",
            (ICMPV6_UNREACHABLE, 1) => "administratively prohibited",
            (ICMPV6_UNREACHABLE, 4) => "port unreachable",
            (ICMPV6_UNREACHABLE, _) => "address unreachable",
            (ICMPV6_TOO_BIG, _) => "packet too big",
            (ICMPV6_TIME_EXCEEDED, _) => "hop limit exceeded",
            _ => return None,
        };
        Some(error(reason, bytes))
    }
}

impl Udp {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            source_port: be16(bytes, 0)?,
            destination_port: be16(bytes, 2)?,
            data: bytes.get(UDP_BYTES..)?.to_vec(),
        })
    }
}

impl Tcp {
    /// Reads a segment. A segment that an ICMP error quotes may be cut off after its sequence
    /// number.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes
            .get(12)
            .map_or(0, |offset| usize::from(offset >> 4) * 4);
        Some(Self {
            source_port: be16(bytes, 0)?,
            destination_port: be16(bytes, 2)?,
            sequence: u32::from_be_bytes(array(bytes, 4)?),
            acknowledgement: array(bytes, 8).map_or(0, u32::from_be_bytes),
            flags: bytes.get(13).copied().unwrap_or(0),
            data: bytes.get(header.max(TCP_BYTES)..).unwrap_or(&[]).to_vec(),
        })
    }

    fn encode(&self) -> Vec<u8> {
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
            let request = Arp {
                is_request: true,
                sender_mac: mac,
                sender,
                target_mac: [0; 6],
                target,
            };
            (BROADCAST, Payload::Arp(request))
        }
        (source, target) => {
            let octets = ipv6_octets(target);
            let [.., x, y, z] = octets;
            // The solicited-node multicast address (RFC 4291 section 2.7.1).
            let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(x), 0);
            let mut group = group.octets();
            group[14..].copy_from_slice(&[y, z]);
            let packet = IpPacket {
                source,
                destination: IpAddr::from(group),
                ttl: NEIGHBOUR_HOP_LIMIT,
                body: Body::Solicitation {
                    target: octets.into(),
                    mac,
                },
            };
            ([0x33, 0x33, 0xff, x, y, z], Payload::Ip(packet))
        }
    };
    Frame {
        destination,
        source: mac,
        payload,
    }
}

/// Reads a Geneve packet: VNI and inner frame. `None`: the frame is something else.
pub(crate) fn decode_geneve(frame: &[u8]) -> Option<(u32, &[u8])> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let header = match (be16(frame, 12)?, ip.first()? >> 4) {
        (ETHERTYPE_IPV4, 4) if *ip.get(9)? == PROTOCOL_UDP => usize::from(ip[0] & 15) * 4,
        (ETHERTYPE_IPV6, 6) if *ip.get(6)? == PROTOCOL_UDP => IPV6_BYTES,
        _ => return None,
    };
    let udp = ip.get(header..)?;
    (be16(udp, 2)? == GENEVE_PORT).then_some(())?;
    let geneve = udp.get(UDP_BYTES..)?;
    let options = usize::from(geneve.first()? & 0x3f) * 4;
    let [a, b, c] = array(geneve, 4)?;
    Some((u32::from_be_bytes([0, a, b, c]), geneve.get(8 + options..)?))
}

fn echo(is_request: bool, bytes: &[u8]) -> Option<Body> {
    Some(Body::Echo(Echo {
        is_request,
        id: be16(bytes, 4)?,
        sequence: be16(bytes, 6)?,
        data: bytes.get(8..)?.to_vec(),
    }))
}

fn error(reason: &'static str, bytes: &[u8]) -> Body {
    Body::Error {
        reason,
        quoted: bytes.get(8..).unwrap_or(&[]).to_vec(),
    }
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

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The checksum of RFC 1071 over parts, all but the last of which have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [0x0a, 0x58, 10, 0, 0, 3];

    fn packet(family: &str, body: Body) -> Frame {
        let [source, destination]: [IpAddr; 2] = match family {
            "v4" => ["10.0.0.3", "10.0.1.4"].map(|text| text.parse().unwrap()),
            _ => ["fd00::3", "fd01::4"].map(|text| text.parse().unwrap()),
        };
        Frame {
            destination: [2; 6],
            source: MAC,
            payload: Payload::Ip(IpPacket {
                source,
                destination,
                ttl: 64,
                body,
            }),
        }
    }

    fn bodies() -> Vec<Body> {
        vec![
            Body::Echo(Echo {
                is_request: true,
                id: 7,
                sequence: 8,
                data: b"odd".to_vec(),
            }),
            Body::Udp(Udp {
                source_port: 50_000,
                destination_port: 80,
                data: b"data".to_vec(),
            }),
            Body::Tcp(Tcp {
                source_port: 50_000,
                destination_port: 80,
                sequence: 0xffff_fffe,
                acknowledgement: 5,
                flags: tcp_flag::PSH | tcp_flag::ACK,
                data: b"x".to_vec(),
            }),
        ]
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        for family in ["v4", "v6"] {
            for body in bodies() {
                let frame = packet(family, body);
                assert_eq!(Frame::decode(&frame.encode()), Some(frame));
            }
        }
        for [source, target] in [["10.0.0.3", "10.0.0.1"], ["fd00::3", "fd00::12:3456"]] {
            let request = neighbour_request(MAC, source.parse().unwrap(), target.parse().unwrap());
            assert_eq!(Frame::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn the_checksum_over_a_packet_with_its_checksum_is_zero() {
        for family in ["v4", "v6"] {
            for body in bodies() {
                let Payload::Ip(packet) = packet(family, body).payload else {
                    unreachable!()
                };
                let (protocol, bytes) = packet.encode_body();
                let pseudo_header = match protocol {
                    PROTOCOL_ICMP => Vec::new(),
                    _ => packet.pseudo_header(protocol, bytes.len()),
                };
                assert_eq!(checksum(&[&pseudo_header, &bytes]), 0, "{packet:?}");
            }
        }
        // The example of RFC 1071 section 3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&example]), !0xddf2);
    }

    #[test]
    fn the_solicited_node_address_has_the_last_three_bytes_of_the_target() {
        let request = neighbour_request(
            MAC,
            "fd00::3".parse().unwrap(),
            "fd00::12:3456".parse().unwrap(),
        );
        assert_eq!(request.destination, [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let Payload::Ip(packet) = request.payload else {
            unreachable!()
        };
        assert_eq!(packet.destination.to_string(), "ff02::1:ff12:3456");
    }

    #[test]
    fn cut_off_frames_are_no_packets_and_do_no_harm() {
        let mut frames = vec![neighbour_request(
            MAC,
            "10.0.0.3".parse().unwrap(),
            "10.0.0.1".parse().unwrap(),
        )];
        for family in ["v4", "v6"] {
            frames.extend(bodies().into_iter().map(|body| packet(family, body)));
        }
        for frame in frames {
            let bytes = frame.encode();
            for length in 0..bytes.len() {
                assert_ne!(Frame::decode(&bytes[..length]), Some(frame.clone()));
                assert_eq!(decode_geneve(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn a_geneve_packet_has_its_vni_and_inner_frame() {
        let inner = packet("v4", bodies().remove(0)).encode();
        // Two words of options.
        let mut data = vec![2, 0, 0x65, 0x58, 0xff, 0x00, 0x23, 0];
        data.extend([0; 8]);
        data.extend(&inner);
        let outer = packet(
            "v4",
            Body::Udp(Udp {
                source_port: 1,
                destination_port: GENEVE_PORT,
                data,
            }),
        );
        assert_eq!(
            decode_geneve(&outer.encode()),
            Some((0x00ff_0023, inner.as_slice()))
        );
        assert_eq!(decode_geneve(&inner), None);
    }
}
