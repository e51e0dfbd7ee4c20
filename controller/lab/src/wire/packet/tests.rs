//! Tests of reading and writing packets.

use super::encode::checksum;
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
        payload: Payload::Ip(IpPacket { source, destination, ttl: 64, body }),
    }
}

fn bodies() -> Vec<Body> {
    vec![
        Body::Echo(Echo { is_request: true, id: 7, sequence: 8, data: b"odd".to_vec() }),
        Body::Udp(Udp { source_port: 50_000, destination_port: 80, data: b"data".to_vec() }),
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
            let Payload::Ip(packet) = packet(family, body).payload else { unreachable!() };
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
    let request =
        neighbour_request(MAC, "fd00::3".parse().unwrap(), "fd00::12:3456".parse().unwrap());
    assert_eq!(request.destination, [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
    let Payload::Ip(packet) = request.payload else { unreachable!() };
    assert_eq!(packet.destination.to_string(), "ff02::1:ff12:3456");
}

#[test]
fn cut_off_frames_are_no_packets_and_do_no_harm() {
    let mut frames =
        vec![neighbour_request(MAC, "10.0.0.3".parse().unwrap(), "10.0.0.1".parse().unwrap())];
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
    let outer =
        packet("v4", Body::Udp(Udp { source_port: 1, destination_port: GENEVE_PORT, data }));
    assert_eq!(decode_geneve(&outer.encode()), Some((0x00ff_0023, inner.as_slice())));
    assert_eq!(decode_geneve(&inner), None);
}
