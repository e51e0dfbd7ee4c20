//! Questions of a pod: packets that it sends, and the answers that it gets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{EndpointState, Request, RequestOutcome, RequestResult};
use super::open_questions::{ConnectionUse, Event, FlowTurn, Seen, Token};
use super::packet::{Body, Echo, Mac, Tcp, Udp, tcp_flag};
use super::stream::Stream;

/// Number of packets that ask a question.
const ATTEMPTS: u8 = 3;
/// Time after which an unanswered packet is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(150);
/// Time for the answer to the last packet.
const PATIENCE: Duration = Duration::from_millis(400);

/// Time for the answer to a packet that has arrived. The cable may delay it.
const LATE_ANSWER: Duration = Duration::from_secs(1);

/// Handle of an endpoint that asks questions.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    state: Arc<EndpointState>,
    /// Host behind the gateway that the endpoint is. `None`: the endpoint itself asks.
    behind: Option<IpAddr>,
    /// Next hop of all packets. `None`: that of the endpoint.
    via: Option<IpAddr>,
}

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
    pub(super) fn new(state: Arc<EndpointState>) -> Self {
        Self { state, behind: None, via: None }
    }

    /// The handle of a host behind the gateway that the endpoint is.
    pub(crate) fn behind(self, host: IpAddr) -> Self {
        Self { behind: Some(host), ..self }
    }

    /// The handle with one next hop for all packets.
    pub(crate) fn via(self, hop: Option<IpAddr>) -> Self {
        Self { via: hop, ..self }
    }

    /// The next hop for packets to an address. `None`: there is no own address of the family, or
    /// the next hop is not resolved.
    pub(crate) async fn way(&self, destination: IpAddr) -> Option<Way> {
        let (source, mac) = self.resolve(destination).await?;
        Some(Way { source, mac, destination })
    }

    /// Sends an echo request and does not wait.
    pub(crate) fn probe(&self, way: Way) -> Probe {
        let state = &*self.state;
        let number = state.config.number;
        let questions = &state.questions;
        let (token, events) = questions.begin(number, way.destination, ConnectionUse::Closed);
        let packet = first_packet(token, Request::Echo);
        state.send_ip(way.mac, way.source, way.destination, packet);
        Probe { token, events }
    }

    /// `true` if a probe is answered.
    pub(crate) async fn is_answered(&self, probe: &mut Probe, until: Instant) -> bool {
        let event = timeout_at(until, probe.events.recv()).await;
        matches!(event, Ok(Some(Event::Reply { .. })))
    }

    /// Ends a probe, and returns where it was seen.
    pub(crate) fn end(&self, probe: &Probe) -> Seen {
        self.state.questions.end(probe.token)
    }

    /// Opens a connection that stays open. `None`: it is not accepted.
    pub(crate) async fn connect(&self, way: Way, port: u16) -> Option<Stream> {
        Stream::open(self.state.clone(), (way.mac, way.source, way.destination), port).await
    }

    /// Own address and the Ethernet address of the next hop for packets to an address. `None`:
    /// there is no own address of the family, or the next hop is not resolved.
    pub(crate) async fn resolve(&self, to: IpAddr) -> Option<(IpAddr, Mac)> {
        let (own, source, hop) = self.hop(to)?;
        let mac = self.state.resolve(own, hop).await?;
        Some((source, mac))
    }

    /// Own address, source address and next hop of packets to an address. `None`: there is none of
    /// the family.
    fn hop(&self, to: IpAddr) -> Option<(IpAddr, IpAddr, IpAddr)> {
        let own = self.state.source(to)?;
        let source = self.behind.unwrap_or(own.addr());
        let hop = self.via.unwrap_or_else(|| self.state.next_hop(own, to));
        (source.is_ipv4() == to.is_ipv4()).then_some((own.addr(), source, hop))
    }

    /// Sends packets until one is answered, at most three.
    pub(crate) async fn ask(&self, to: IpAddr, request: Request) -> RequestOutcome {
        let state = &self.state;
        let nothing = |result| RequestOutcome {
            result,
            time: Duration::ZERO,
            attempts: 0,
            seen: Seen::default(),
        };
        let Some((own, source, hop)) = self.hop(to) else {
            return nothing(RequestResult::NoAddress);
        };
        let Some(mac) = state.resolve(own, hop).await else {
            return nothing(RequestResult::NoNeighbour(hop));
        };
        let (token, mut events) =
            state.questions.begin(state.config.number, to, ConnectionUse::Closed);
        let mut result = RequestResult::Silence;
        let (mut time, mut sent) = (Duration::ZERO, 0);
        while sent < ATTEMPTS && result == RequestResult::Silence {
            let turn = if sent == 0 { FlowTurn::New } else { FlowTurn::Known };
            state.questions.turn(turn).await;
            let start = Instant::now();
            sent += 1;
            let patience = if sent < ATTEMPTS { RESEND_AFTER } else { PATIENCE };
            state.send_ip(mac, source, to, first_packet(token, request));
            let event = timeout_at(start + patience, events.recv()).await;
            time = start.elapsed();
            match event {
                Ok(Some(Event::Reply { ttl })) => result = RequestResult::Reply { ttl },
                Ok(Some(Event::Refused(reason))) => result = RequestResult::Refused(reason),
                Ok(None | Some(Event::Segment(_))) | Err(_) => {}
            }
        }
        if result == RequestResult::Silence {
            let start = Instant::now();
            let mut event = state.questions.switches.wait_for(events.recv()).await;
            if event.is_none() && !state.questions.seen(token).arrivals.is_empty() {
                let late = timeout_at(start + LATE_ANSWER, events.recv()).await;
                event = late.ok().flatten();
            }
            match event {
                Some(Event::Reply { ttl }) => result = RequestResult::Reply { ttl },
                Some(Event::Refused(reason)) => result = RequestResult::Refused(reason),
                None | Some(Event::Segment(_)) => {}
            }
        }
        RequestOutcome { result, time, attempts: sent, seen: state.questions.end(token) }
    }
}

fn first_packet(token: Token, request: Request) -> Body {
    match request {
        Request::Echo => Body::Echo(Echo {
            is_request: true,
            id: token.echo_numbers().0,
            sequence: token.echo_numbers().1,
            data: token.data(),
        }),
        Request::Udp(port) => Body::Udp(Udp {
            source_port: token.client_port(),
            destination_port: port,
            data: token.data(),
        }),
        Request::Tcp(port) => Body::Tcp(Tcp {
            source_port: token.client_port(),
            destination_port: port,
            sequence: token.0,
            flags: tcp_flag::SYN,
            ..Tcp::default()
        }),
    }
}
