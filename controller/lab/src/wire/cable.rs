//! The cable between the nodes: hands Geneve packets from node to node, and can lose or delay them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::endpoint::answer_arp;
use super::frames::{self, FrameSender};
use super::open_questions::{OpenQuestions, Passage, Token, lock};
use super::packet::{Frame, Payload, decode_geneve};
use crate::underlay;

/// Quality of the cable between two nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CableQuality {
    /// `true`: no packet gets through.
    pub is_cut: bool,
    /// Time that each packet takes.
    pub delay: Duration,
    /// Number of packets that are lost of each 100, evenly spread.
    pub lost_percent: u8,
}

/// The cable. Its tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct Cable {
    shared: Arc<Shared>,
    tasks: Mutex<BTreeMap<usize, JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    questions: Arc<OpenQuestions>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Senders to the devices of the nodes, by number.
    nodes: BTreeMap<usize, FrameSender>,
    /// Quality between two nodes, by their numbers in order.
    quality: BTreeMap<(usize, usize), CableQuality>,
    /// Packets that a lossy pair has carried.
    carried: BTreeMap<(usize, usize), u64>,
}

impl Drop for Cable {
    fn drop(&mut self) {
        for task in lock(&self.tasks).values() {
            task.abort();
        }
    }
}

impl Cable {
    pub(crate) fn new(questions: Arc<OpenQuestions>) -> Self {
        Self {
            shared: Arc::new(Shared { questions, state: Mutex::default() }),
            tasks: Mutex::default(),
        }
    }

    /// Connects a node by the socket of its device, as soon as that exists.
    pub(crate) fn connect(&self, node: usize, socket: PathBuf) {
        let (outgoing, frames) = FrameSender::new();
        lock(&self.shared.state).nodes.insert(node, outgoing);
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            frames::exchange(&socket, frames, |frame| shared.carry(node, frame)).await;
        });
        lock(&self.tasks).insert(node, task);
    }

    /// Disconnects a node.
    pub(crate) fn disconnect(&self, node: usize) {
        lock(&self.shared.state).nodes.remove(&node);
        if let Some(task) = lock(&self.tasks).remove(&node) {
            task.abort();
        }
    }

    /// Sets the quality between two nodes.
    pub(crate) fn set_quality(&self, one: usize, other: usize, quality: CableQuality) {
        lock(&self.shared.state).quality.insert(pair(one, other), quality);
    }
}

impl Shared {
    fn carry(&self, from: usize, frame: &[u8]) {
        let mac_of = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                let [_, _, high, low] = address.octets();
                let number = usize::from(high) << 8 | usize::from(low);
                (underlay::address(number) == address).then(|| underlay::mac(number))
            }
            IpAddr::V6(_) => None,
        };
        if let Some(reply) = answer_arp(frame, mac_of) {
            if let Some(sender) = lock(&self.state).nodes.get(&from) {
                sender.send(reply);
            }
            return;
        }
        let Some(to) = frame.first_chunk::<6>().and_then(|mac| underlay::node_of(*mac)) else {
            return;
        };
        let (quality, is_lost, sender) = {
            let mut state = lock(&self.state);
            let pair = pair(from, to);
            let quality = state.quality.get(&pair).copied().unwrap_or_default();
            let is_lost =
                quality.is_cut || is_unlucky(quality, state.carried.entry(pair).or_default());
            let sender = state.nodes.get(&to).cloned();
            (quality, is_lost, sender)
        };
        self.note(from, to, frame, is_lost);
        let Some(sender) = sender.filter(|_| !is_lost) else {
            return;
        };
        let frame = frame.to_vec();
        if quality.delay.is_zero() {
            sender.send(frame);
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(quality.delay).await;
                sender.send(frame);
            });
        }
    }

    fn note(&self, from: usize, to: usize, frame: &[u8], is_lost: bool) {
        let Some((vni, inner)) = decode_geneve(frame) else {
            return;
        };
        let payload = Frame::decode(inner).map(|frame| frame.payload);
        let Some(Payload::Ip(packet)) = payload else {
            return;
        };
        if let Some(token) = Token::of(&packet) {
            let passage = Passage { from, to, vni, is_lost };
            self.questions.note_passage(token, passage);
        }
    }
}

/// Counts a packet. Returns `true` if a lossy cable loses it.
fn is_unlucky(quality: CableQuality, carried: &mut u64) -> bool {
    let lost = u64::from(quality.lost_percent);
    let before = *carried * lost / 100;
    *carried += 1;
    *carried * lost / 100 > before
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_cable_loses_its_share() {
        for percent in [0, 1, 30, 50, 100] {
            let quality = CableQuality { lost_percent: percent, ..CableQuality::default() };
            let mut carried = 0;
            let lost = (0..200).filter(|_| is_unlucky(quality, &mut carried)).count();
            assert_eq!(lost, 2 * usize::from(percent));
        }
    }
}
