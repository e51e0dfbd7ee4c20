//! Answers: the verdict on a packet, and its path.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::address::Mac;
use crate::northbound::{Northbound, Northd, PortId, RowRef, SwitchPortId};
use crate::packet::{IpPacket, Transport};
use crate::question::{Destination, Question};
use crate::resolve::NameError;
use crate::trace::{
    Connection, Dependences, Deployment, Direction, End, Entry, Hop, Path, Source, Trace, Traced,
};

/// Outcome of a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It goes out of a machine's port, or into the tunnel to another chassis.
    Reaches,
    /// It goes out of a localnet port.
    Leaves,
    /// A router answers the echo request, and the answer gets back.
    Answered,
    /// It is dropped or rejected.
    Dropped,
    /// The sender gets no MAC address for the destination or its gateway.
    Unanswered,
}

impl Verdict {
    /// Word of the verdict.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reaches => "reaches",
            Self::Leaves => "leaves",
            Self::Answered => "answered",
            Self::Dropped => "dropped",
            Self::Unanswered => "unanswered",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Answer to a question.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Outcome of the packet.
    pub verdict: Verdict,
    /// Port by which the packet goes out. `None`: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// 802.1Q tag with which the packet leaves by a localnet port. `None`: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<u16>,
    /// Source address at the end. `None`: it is not translated, or the packet does not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Destination address at the end. `None`: it is not translated, or the packet does not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest: Option<IpAddr>,
    /// Destination port at the end. `None`: it is not translated, or the packet does not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_port: Option<u16>,
    /// Decisions on the way.
    pub hops: Vec<Hop>,
    /// Place of the end, in words.
    pub at: String,
    /// Row that drops or rejects the packet, that of the last hop. `None`: no row does.
    #[serde(skip)]
    pub stopped_by: Option<RowRef>,
    /// Choices that OVN leaves open: backends, equal routes, equal priorities. The answer is one of
    /// several right ones if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
}

impl Answer {
    /// The answer for a packet that is lost before it meets rows.
    pub(crate) fn lost(at: String) -> Self {
        Self {
            verdict: Verdict::Dropped,
            out: None,
            tag: None,
            source: None,
            dest: None,
            dest_port: None,
            hops: Vec::new(),
            at,
            stopped_by: None,
            open: Vec::new(),
        }
    }

    /// `true` if packets have the same end and the same addresses there.
    fn is_same_outcome(&self, other: &Self) -> bool {
        let facts = |answer: &Self| {
            (answer.verdict, answer.out.clone(), answer.source, answer.dest, answer.dest_port)
        };
        facts(self) == facts(other)
    }

    /// The outcome in a line.
    fn outcome(&self) -> String {
        let end = self.out.as_ref().unwrap_or(&self.at);
        let translated = |name, address: Option<IpAddr>| {
            address.map_or_else(String::new, |address| format!(", {name} {address}"))
        };
        let source = translated("source", self.source);
        let destination = translated("destination", self.dest);
        format!("{}: {end}{source}{destination}", self.verdict)
    }

    /// Makes the packet one that is stopped at its end.
    pub(crate) fn stop(&mut self, at: String) {
        *self = Self {
            hops: std::mem::take(&mut self.hops),
            open: std::mem::take(&mut self.open),
            ..Self::lost(at)
        };
    }
}

/// Error: a question cannot be asked.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// A name of the question is not in the database, or belongs to several rows.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A text is no MAC address.
    #[error("{0:?} is no MAC address")]
    Mac(String),
    /// No router in the network of the sender has the name of the gateway, or none has an address of
    /// the destination's family.
    #[error("{from} has no {family} gateway {gateway}{}", routers_hint(.routers))]
    Gateway {
        /// Name of the sender's port.
        from: String,
        /// Address family of the destination.
        family: &'static str,
        /// Gateway of the question.
        gateway: String,
        /// Names of the routers in the network.
        routers: Vec<String>,
    },
    /// The destination has no address of a family that the sender has.
    #[error("{from} and {to} have no common address family")]
    NoCommonFamily {
        /// Name of the sender's port.
        from: String,
        /// Destination.
        to: String,
    },
}

/// The routers that a gateway can be.
fn routers_hint(routers: &[String]) -> String {
    if routers.is_empty() {
        return "; no router is in its network".to_owned();
    }
    format!("; routers in its network: {}", routers.join(", "))
}

/// Addresses and the port that differ at the end of a path from those that were sent.
#[derive(Clone, Copy, Debug, Default)]
struct Translation {
    source: Option<IpAddr>,
    dest: Option<IpAddr>,
    dest_port: Option<u16>,
}

/// Answer for a packet in a database, with what is needed to follow it in others.
pub(crate) struct Passage {
    pub(crate) answer: Answer,
    /// `None`: the sender gets no MAC address, so that it sends nothing.
    pub(crate) sent: Option<Sent>,
    pub(crate) dependences: Dependences,
}

/// Packet that was sent, at the end of its way through a database.
pub(crate) struct Sent {
    /// The packet at the end.
    pub(crate) ip: IpPacket,
    pub(crate) end: End,
    /// End of the answer to an echo request. `None`: no router has answered.
    pub(crate) answer: Option<End>,
    pub(crate) connection: Connection,
}

impl Translation {
    /// The differences of a packet at the end to what was sent.
    fn of(ip: &IpPacket, sent: &IpPacket) -> Self {
        let port = ip.transport.destination_port();
        Self {
            source: (ip.source != sent.source).then_some(ip.source),
            dest: (ip.destination != sent.destination).then_some(ip.destination),
            dest_port: (port != sent.transport.destination_port()).then_some(port),
        }
    }
}

impl Northbound {
    /// Answers a question.
    ///
    /// # Errors
    /// A name of the question is not known or not unique.
    pub fn answer(&self, question: &Question) -> Result<Answer, QuestionError> {
        let destination_name = match &question.destination {
            Destination::Pod(name) => Some(name.as_str()),
            _ => None,
        };
        let sender = self.find_sender(&question.sender, destination_name)?;
        let addresses = self.find_destination(question, sender)?;
        let destination = self.common_address(question, sender, &addresses)?;
        Ok(self.ask(question, sender, destination)?.answer)
    }

    /// The first address of the destination that is of a family of the sender, or any address that
    /// a question gives.
    pub(crate) fn common_address(
        &self,
        question: &Question,
        sender: SwitchPortId,
        addresses: &[IpAddr],
    ) -> Result<IpAddr, QuestionError> {
        let port = self.switch_port(sender);
        let has_family = |address: &&IpAddr| match question.sender.ip {
            Some(own) => own.is_ipv4() == address.is_ipv4(),
            None => port
                .interfaces
                .iter()
                .flat_map(|interface| &interface.addresses)
                .any(|own| own.address.is_ipv4() == address.is_ipv4()),
        };
        let is_given = matches!(question.destination, Destination::Address(_));
        let found = addresses.iter().find(has_family).or(addresses.first().filter(|_| is_given));
        found.copied().ok_or_else(|| QuestionError::NoCommonFamily {
            from: port.name.clone(),
            to: format!("{:?}", question.destination),
        })
    }

    /// Follows the packet of a question from a port to an address.
    pub(crate) fn ask(
        &self,
        question: &Question,
        sender: SwitchPortId,
        destination: IpAddr,
    ) -> Result<Passage, QuestionError> {
        let mac = |text: &String| Mac::parse(text).ok_or_else(|| QuestionError::Mac(text.clone()));
        let source = Source {
            port: sender,
            address: question.sender.ip,
            mac: question.sender.mac.as_ref().map(mac).transpose()?,
            target_mac: match &question.sender.mac_of {
                Some(name) => Some(self.mac_of_router_port(name)?),
                None => None,
            },
            gateway: match &question.sender.gateway {
                Some(name) => Some(self.find_gateway(name, (question, sender), destination)?),
                None => None,
            },
        };
        let transport = Transport::from(question.protocol);
        Ok(self.trace(&source, destination, transport, &Default::default()))
    }

    /// Follows a packet from its sender. Other outcomes are choices of the answer: those with
    /// Kube-OVN's ovn-northd if none was named, and those of senders on nodes that are not the
    /// active gateway.
    pub(crate) fn trace(
        &self,
        source: &Source,
        destination: IpAddr,
        transport: Transport,
        connection: &(Direction, Connection),
    ) -> Passage {
        let deployment = Deployment::of(self);
        let follow =
            |other| self.trace_in(other, source, destination, transport, connection.clone());
        let mut passage = follow(deployment);
        let Dependences { is_by_northd, gateways } = &passage.dependences;
        let mut others = Vec::new();
        if !gateways.is_empty() {
            let names: Vec<_> = gateways.iter().map(String::as_str).collect();
            let plural = if names.len() > 1 { "s" } else { "" };
            let title =
                format!("only on the active gateway{plural} {}; elsewhere", names.join(", "));
            others.push((title, follow(Deployment { is_sender_gateway: false, ..deployment })));
        }
        if *is_by_northd && self.northd().is_none() {
            let title = "only with a stock ovn-northd; with Kube-OVN's".to_owned();
            others.push((title, follow(Deployment { northd: Northd::KubeOvn, ..deployment })));
        }
        for (title, other) in others {
            if !other.answer.is_same_outcome(&passage.answer) {
                passage.answer.open.push(format!("{title} {}", other.answer.outcome()));
            }
        }
        passage
    }

    fn trace_in(
        &self,
        deployment: Deployment,
        source: &Source,
        destination: IpAddr,
        transport: Transport,
        connection: (Direction, Connection),
    ) -> Passage {
        let unsent = |end, path| Passage {
            answer: self.compose(end, path, Translation::default()),
            sent: None,
            dependences: Dependences::default(),
        };
        let mut path = Path::default();
        self.limit_sender(source.port, destination, &mut path);
        let frame = match self.frame(source, destination, transport, &mut path) {
            Ok(frame) => frame,
            Err(end) => return unsent(end, path),
        };
        if let Some(at) = self.blocked_resolution(&frame, &mut path) {
            return unsent(End::unanswered(at), path);
        }
        let sent =
            IpPacket { source: frame.source().unwrap_or(destination), destination, transport };
        let entry = Entry::Switch(source.port);
        let traced = Trace::run(self, entry, frame.packet, path, connection, deployment);
        self.passage(traced, &sent)
    }

    /// The answer for a packet that was followed.
    pub(crate) fn passage(&self, mut traced: Traced, sent: &IpPacket) -> Passage {
        let translation = Translation::of(&traced.ip, sent);
        Passage {
            dependences: std::mem::take(&mut traced.path.dependences),
            answer: self.compose(traced.end.clone(), traced.path, translation),
            sent: Some(Sent {
                ip: traced.ip,
                end: traced.end,
                answer: traced.answer,
                connection: traced.connection,
            }),
        }
    }

    /// The answer of a router to a packet, which the tunnel carries to another chassis.
    pub(crate) fn answer_in_tunnel(&self, end: &End, request: &Sent) -> Passage {
        Passage {
            answer: self.compose(end.clone(), Path::default(), Translation::default()),
            sent: Some(Sent {
                ip: request.ip.clone(),
                end: end.clone(),
                answer: None,
                connection: Connection::default(),
            }),
            dependences: Dependences::default(),
        }
    }

    fn compose(&self, end: End, path: Path, translation: Translation) -> Answer {
        let Translation { source, dest, dest_port } = translation;
        let arrives = matches!(end.verdict, Verdict::Reaches | Verdict::Leaves);
        let out = match end.out {
            Some(port) => Some(self.port_name(PortId::Switch(port)).to_owned()),
            None if arrives => Some(end.at.clone()),
            None => None,
        };
        let is_leaving = end.verdict == Verdict::Leaves;
        let tag = end.out.filter(|_| is_leaving).and_then(|port| self.switch_port(port).tag);
        Answer {
            verdict: end.verdict,
            out,
            tag,
            source: source.filter(|_| arrives),
            dest: dest.filter(|_| arrives),
            dest_port: dest_port.filter(|_| arrives),
            hops: path.hops,
            at: end.at,
            stopped_by: path.stopped_by,
            open: path.open,
        }
    }
}
