//! Frames that an endpoint receives, and its answers.

use std::net::IpAddr;

use super::{EndpointState, TTL};
use crate::wire::open_questions::{Arrival, ConnectionUse, Event, FIRST_CLIENT_PORT, Token};
use crate::wire::packet::{Arp, Body, Echo, Frame, IpPacket, Mac, Payload, Tcp, Udp, tcp_flag};

impl EndpointState {
    pub(in crate::wire) fn receive(&self, bytes: &[u8]) {
        self.record(bytes);
        let Some(frame) = Frame::decode(bytes) else {
            return;
        };
        let is_group = frame.destination[0] & 1 == 1;
        if !is_group && frame.destination != self.config.mac {
            return;
        }
        match frame.payload {
            Payload::Arp(arp) => self.receive_arp(&arp),
            Payload::Ip(packet) => self.receive_ip(frame.source, packet),
            Payload::Other => {}
        }
    }

    fn receive_arp(&self, arp: &Arp) {
        if !arp.is_request {
            self.learn(arp.sender.into(), arp.sender_mac);
        } else if self.is_neighbour(arp.target.into()) {
            self.send(&Frame {
                destination: arp.sender_mac,
                source: self.config.mac,
                payload: Payload::Arp(Arp {
                    is_request: false,
                    sender_mac: self.config.mac,
                    sender: arp.target,
                    target_mac: arp.sender_mac,
                    target: arp.sender,
                }),
            });
        }
    }

    fn receive_ip(&self, from: Mac, packet: IpPacket) {
        let number = self.config.number;
        match &packet.body {
            Body::Solicitation { target, .. } if self.is_neighbour((*target).into()) => {
                let advertisement = Body::Advertisement { target: *target, mac: self.config.mac };
                let frame = Frame {
                    destination: from,
                    source: self.config.mac,
                    payload: Payload::Ip(IpPacket {
                        source: (*target).into(),
                        destination: packet.source,
                        ttl: 255,
                        body: advertisement,
                    }),
                };
                return self.send(&frame);
            }
            Body::Advertisement { target, mac } => {
                // An advertisement without the option has the address of its frame.
                let mac = if *mac == Mac::default() { from } else { *mac };
                return self.learn((*target).into(), mac);
            }
            Body::Error { reason, quoted } => {
                let reason = format!("{reason}, reported by {}", packet.source);
                return self.questions.report_error(quoted, number, reason);
            }
            _ => {}
        }
        if !self.is_own(packet.destination) {
            return;
        }
        let token = Token::of(&packet);
        let arrival = Arrival { endpoint: number, ttl: packet.ttl, source: packet.source };
        let reply = Event::Reply { ttl: packet.ttl };
        let (source, destination) = (packet.source, packet.destination);
        let answer = |body| self.send_ip(from, destination, source, body);
        match packet.body {
            Body::Echo(echo) if echo.is_request => {
                self.arrive(token, arrival);
                answer(Body::Echo(Echo { is_request: false, ..echo }));
            }
            Body::Udp(udp) if udp.destination_port < FIRST_CLIENT_PORT => {
                self.arrive(token, arrival);
                answer(Body::Udp(Udp {
                    source_port: udp.destination_port,
                    destination_port: udp.source_port,
                    data: udp.data,
                }));
            }
            Body::Tcp(tcp) if tcp.destination_port < FIRST_CLIENT_PORT => {
                if tcp.flags & tcp_flag::SYN != 0 || !tcp.data.is_empty() {
                    self.arrive(token, arrival);
                }
                serve(tcp).map(Body::Tcp).into_iter().for_each(answer);
            }
            Body::Echo(_) | Body::Udp(_) => self.reply(token, source, reply),
            Body::Tcp(tcp) => self.receive_as_client(from, (source, destination), &tcp, reply),
            _ => {}
        }
    }

    fn arrive(&self, token: Option<Token>, arrival: Arrival) {
        if let Some(token) = token {
            self.questions.note_arrival(token, arrival);
        }
    }

    fn reply(&self, token: Option<Token>, source: IpAddr, event: Event) {
        let number = self.config.number;
        let is_asked = |token| self.questions.connection_use(token, number, source);
        if let Some(token) = token.filter(|token| is_asked(*token).is_some()) {
            self.questions.report(token, number, event);
        }
    }

    /// Continues a connection of this pod: sends data when it is accepted, reports the answer when
    /// the data comes back, and closes the connection.
    fn receive_as_client(
        &self,
        mac: Mac,
        (source, destination): (IpAddr, IpAddr),
        tcp: &Tcp,
        reply: Event,
    ) {
        let number = self.config.number;
        let packet = IpPacket { source, destination, ttl: TTL, body: Body::Tcp(tcp.clone()) };
        let asked = Token::of(&packet)
            .and_then(|token| Some((token, self.questions.connection_use(token, number, source)?)));
        let Some((token, connection)) = asked else {
            return;
        };
        if tcp.flags & tcp_flag::RST != 0 {
            let reason = format!("connection reset by {source}");
            return self.questions.report(token, number, Event::Refused(reason));
        }
        if connection == ConnectionUse::KeptOpen {
            return self.questions.report(token, number, Event::Segment(tcp.clone()));
        }
        let is_accepted = tcp.flags & tcp_flag::SYN != 0;
        let length = if is_accepted { 1 } else { tcp.data.len() as u32 };
        let next = Tcp {
            source_port: tcp.destination_port,
            destination_port: tcp.source_port,
            sequence: tcp.acknowledgement,
            acknowledgement: tcp.sequence.wrapping_add(length),
            ..Tcp::default()
        };
        let next = if is_accepted {
            Tcp { flags: tcp_flag::PSH | tcp_flag::ACK, data: token.data(), ..next }
        } else {
            self.questions.report(token, number, reply);
            Tcp { flags: tcp_flag::FIN | tcp_flag::ACK, ..next }
        };
        self.send_ip(mac, destination, source, Body::Tcp(next));
    }
}

/// Answer of a server that accepts every connection and sends all data back. It follows from the
/// segment alone. `None`: the segment needs no answer.
fn serve(tcp: Tcp) -> Option<Tcp> {
    let answer = Tcp {
        source_port: tcp.destination_port,
        destination_port: tcp.source_port,
        ..Tcp::default()
    };
    if tcp.flags & tcp_flag::RST != 0 {
        None
    } else if tcp.flags & tcp_flag::SYN != 0 {
        Some(Tcp {
            sequence: !tcp.sequence,
            acknowledgement: tcp.sequence.wrapping_add(1),
            flags: tcp_flag::SYN | tcp_flag::ACK,
            ..answer
        })
    } else if tcp.flags & tcp_flag::FIN != 0 {
        Some(Tcp {
            sequence: tcp.acknowledgement,
            acknowledgement: tcp.sequence.wrapping_add(1),
            flags: tcp_flag::FIN | tcp_flag::ACK,
            ..answer
        })
    } else if tcp.data.is_empty() {
        None
    } else {
        Some(Tcp {
            sequence: tcp.acknowledgement,
            acknowledgement: tcp.sequence.wrapping_add(tcp.data.len() as u32),
            flags: tcp_flag::PSH | tcp_flag::ACK,
            data: tcp.data,
            ..answer
        })
    }
}
