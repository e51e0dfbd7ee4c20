//! Answers: the verdict on a packet, and its path.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::address::Mac;
use crate::northbound::{Northbound, PortId};
use crate::packet::Transport;
use crate::question::{Destination, Protocol, Question};
use crate::resolve::NameError;
use crate::trace::{End, Entry, Hop, Path, Source, Trace, Traced};

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
    /// Choices that OVN leaves open: backends, equal routes, equal priorities. The answer is one of
    /// several right ones if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
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
    /// The destination has no address of a family that the sender has.
    #[error("{from} and {to} have no common address family")]
    NoCommonFamily {
        /// Name of the sender's port.
        from: String,
        /// Destination.
        to: String,
    },
}

/// Addresses and the port that differ at the end of a path from those that were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Translation {
    source: Option<IpAddr>,
    dest: Option<IpAddr>,
    dest_port: Option<u16>,
}

impl Translation {
    /// The differences of a traced packet to what was sent.
    pub(crate) fn of(
        traced: &Traced,
        source: IpAddr,
        destination: IpAddr,
        transport: Transport,
    ) -> Self {
        let port = traced.transport.destination_port();
        Self {
            source: (traced.source != source).then_some(traced.source),
            dest: (traced.destination != destination).then_some(traced.destination),
            dest_port: (port != transport.destination_port()).then_some(port),
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
        let destination = addresses
            .iter()
            .find(has_family)
            .or(addresses.first().filter(|_| is_given))
            .ok_or_else(|| QuestionError::NoCommonFamily {
                from: port.name.clone(),
                to: format!("{:?}", question.destination),
            })?;
        let mac = |text: &String| Mac::parse(text).ok_or_else(|| QuestionError::Mac(text.clone()));
        let source = Source {
            port: sender,
            address: question.sender.ip,
            mac: question.sender.mac.as_ref().map(mac).transpose()?,
            target_mac: match &question.sender.mac_of {
                Some(name) => Some(self.mac_of_router_port(name)?),
                None => None,
            },
        };
        Ok(self.trace(&source, *destination, question.protocol))
    }

    fn trace(&self, source: &Source, destination: IpAddr, protocol: Protocol) -> Answer {
        let transport = Transport::from(protocol);
        let mut path = Path::default();
        self.limit_sender(source.port, destination, &mut path);
        let frame = match self.frame(source, destination, transport, &mut path) {
            Ok(frame) => frame,
            Err(end) => return self.compose(end, path, Translation::default()),
        };
        if let Some(at) = self.blocked_resolution(&frame, &mut path) {
            return self.compose(End::unanswered(at), path, Translation::default());
        }
        let sent = frame.source();
        let traced = Trace::run(self, Entry::Switch(source.port), frame.packet, path);
        let translation = Translation {
            source: (Some(traced.source) != sent).then_some(traced.source),
            ..Translation::of(&traced, traced.source, destination, transport)
        };
        self.compose(traced.end, traced.path, translation)
    }

    pub(crate) fn compose(&self, end: End, path: Path, translation: Translation) -> Answer {
        let Translation {
            source,
            dest,
            dest_port,
        } = translation;
        let arrives = matches!(end.verdict, Verdict::Reaches | Verdict::Leaves);
        let out = match end.out {
            Some(port) => Some(self.port_name(PortId::Switch(port)).to_owned()),
            None if arrives => Some(end.at.clone()),
            None => None,
        };
        Answer {
            verdict: end.verdict,
            out,
            source: source.filter(|_| arrives),
            dest: dest.filter(|_| arrives),
            dest_port: dest_port.filter(|_| arrives),
            hops: path.hops,
            at: end.at,
            open: path.open,
        }
    }
}
