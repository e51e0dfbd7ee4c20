//! Packets from the bytes of frames.

use std::net::IpAddr;

use super::{
    Arp, Body, ETHERNET_BYTES, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Echo, Frame,
    GENEVE_PORT, ICMP_ECHO_REPLY, ICMP_ECHO_REQUEST, ICMP_TIME_EXCEEDED, ICMP_UNREACHABLE,
    ICMPV6_ECHO_REPLY, ICMPV6_ECHO_REQUEST, ICMPV6_NEIGHBOUR_ADVERTISEMENT,
    ICMPV6_NEIGHBOUR_SOLICITATION, ICMPV6_TIME_EXCEEDED, ICMPV6_TOO_BIG, ICMPV6_UNREACHABLE,
    IPV6_BYTES, IpPacket, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP, Payload,
    TCP_BYTES, Tcp, UDP_BYTES, Udp,
};

impl Frame {
    /// Reads a frame. `None`: it is cut off.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let payload = bytes.get(ETHERNET_BYTES..)?;
        let payload = match be16(bytes, 12)? {
            ETHERTYPE_ARP => Arp::decode(payload).map(Payload::Arp),
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => IpPacket::decode(payload).map(Payload::Ip),
            _ => Some(Payload::Other),
        };
        Some(Self { destination: array(bytes, 0)?, source: array(bytes, 6)?, payload: payload? })
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
        let header = bytes.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        Some(Self {
            source_port: be16(bytes, 0)?,
            destination_port: be16(bytes, 2)?,
            sequence: u32::from_be_bytes(array(bytes, 4)?),
            acknowledgement: array(bytes, 8).map_or(0, u32::from_be_bytes),
            flags: bytes.get(13).copied().unwrap_or(0),
            data: bytes.get(header.max(TCP_BYTES)..).unwrap_or(&[]).to_vec(),
        })
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
    Body::Error { reason, quoted: bytes.get(8..).unwrap_or(&[]).to_vec() }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
