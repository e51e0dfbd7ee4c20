//! Questions of a pod: packets that it sends, and the answers that it gets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Knock, KnockResult, Knocked, Station};
use super::flight::{Event, FlightKind, FlowTurn, Seen, Token};
use super::packet::{Body, Echo, Mac, Tcp, Udp, tcp_flag};
use super::stream::Stream;

/// Number of packets that ask a question.
const ATTEMPTS: u8 = 3;
/// Time after which an unanswered packet is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(150);
/// Time for the answer to the last packet.
const PATIENCE: Duration = Duration::from_millis(400);
/// Time for the answer to a packet that has arrived. A busy machine answers late.
const LATE_ANSWER: Duration = Duration::from_secs(1);

/// Handle of an endpoint that asks questions.
#[derive(Clone, Debug)]
pub(crate) struct Asker(Arc<Station>);

/// Next hop on the wire for packets to an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    source: IpAddr,
    mac: Mac,
    destination: IpAddr,
}

/// Echo request under way.
#[derive(Debug)]
pub(crate) struct Probe {
    token: Token,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Asker {
    pub(super) fn new(station: Arc<Station>) -> Self {
        Self(station)
    }

    /// The next hop for packets to an address. `None`: there is no own address of the family, or
    /// the next hop is not resolved.
    pub(crate) async fn way(&self, destination: IpAddr) -> Option<Way> {
        let (source, mac) = self.resolve(destination).await?;
        Some(Way {
            source,
            mac,
            destination,
        })
    }

    /// Sends an echo request and does not wait.
    pub(crate) fn probe(&self, way: Way) -> Probe {
        let station = &*self.0;
        let number = station.config.number;
        let (token, events) = station.flights.begin(number, FlightKind::Question);
        let packet = first_packet(token, Knock::Echo);
        station.send_ip(way.mac, way.source, way.destination, packet);
        Probe { token, events }
    }

    /// `true` if a probe is answered.
    pub(crate) async fn is_answered(&self, probe: &mut Probe, until: Instant) -> bool {
        let event = timeout_at(until, probe.events.recv()).await;
        matches!(event, Ok(Some(Event::Reply { .. })))
    }

    /// Ends a probe, and returns where it was seen.
    pub(crate) fn end(&self, probe: &Probe) -> Seen {
        self.0.flights.end(probe.token)
    }

    /// Opens a connection that stays open. `None`: it is not accepted.
    pub(crate) async fn connect(&self, way: Way, port: u16) -> Option<Stream> {
        Stream::open(self.0.clone(), (way.mac, way.source, way.destination), port).await
    }

    /// Own address and the Ethernet address of the next hop for packets to an address. `None`:
    /// there is no own address of the family, or the next hop is not resolved.
    pub(crate) async fn resolve(&self, to: IpAddr) -> Option<(IpAddr, Mac)> {
        let station = &self.0;
        let source = station.source(to)?;
        let hop = station.next_hop(source, to);
        let mac = station.resolve(source.addr(), hop).await?;
        Some((source.addr(), mac))
    }

    /// Sends packets until one is answered, at most three.
    pub(crate) async fn ask(&self, to: IpAddr, knock: Knock) -> Knocked {
        let station = &self.0;
        let nothing = |result| Knocked {
            result,
            time: Duration::ZERO,
            attempts: 0,
            seen: Seen::default(),
        };
        let Some(source) = station.source(to) else {
            return nothing(KnockResult::NoAddress);
        };
        let hop = station.next_hop(source, to);
        let Some(mac) = station.resolve(source.addr(), hop).await else {
            return nothing(KnockResult::NoNeighbour(hop));
        };
        let (token, mut events) = station
            .flights
            .begin(station.config.number, FlightKind::Question);
        let mut result = KnockResult::Silence;
        let (mut time, mut sent) = (Duration::ZERO, 0);
        while sent < ATTEMPTS && result == KnockResult::Silence {
            let turn = if sent == 0 {
                FlowTurn::New
            } else {
                FlowTurn::Known
            };
            station.flights.turn(turn).await;
            let start = Instant::now();
            sent += 1;
            let patience = if sent < ATTEMPTS {
                RESEND_AFTER
            } else {
                PATIENCE
            };
            station.send_ip(mac, source.addr(), to, first_packet(token, knock));
            let event = timeout_at(start + patience, events.recv()).await;
            time = start.elapsed();
            match event {
                Ok(Some(Event::Reply { ttl })) => result = KnockResult::Reply { ttl },
                Ok(Some(Event::Refused(reason))) => result = KnockResult::Refused(reason),
                Ok(None | Some(Event::Segment(_))) | Err(_) => {}
            }
        }
        let has_arrived = || !station.flights.seen(token).arrivals.is_empty();
        if result == KnockResult::Silence && has_arrived() {
            let event = timeout_at(Instant::now() + LATE_ANSWER, events.recv()).await;
            if let Ok(Some(Event::Reply { ttl })) = event {
                result = KnockResult::Reply { ttl };
            }
        }
        Knocked {
            result,
            time,
            attempts: sent,
            seen: station.flights.end(token),
        }
    }
}

fn first_packet(token: Token, knock: Knock) -> Body {
    match knock {
        Knock::Echo => Body::Echo(Echo {
            is_request: true,
            id: token.echo_numbers().0,
            sequence: token.echo_numbers().1,
            data: token.data(),
        }),
        Knock::Udp(port) => Body::Udp(Udp {
            source_port: token.client_port(),
            destination_port: port,
            data: token.data(),
        }),
        Knock::Tcp(port) => Body::Tcp(Tcp {
            source_port: token.client_port(),
            destination_port: port,
            sequence: token.0,
            flags: tcp_flag::SYN,
            ..Tcp::default()
        }),
    }
}
