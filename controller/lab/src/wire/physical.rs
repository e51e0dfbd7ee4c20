//! The wire of a provider network: switches frames between nodes and hosts by their VLAN tags.
//!
//! Nodes are on trunk ports. The interface of a node may be a VLAN device of the kernel, which adds
//! its tag to each frame, and takes it away. Hosts are on access ports of one VLAN each.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::asker::Asker;
use super::endpoint::{EndpointConfig, EndpointState};
use super::frames::{self, FrameSender};
use super::open_questions::{OpenQuestions, Token, WireFrame, WireLoss, lock};
use super::packet::{Frame, Mac, Payload};
use super::pcap::Pcap;
use super::vlan_tags::{outer_tag, pop_tag, push_tag, tags};

/// Wire of a provider network. Its tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct PhysicalWire {
    shared: Arc<Shared>,
    /// Tasks of the devices of nodes, and of hosts, by the number of the port.
    tasks: Mutex<BTreeMap<usize, JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    /// Name of the provider network.
    name: String,
    questions: Arc<OpenQuestions>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_port: usize,
    ports: BTreeMap<usize, Port>,
    /// Ports by VLAN and Ethernet address.
    learned: HashMap<(u16, Mac), usize>,
    capture: Option<Pcap>,
    /// Numbers of frames that nobody could read, by node, tags and reason.
    losses: BTreeMap<WireLoss, u64>,
}

/// Port of the wire.
#[derive(Clone, Debug)]
enum Port {
    Node(NodePort),
    Host(HostPort),
}

/// Trunk port with the interface of a node.
#[derive(Clone, Debug)]
struct NodePort {
    node: String,
    /// Tag that the interface adds and takes away. `None`: it is no VLAN device.
    device_tag: Option<u16>,
    is_cut: bool,
    frames: FrameSender,
}

/// Access port with a host.
#[derive(Clone, Debug)]
struct HostPort {
    vlan: u16,
    host: Arc<EndpointState>,
}

impl Drop for PhysicalWire {
    fn drop(&mut self) {
        for task in lock(&self.tasks).values() {
            task.abort();
        }
    }
}

impl PhysicalWire {
    pub(crate) fn new(name: &str, questions: Arc<OpenQuestions>) -> Self {
        Self {
            shared: Arc::new(Shared { name: name.to_owned(), questions, state: Mutex::default() }),
            tasks: Mutex::default(),
        }
    }

    /// Connects the interface of a node by the socket of its device, as soon as that exists.
    pub(crate) fn connect(&self, node: &str, device_tag: Option<u16>, socket: PathBuf) {
        let (frames, queue) = FrameSender::new();
        let port = NodePort { node: node.to_owned(), device_tag, is_cut: false, frames };
        let number = self.shared.add(Port::Node(port));
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            frames::exchange(&socket, queue, |frame| shared.carry_from_node(number, frame)).await;
        });
        lock(&self.tasks).insert(number, task);
    }

    /// Disconnects the interface of a node.
    pub(crate) fn disconnect(&self, node: &str) {
        for number in self.shared.ports_of(node) {
            self.remove(number);
        }
    }

    /// Sets whether frames of a node get through. Returns `false` if the node is not on the wire.
    pub(crate) fn set_cut(&self, node: &str, is_cut: bool) -> bool {
        let numbers = self.shared.ports_of(node);
        let mut state = lock(&self.shared.state);
        for number in &numbers {
            if let Some(Port::Node(port)) = state.ports.get_mut(number) {
                port.is_cut = is_cut;
            }
        }
        !numbers.is_empty()
    }

    /// Connects a host on an access port of a VLAN. Returns the number of the port.
    pub(crate) fn add_host(&self, vlan: u16, config: EndpointConfig) -> usize {
        let (frames, mut queue) = FrameSender::new();
        let questions = self.shared.questions.clone();
        let host = Arc::new(EndpointState::new(config, questions, frames));
        let number = self.shared.add(Port::Host(HostPort { vlan, host }));
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                shared.carry_from_host(number, frame);
            }
        });
        lock(&self.tasks).insert(number, task);
        number
    }

    /// Disconnects a port.
    pub(crate) fn remove(&self, port: usize) {
        let mut state = lock(&self.shared.state);
        state.ports.remove(&port);
        state.learned.retain(|_, learned| *learned != port);
        drop(state);
        if let Some(task) = lock(&self.tasks).remove(&port) {
            task.abort();
        }
    }

    /// A handle that asks questions of a host. `None`: there is no host on the port.
    pub(crate) fn asker(&self, port: usize) -> Option<Asker> {
        match lock(&self.shared.state).ports.get(&port)? {
            Port::Host(port) => Some(Asker::new(port.host.clone())),
            Port::Node(_) => None,
        }
    }

    /// `true` if the endpoint of this number is a host on the wire.
    pub(crate) fn has_host(&self, endpoint: usize) -> bool {
        let state = lock(&self.shared.state);
        let mut ports = state.ports.values();
        ports.any(|port| matches!(port, Port::Host(one) if one.host.config.number == endpoint))
    }

    /// Hosts forget the Ethernet addresses of their neighbours.
    pub(crate) fn forget_neighbours(&self) {
        for port in lock(&self.shared.state).ports.values() {
            if let Port::Host(port) = port {
                port.host.forget_neighbours();
            }
        }
    }

    /// Numbers of frames that nobody could read so far.
    pub(crate) fn losses(&self) -> BTreeMap<WireLoss, u64> {
        lock(&self.shared.state).losses.clone()
    }

    /// Writes all frames with their tags to a file from now on.
    pub(crate) fn capture(&self, path: &Path) -> io::Result<()> {
        let capture = Pcap::create(path)?;
        lock(&self.shared.state).capture = Some(capture);
        Ok(())
    }
}

impl Shared {
    fn add(&self, port: Port) -> usize {
        let mut state = lock(&self.state);
        state.next_port += 1;
        let number = state.next_port;
        state.ports.insert(number, port);
        number
    }

    /// Ports with the interface of a node.
    fn ports_of(&self, node: &str) -> Vec<usize> {
        let state = lock(&self.state);
        let ports = state.ports.iter();
        let of_node = ports.filter(|(_, port)| matches!(port, Port::Node(one) if one.node == node));
        of_node.map(|(number, _)| *number).collect()
    }

    /// Carries a frame that the switch of a node sends to its interface.
    fn carry_from_node(&self, number: usize, frame: &[u8]) {
        let port = lock(&self.state).ports.get(&number).cloned();
        if let Some(Port::Node(port)) = port.filter(|port| !port.is_cut()) {
            let mut frame = frame.to_vec();
            if let Some(tag) = port.device_tag {
                push_tag(&mut frame, tag);
            }
            self.carry(number, &port.node, &frame);
        }
    }

    /// Carries a frame of a host.
    fn carry_from_host(&self, number: usize, mut frame: Vec<u8>) {
        let port = lock(&self.state).ports.get(&number).cloned();
        if let Some(Port::Host(port)) = port {
            if port.vlan != 0 {
                push_tag(&mut frame, port.vlan);
            }
            self.carry(number, "", &frame);
        }
    }

    /// Carries a frame as it is on the wire. `node`: the sender; empty: a host.
    fn carry(&self, from: usize, node: &str, frame: &[u8]) {
        let (Some(destination), Some(source)) = (mac_at(frame, 0), mac_at(frame, 6)) else {
            return;
        };
        let vlan = outer_tag(frame).unwrap_or_default();
        let receivers: Vec<Port> = {
            let mut state = lock(&self.state);
            if let Some(Err(error)) = state.capture.as_mut().map(|file| file.append(frame)) {
                tracing::warn!(%error, "a packet capture ends");
                state.capture = None;
            }
            state.learned.insert((vlan, source), from);
            let known = state.learned.get(&(vlan, destination));
            let known = known.copied().filter(|_| destination[0] & 1 == 0);
            let others = state.ports.iter().filter(|(number, _)| **number != from);
            let receiving = others.filter(|(number, port)| {
                known.is_none_or(|known| **number == known) && port.is_in(vlan)
            });
            receiving.map(|(_, port)| port.clone()).collect()
        };
        let mut is_received = false;
        let mut reason = None;
        for port in &receivers {
            match port.receive(frame, vlan) {
                Ok(()) => is_received = true,
                Err(Unread::Tagged) => reason = Some(tagged_reason(frame)),
                Err(Unread::Discarded) => {}
            }
        }
        if reason.is_none() && !is_received {
            reason = Some(match vlan {
                0 => "nobody on the wire takes frames without a tag".to_owned(),
                vlan => format!("nobody on the wire is in VLAN {vlan}"),
            });
        }
        self.note(node, frame, reason);
    }

    /// Notes a frame of a node: the packet of a question, or a frame that is lost.
    fn note(&self, node: &str, frame: &[u8], reason: Option<String>) {
        if node.is_empty() {
            return;
        }
        let tags = tags(frame);
        let mut inner = frame.to_vec();
        while outer_tag(&inner).is_some() {
            pop_tag(&mut inner);
        }
        let Some(Frame { payload, .. }) = Frame::decode(&inner) else {
            return;
        };
        if let Payload::Ip(packet) = &payload
            && let Some(token) = Token::of(packet)
        {
            let (network, node) = (self.name.clone(), node.to_owned());
            let ends: (IpAddr, IpAddr) = (packet.source, packet.destination);
            let frame = WireFrame {
                network,
                node,
                tags: tags.clone(),
                source: ends.0,
                destination: ends.1,
            };
            self.questions.note_frame(token, frame);
        }
        // Other frames, such as those that teach switches addresses, are for nobody.
        if let (Some(reason), Payload::Arp(_) | Payload::Ip(_)) = (reason, payload) {
            let (network, node) = (self.name.clone(), node.to_owned());
            let loss = WireLoss { network, node, tags, reason };
            *lock(&self.state).losses.entry(loss).or_default() += 1;
        }
    }
}

/// Reason why a port does not take a frame.
enum Unread {
    /// The interface, or the end of the wire, discards it.
    Discarded,
    /// A host gets a tag that it does not expect.
    Tagged,
}

impl Port {
    fn is_cut(&self) -> bool {
        matches!(self, Self::Node(port) if port.is_cut)
    }

    fn is_in(&self, vlan: u16) -> bool {
        match self {
            Self::Node(port) => port.device_tag.is_none_or(|tag| tag == vlan),
            Self::Host(port) => port.vlan == vlan,
        }
    }

    /// Hands over a frame of the port's VLAN.
    fn receive(&self, frame: &[u8], vlan: u16) -> Result<(), Unread> {
        let mut frame = frame.to_vec();
        match self {
            Self::Node(port) if port.is_cut => Err(Unread::Discarded),
            Self::Node(port) => {
                if port.device_tag.is_some() {
                    pop_tag(&mut frame);
                }
                port.frames.send(frame);
                Ok(())
            }
            Self::Host(port) => {
                if vlan != 0 {
                    pop_tag(&mut frame);
                }
                if outer_tag(&frame).is_some() {
                    return Err(Unread::Tagged);
                }
                port.host.receive(&frame);
                Ok(())
            }
        }
    }
}

fn tagged_reason(frame: &[u8]) -> String {
    let tags = tags(frame);
    match tags[..] {
        [outer, inner, ..] => {
            format!("tagged twice: hosts in VLAN {outer} do not read a second tag {inner}")
        }
        _ => "hosts do not read tags".to_owned(),
    }
}

fn mac_at(frame: &[u8], offset: usize) -> Option<Mac> {
    frame.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
