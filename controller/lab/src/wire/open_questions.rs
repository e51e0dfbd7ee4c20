//! Packets under way: which question a packet belongs to, and where it was seen.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::packet::{Body, Echo, IpPacket, Tcp, Udp, tcp_flag};
use super::switches::Switches;

/// Beginning of the data of every packet that asks.
pub(crate) const MARK: &[u8; 8] = b"patchbay";
/// First port that pods ask from; the ports below answer.
pub(crate) const FIRST_CLIENT_PORT: u16 = 49_152;
/// Number of ports that pods ask from.
const CLIENT_PORTS: u32 = 16_384;
/// Interval between new flows: a dummy device queues 100 frames, and a switch needs up to 2 ms for
/// the first packet of a flow.
const FLOW_INTERVAL: Duration = Duration::from_millis(2);
/// Interval between packets of flows that the switches know.
const PACKET_INTERVAL: Duration = Duration::from_micros(500);

/// Number that identifies the packets of a question.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Token(pub(crate) u32);

impl Token {
    /// Port from which a question with this token is asked.
    pub(crate) fn client_port(self) -> u16 {
        FIRST_CLIENT_PORT + (self.0 % CLIENT_PORTS) as u16
    }

    /// Data of the question's packets.
    pub(crate) fn data(self) -> Vec<u8> {
        let mut data = MARK.to_vec();
        data.extend(self.0.to_be_bytes());
        data
    }

    /// Identifier and sequence number of an echo request. Connection tracking distinguishes
    /// connections by the identifier, so that each question begins one.
    pub(crate) fn echo_numbers(self) -> (u16, u16) {
        (self.0 as u16, (self.0 >> 16) as u16)
    }

    fn of_data(data: &[u8]) -> Option<Self> {
        let token = data.strip_prefix(MARK)?.first_chunk::<4>()?;
        Some(Self(u32::from_be_bytes(*token)))
    }

    /// Reads the token of a packet that asks or answers. `None`: the packet has none.
    pub(crate) fn of(packet: &IpPacket) -> Option<Self> {
        match &packet.body {
            // NAT may replace the identifier, and an ICMP error may not quote the data.
            Body::Echo(Echo { id, sequence, data, .. }) => Self::of_data(data)
                .or_else(|| Some(Self(u32::from(*sequence) << 16 | u32::from(*id)))),
            Body::Udp(Udp { data, .. }) => Self::of_data(data),
            Body::Tcp(Tcp { sequence, acknowledgement, flags, data, .. }) => {
                match (flags & tcp_flag::SYN != 0, flags & tcp_flag::ACK != 0) {
                    (true, false) => Some(Self(*sequence)),
                    // A reset answers the first segment like an accepting segment does.
                    (true, true) => Some(Self(acknowledgement.wrapping_sub(1))),
                    (false, true) if flags & tcp_flag::RST != 0 => {
                        Some(Self(acknowledgement.wrapping_sub(1)))
                    }
                    _ => Self::of_data(data),
                }
            }
            _ => None,
        }
    }

    /// Reads the token of a packet that an ICMP error quotes. UDP packets have it in data that may
    /// be missing, so it is searched by the port among the questions under way.
    fn of_quoted(quoted: &[u8], questions: &HashMap<u32, OpenQuestion>) -> Option<Self> {
        let packet = IpPacket::decode(quoted)?;
        match &packet.body {
            Body::Tcp(tcp) => Some(Self(tcp.sequence)),
            Body::Udp(udp) => Self::of(&packet).or_else(|| {
                let mut tokens = questions.keys().copied().map(Self);
                tokens.find(|token| token.client_port() == udp.source_port)
            }),
            _ => Self::of(&packet),
        }
    }
}

/// Event of a question.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The asking pod got the answer.
    Reply { ttl: u8 },
    /// The asking pod got a refusal.
    Refused(String),
    /// The asking pod got a segment of a connection that stays open.
    Segment(Tcp),
}

/// Arrival of a question at a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Arrival {
    /// Number of the pod's endpoint.
    pub(crate) endpoint: usize,
    /// TTL or hop limit at the arrival.
    pub(crate) ttl: u8,
    /// Address of the sender at the arrival.
    pub(crate) source: IpAddr,
}

/// Passage of a packet between two nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Passage {
    /// Number of the sending node.
    pub(crate) from: usize,
    /// Number of the receiving node.
    pub(crate) to: usize,
    /// Geneve's virtual network identifier.
    pub(crate) vni: u32,
    /// `true`: the cable lost the packet.
    pub(crate) is_lost: bool,
}

/// Frame of a question or of its answer that a node sends to the wire of a provider network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WireFrame {
    /// Name of the provider network.
    pub network: String,
    /// Sending node.
    pub node: String,
    /// VLAN ids of its tags, the outer one first.
    pub tags: Vec<u16>,
    /// Source address of the packet.
    pub source: IpAddr,
    /// Destination address of the packet.
    pub destination: IpAddr,
}

/// Frames with ARP or IP that a node sends to the wire of a provider network, and that nobody there
/// reads.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct WireLoss {
    /// Name of the provider network.
    pub network: String,
    /// Sending node.
    pub node: String,
    /// VLAN ids of their tags, the outer one first.
    pub tags: Vec<u16>,
    /// Reason why nobody reads them.
    pub reason: String,
}

/// A question under way.
#[derive(Debug)]
struct OpenQuestion {
    endpoint: usize,
    /// Address that is asked.
    asked: IpAddr,
    connection: ConnectionUse,
    events: mpsc::UnboundedSender<Event>,
    seen: Seen,
}

/// Use of a connection after its first answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConnectionUse {
    /// It is closed.
    Closed,
    /// It stays open, and each segment is reported.
    KeptOpen,
}

/// Kind of a packet that waits for its turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FlowTurn {
    /// First packet of a flow.
    New,
    /// Packet that is sent again.
    Known,
}

/// Places at which the packets of a question were seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) passages: Vec<Passage>,
    pub(crate) frames: Vec<WireFrame>,
}

/// All questions under way in a lab.
#[derive(Debug)]
pub(crate) struct OpenQuestions {
    open: Mutex<HashMap<u32, OpenQuestion>>,
    next: AtomicU32,
    /// Time of the next packet that asks.
    slot: Mutex<Instant>,
    /// Switches that the packets pass.
    pub(crate) switches: Switches,
}

impl Default for OpenQuestions {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            next: AtomicU32::new(1),
            slot: Mutex::new(Instant::now()),
            switches: Switches::default(),
        }
    }
}

impl OpenQuestions {
    /// Waits for the turn of a packet, so that the switches get at most 500 new flows in a second.
    pub(crate) async fn turn(&self, of: FlowTurn) {
        let interval = match of {
            FlowTurn::New => FLOW_INTERVAL,
            FlowTurn::Known => PACKET_INTERVAL,
        };
        let turn = {
            let mut slot = lock(&self.slot);
            let turn = (*slot).max(Instant::now());
            *slot = turn + interval;
            turn
        };
        sleep_until(turn).await;
    }

    /// Begins a question or a connection of an endpoint. `asked`: address that is asked.
    pub(crate) fn begin(
        &self,
        endpoint: usize,
        asked: IpAddr,
        connection: ConnectionUse,
    ) -> (Token, mpsc::UnboundedReceiver<Event>) {
        let (events, received) = mpsc::unbounded_channel();
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let question = OpenQuestion { endpoint, asked, connection, events, seen: Seen::default() };
        lock(&self.open).insert(token, question);
        (Token(token), received)
    }

    /// Ends a question, and returns where its packets were seen.
    pub(crate) fn end(&self, token: Token) -> Seen {
        let question = lock(&self.open).remove(&token.0);
        question.map(|question| question.seen).unwrap_or_default()
    }

    /// Places at which the packets of a question under way were seen.
    pub(crate) fn seen(&self, token: Token) -> Seen {
        let questions = lock(&self.open);
        questions.get(&token.0).map(|question| question.seen.clone()).unwrap_or_default()
    }

    /// Kind of a question that an address answers. `None`: the endpoint has not asked it, or has
    /// asked another address. A client accepts the answers of the asked address only.
    pub(crate) fn connection_use(
        &self,
        token: Token,
        endpoint: usize,
        answering: IpAddr,
    ) -> Option<ConnectionUse> {
        let questions = lock(&self.open);
        let question = questions.get(&token.0);
        Some(
            question
                .filter(|question| question.endpoint == endpoint && question.asked == answering)?
                .connection,
        )
    }

    /// Reports an event to the endpoint that asks. Events of other endpoints are dropped.
    pub(crate) fn report(&self, token: Token, endpoint: usize, event: Event) {
        let questions = lock(&self.open);
        let question = questions.get(&token.0);
        if let Some(question) = question.filter(|question| question.endpoint == endpoint) {
            // The question may have been dropped.
            let _ = question.events.send(event);
        }
    }

    /// Reports an ICMP error about a packet that the endpoint has sent.
    pub(crate) fn report_error(&self, quoted: &[u8], endpoint: usize, reason: String) {
        let token = Token::of_quoted(quoted, &lock(&self.open));
        if let Some(token) = token {
            self.report(token, endpoint, Event::Refused(reason));
        }
    }

    /// Notes the arrival of a question.
    pub(crate) fn note_arrival(&self, token: Token, arrival: Arrival) {
        if let Some(question) = lock(&self.open).get_mut(&token.0) {
            question.seen.arrivals.push(arrival);
        }
    }

    /// Notes that a packet of a question or of its answer is between two nodes.
    pub(crate) fn note_passage(&self, token: Token, passage: Passage) {
        if let Some(question) = lock(&self.open).get_mut(&token.0) {
            question.seen.passages.push(passage);
        }
    }

    /// Notes that a packet of a question or of its answer is on the wire of a provider network.
    pub(crate) fn note_frame(&self, token: Token, frame: WireFrame) {
        if let Some(question) = lock(&self.open).get_mut(&token.0) {
            question.seen.frames.push(frame);
        }
    }
}

/// Locks a mutex. The values stay consistent when a thread panics, because each change is one call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
