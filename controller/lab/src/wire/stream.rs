//! A TCP connection of a pod that stays open while the lab changes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::endpoint::EndpointState;
use super::open_questions::{ConnectionUse, Event, Token};
use super::packet::{Body, Mac, Tcp, tcp_flag};

/// Time for the answer to a segment before it is sent again.
const RETRANSMISSION: Duration = Duration::from_millis(400);
/// Number of times that a segment is sent.
const ATTEMPTS: u32 = 5;

/// Open connection. Dropping it forgets it; the other end receives no packet.
#[derive(Debug)]
pub(crate) struct Stream {
    state: Arc<EndpointState>,
    mac: Mac,
    source: IpAddr,
    destination: IpAddr,
    port: u16,
    token: Token,
    events: mpsc::UnboundedReceiver<Event>,
    /// Next sequence number of either end.
    own_next: u32,
    other_next: u32,
    /// Number of exchanges, which makes their data different.
    exchanges: u32,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.state.questions.end(self.token);
    }
}

impl Stream {
    pub(super) async fn open(
        state: Arc<EndpointState>,
        (mac, source, destination): (Mac, IpAddr, IpAddr),
        port: u16,
    ) -> Option<Self> {
        let number = state.config.number;
        let questions = &state.questions;
        let (token, events) = questions.begin(number, destination, ConnectionUse::KeptOpen);
        let mut stream = Self {
            state,
            mac,
            source,
            destination,
            port,
            token,
            events,
            own_next: token.0,
            other_next: 0,
            exchanges: 0,
        };
        let accepted = stream
            .send_until(tcp_flag::SYN, &[], |tcp| {
                tcp.flags & tcp_flag::SYN != 0 && tcp.flags & tcp_flag::ACK != 0
            })
            .await?;
        stream.own_next = accepted.acknowledgement;
        stream.other_next = accepted.sequence.wrapping_add(1);
        stream.send(tcp_flag::ACK, &[]);
        Some(stream)
    }

    /// Sends data and waits until the same data comes back. Returns the number of the endpoint at
    /// which it arrived last. `None`: it did not come back.
    pub(crate) async fn exchange(&mut self) -> Option<usize> {
        self.exchanges += 1;
        let mut data = self.token.data();
        data.extend(self.exchanges.to_be_bytes());
        let flags = tcp_flag::PSH | tcp_flag::ACK;
        let expected = data.clone();
        let answer = self.send_until(flags, &data, |tcp| tcp.data == expected).await?;
        self.own_next = answer.acknowledgement;
        self.other_next = answer.sequence.wrapping_add(answer.data.len() as u32);
        self.send(tcp_flag::ACK, &[]);
        let seen = self.state.questions.seen(self.token);
        Some(seen.arrivals.last()?.endpoint)
    }

    /// Sends a segment until the expected one comes.
    async fn send_until(
        &mut self,
        flags: u8,
        data: &[u8],
        is_expected: impl Fn(&Tcp) -> bool,
    ) -> Option<Tcp> {
        for _ in 0..ATTEMPTS {
            self.send(flags, data);
            let until = Instant::now() + RETRANSMISSION;
            while let Ok(Some(event)) = timeout_at(until, self.events.recv()).await {
                match event {
                    Event::Segment(tcp) if is_expected(&tcp) => return Some(tcp),
                    _ => {}
                }
            }
        }
        let (state, events) = (self.state.clone(), &mut self.events);
        let late = async {
            loop {
                match events.recv().await? {
                    Event::Segment(tcp) if is_expected(&tcp) => return Some(tcp),
                    _ => {}
                }
            }
        };
        state.questions.switches.wait_for(late).await
    }

    fn send(&self, flags: u8, data: &[u8]) {
        let segment = Tcp {
            source_port: self.token.client_port(),
            destination_port: self.port,
            sequence: self.own_next,
            acknowledgement: self.other_next,
            flags,
            data: data.to_vec(),
        };
        let (source, destination) = (self.source, self.destination);
        self.state.send_ip(self.mac, source, destination, Body::Tcp(segment));
    }
}
