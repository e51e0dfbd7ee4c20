//! A pod on a wire: answers ARP, neighbour discovery, ICMP echo, UDP and TCP, and asks questions.

mod receive;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, WeakShared};
use ipnet::IpNet;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::asker::Asker;
use super::frames::{self, FrameSender};
use super::open_questions::{FlowTurn, OpenQuestions, Seen, lock};
use super::packet::{Arp, BROADCAST, Body, Frame, IpPacket, Mac, Payload, neighbour_request};
use super::pcap::Pcap;
use crate::outside;

/// TTL and hop limit of packets that pods send, as of Linux.
pub(crate) const TTL: u8 = 64;
/// Ethernet address of the host behind a gateway.
const OUTSIDE_MAC: Mac = [0x02, 0, 0, 0, 0xff, 0xfe];
/// Time for a neighbour to answer before it is asked again.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_millis(200);
/// Time for a neighbour to answer the last time. A busy machine answers late.
const LATE_NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of times that a neighbour is asked.
const NEIGHBOUR_ATTEMPTS: u8 = 3;

/// Packet with which a question asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    Echo,
    Udp(u16),
    Tcp(u16),
}

/// Result of the packets of a question.
#[derive(Clone, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) result: RequestResult,
    /// Time from the last packet to the answer, or of the whole wait.
    pub(crate) time: Duration,
    pub(crate) attempts: u8,
    pub(crate) seen: Seen,
}

/// Result of a question as the asking pod sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RequestResult {
    Reply {
        ttl: u8,
    },
    Refused(String),
    /// Nobody answers for the address, or for the gateway, on the wire.
    NoNeighbour(IpAddr),
    /// The pod has no address of the family.
    NoAddress,
    Silence,
}

/// Search for the Ethernet address of a neighbour. `None`: nobody answers.
type Search = BoxFuture<'static, Option<Mac>>;

/// What an endpoint answers beside its addresses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum EndpointRole {
    /// A pod or a host: nothing.
    Machine,
    /// The host behind the gateway of a node: it has the addresses of documentation, and answers for
    /// those of the gateway as well.
    NodeGateway,
    /// The gateway of a subnet on a provider network: it is each host of the internet, too.
    SubnetGateway {
        /// Ranges whose hosts are not behind the gateway.
        beside: Vec<IpNet>,
    },
}

/// Identity of a pod on a wire.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EndpointConfig {
    /// Number in the lab.
    pub(crate) number: usize,
    pub(crate) role: EndpointRole,
    pub(crate) mac: Mac,
    /// Addresses with the length of their subnet.
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) gateways: Vec<IpAddr>,
}

impl EndpointConfig {
    /// The host behind the gateway of a node.
    pub(crate) fn outside(number: usize) -> Self {
        Self {
            number,
            role: EndpointRole::NodeGateway,
            mac: OUTSIDE_MAC,
            addresses: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

/// Pod on a wire. Its task ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    state: Arc<EndpointState>,
    task: JoinHandle<()>,
}

/// State of an endpoint, which its task shares.
#[derive(Debug)]
pub(super) struct EndpointState {
    pub(super) config: EndpointConfig,
    pub(super) questions: Arc<OpenQuestions>,
    outgoing: FrameSender,
    neighbours: Mutex<HashMap<IpAddr, Mac>>,
    learned: Notify,
    /// Searches for neighbours under way, so that questions through one gateway ask for it once.
    searches: Mutex<HashMap<IpAddr, WeakShared<Search>>>,
    capture: Mutex<Option<Pcap>>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Connects to the device at a socket as soon as it exists.
    pub(crate) fn start(
        config: EndpointConfig,
        socket: PathBuf,
        questions: Arc<OpenQuestions>,
    ) -> Self {
        let (outgoing, frames) = FrameSender::new();
        let state = Arc::new(EndpointState::new(config, questions, outgoing));
        let own = state.clone();
        let task = tokio::spawn(async move {
            frames::exchange(&socket, frames, |frame| own.receive(frame)).await;
        });
        Self { state, task }
    }

    pub(crate) fn config(&self) -> &EndpointConfig {
        &self.state.config
    }

    /// Forgets the Ethernet addresses of neighbours.
    pub(crate) fn forget_neighbours(&self) {
        self.state.forget_neighbours();
    }

    /// Writes all frames to a file from now on.
    pub(crate) fn capture(&self, path: &Path) -> io::Result<()> {
        let capture = Pcap::create(path)?;
        *lock(&self.state.capture) = Some(capture);
        Ok(())
    }

    /// A handle that asks questions.
    pub(crate) fn asker(&self) -> Asker {
        Asker::new(self.state.clone())
    }
}

impl EndpointState {
    pub(super) fn new(
        config: EndpointConfig,
        questions: Arc<OpenQuestions>,
        outgoing: FrameSender,
    ) -> Self {
        Self {
            config,
            questions,
            outgoing,
            neighbours: Mutex::default(),
            learned: Notify::new(),
            searches: Mutex::default(),
            capture: Mutex::default(),
        }
    }

    pub(super) fn forget_neighbours(&self) {
        lock(&self.neighbours).clear();
    }

    /// The own address in the family of another one.
    pub(super) fn source(&self, to: IpAddr) -> Option<IpNet> {
        let mut addresses = self.config.addresses.iter().copied();
        addresses.find(|own| own.addr().is_ipv4() == to.is_ipv4())
    }

    /// The address itself if it is in the own subnet, else the gateway.
    pub(super) fn next_hop(&self, source: IpNet, to: IpAddr) -> IpAddr {
        if source.contains(&to) {
            return to;
        }
        let mut gateways = self.config.gateways.iter().copied();
        gateways.find(|gateway| gateway.is_ipv4() == to.is_ipv4()).unwrap_or(to)
    }

    /// The Ethernet address of a neighbour on the wire. `None`: nobody answers.
    pub(super) async fn resolve(self: &Arc<Self>, source: IpAddr, hop: IpAddr) -> Option<Mac> {
        if let Some(mac) = self.neighbour(hop) {
            return Some(mac);
        }
        let search = {
            let mut searches = lock(&self.searches);
            let running = searches.get(&hop).and_then(WeakShared::upgrade);
            running.unwrap_or_else(|| {
                let search = self.clone().search(source, hop).boxed().shared();
                searches.extend(search.downgrade().map(|weak| (hop, weak)));
                search
            })
        };
        search.await
    }

    /// Asks for the Ethernet address of a neighbour on the wire.
    async fn search(self: Arc<Self>, source: IpAddr, hop: IpAddr) -> Option<Mac> {
        for attempt in 1..=NEIGHBOUR_ATTEMPTS {
            self.questions.turn(FlowTurn::New).await;
            self.send(&neighbour_request(self.config.mac, source, hop));
            let known = async {
                loop {
                    let learned = self.learned.notified();
                    if let Some(mac) = self.neighbour(hop) {
                        return mac;
                    }
                    learned.await;
                }
            };
            let patience = if attempt < NEIGHBOUR_ATTEMPTS {
                NEIGHBOUR_TIMEOUT
            } else {
                LATE_NEIGHBOUR_TIMEOUT
            };
            let mut known = pin!(known);
            if let Ok(mac) = timeout(patience, &mut known).await {
                return Some(mac);
            }
            if attempt == NEIGHBOUR_ATTEMPTS {
                let switches = &self.questions.switches;
                return switches.wait_for(known.map(Some)).await;
            }
        }
        None
    }

    fn neighbour(&self, hop: IpAddr) -> Option<Mac> {
        lock(&self.neighbours).get(&hop).copied()
    }

    pub(super) fn send_ip(&self, mac: Mac, source: IpAddr, destination: IpAddr, body: Body) {
        self.send(&Frame {
            destination: mac,
            source: self.config.mac,
            payload: Payload::Ip(IpPacket { source, destination, ttl: TTL, body }),
        });
    }

    fn send(&self, frame: &Frame) {
        let bytes = frame.encode();
        self.record(&bytes);
        self.outgoing.send(bytes);
    }

    fn record(&self, bytes: &[u8]) {
        let mut capture = lock(&self.capture);
        if let Some(Err(error)) = capture.as_mut().map(|file| file.append(bytes)) {
            tracing::warn!(%error, "a packet capture ends");
            *capture = None;
        }
    }

    /// `true` if the endpoint answers packets to an address.
    fn is_own(&self, address: IpAddr) -> bool {
        match &self.config.role {
            EndpointRole::Machine => self.has_address(address),
            EndpointRole::NodeGateway => outside::has_address(address),
            EndpointRole::SubnetGateway { beside } => {
                let is_beside = beside.iter().any(|range| range.contains(&address));
                self.has_address(address) || outside::is_public(address) && !is_beside
            }
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        let mut own = self.config.addresses.iter();
        own.any(|own| own.addr() == address)
    }

    /// `true` if the endpoint answers ARP and neighbour discovery for an address.
    fn is_neighbour(&self, address: IpAddr) -> bool {
        self.config.role == EndpointRole::NodeGateway || self.has_address(address)
    }

    fn learn(&self, address: IpAddr, mac: Mac) {
        lock(&self.neighbours).insert(address, mac);
        self.learned.notify_waiters();
    }
}

/// Answer to an ARP request on the cable, where node addresses are known. `None`: the frame is no
/// request for a known address.
pub(crate) fn answer_arp(frame: &[u8], mac_of: impl Fn(IpAddr) -> Option<Mac>) -> Option<Vec<u8>> {
    let frame = Frame::decode(frame)?;
    let Payload::Arp(arp) = frame.payload else {
        return None;
    };
    (arp.is_request && frame.destination == BROADCAST).then_some(())?;
    let mac = mac_of(arp.target.into())?;
    let reply = Frame {
        destination: arp.sender_mac,
        source: mac,
        payload: Payload::Arp(Arp {
            is_request: false,
            sender_mac: mac,
            sender: arp.target,
            target_mac: arp.sender_mac,
            target: arp.sender,
        }),
    };
    Some(reply.encode())
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::super::open_questions::{ConnectionUse, Event};
    use super::super::packet::{Tcp, Udp, tcp_flag};
    use super::*;

    /// State of a pod, and the queue of its frames.
    fn pod() -> (EndpointState, tokio::sync::mpsc::Receiver<Vec<u8>>) {
        let (outgoing, frames) = FrameSender::new();
        let config = EndpointConfig {
            role: EndpointRole::Machine,
            addresses: vec!["10.0.0.2/24".parse().unwrap()],
            ..EndpointConfig::outside(1)
        };
        let state = EndpointState::new(config, Arc::default(), outgoing);
        (state, frames)
    }

    #[tokio::test]
    async fn only_the_asked_address_answers_a_question() {
        let [own, asked, other] =
            ["10.0.0.2", "10.96.0.1", "10.0.0.3"].map(|text| text.parse::<IpAddr>().unwrap());
        for is_tcp in [true, false] {
            for (source, is_answered) in [(other, false), (asked, true)] {
                let (state, mut frames) = pod();
                let (token, mut events) = state.questions.begin(1, asked, ConnectionUse::Closed);
                let body = if is_tcp {
                    Body::Tcp(Tcp {
                        source_port: 80,
                        destination_port: token.client_port(),
                        acknowledgement: token.0.wrapping_add(1),
                        flags: tcp_flag::SYN | tcp_flag::ACK,
                        ..Tcp::default()
                    })
                } else {
                    Body::Udp(Udp {
                        source_port: 53,
                        destination_port: token.client_port(),
                        data: token.data(),
                    })
                };
                let frame = Frame {
                    destination: OUTSIDE_MAC,
                    source: [0x0a, 0, 0, 0, 0, 1],
                    payload: Payload::Ip(IpPacket { source, destination: own, ttl: TTL, body }),
                };
                state.receive(&frame.encode());
                // A client sends data when the connection is accepted.
                assert_eq!(frames.try_recv().is_ok(), is_tcp && is_answered, "{source}");
                let event = events.try_recv();
                let is_reply = matches!(event, Ok(Event::Reply { .. }));
                assert_eq!(is_reply, !is_tcp && is_answered, "{source}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_neighbour_that_answers_late_is_known() {
        let mac = [0x0a, 0, 0, 0, 0, 1];
        let [own, hop] = ["10.0.0.2", "10.0.0.1"].map(|text| text.parse::<IpAddr>().unwrap());
        for (milliseconds, found) in [(0, Some(mac)), (1_200, Some(mac)), (2_000, None)] {
            let (outgoing, mut frames) = FrameSender::new();
            let config = EndpointConfig::outside(1);
            let state = Arc::new(EndpointState::new(config, Arc::default(), outgoing));
            let answer = async {
                sleep(Duration::from_millis(milliseconds)).await;
                state.learn(hop, mac);
            };
            let (resolved, ()) = tokio::join!(state.resolve(own, hop), answer);
            assert_eq!(resolved, found, "{milliseconds} ms");
            let requests = if milliseconds == 0 { 1 } else { NEIGHBOUR_ATTEMPTS };
            for _ in 0..requests {
                assert!(frames.try_recv().is_ok(), "{milliseconds} ms");
            }
            assert!(frames.try_recv().is_err(), "{milliseconds} ms");
        }
    }
}
