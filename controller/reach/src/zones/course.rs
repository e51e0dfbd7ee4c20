//! Course of a packet and of the reply through the databases of zones.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Way;
use crate::answer::{Answer, Verdict};
use crate::northbound::RowRef;

/// Answer in the database of a zone.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneAnswer {
    /// The zone.
    pub zone: String,
    /// The answer there.
    #[serde(flatten)]
    pub answer: Answer,
}

impl ZoneAnswer {
    pub(super) fn new(zone: &str, answer: Answer) -> Self {
        Self { zone: zone.to_owned(), answer }
    }
}

/// Zones of a course.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AskedZones {
    /// Zones whose databases the packet or the reply has met.
    pub asked: Vec<String>,
    /// Zones into which one of them goes, and that have no database here.
    pub not_asked: Vec<String>,
}

/// Course of the first packet of a connection, and of the reply.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    /// The packet in the database of its sender's zone.
    #[serde(flatten)]
    pub answer: Answer,
    /// Zones that were asked, and those that were not.
    pub zones: AskedZones,
    /// The packet behind the tunnel, where it ends. `None`: it enters no tunnel, or that zone was
    /// not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<ZoneAnswer>,
    /// The packet in the zones between.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<ZoneAnswer>,
    /// The reply where it ends: `reaches` if the sender gets it. `None`: there is none, or nobody
    /// can be asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<ZoneAnswer>,
    /// The reply in the zones before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reply_between: Vec<ZoneAnswer>,
    /// `true` if the destination is a port of these databases, of another network, and the packet
    /// leaves them.
    pub isolated: bool,
    /// Zone of the sender.
    #[serde(skip)]
    pub zone: String,
    /// Outcome of packet and reply together.
    #[serde(skip)]
    pub outcome: Outcome,
}

/// Outcome of a packet and its reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The packet reaches a machine, and the sender gets the reply.
    Reaches,
    /// The packet goes out to a network that the databases do not know.
    Leaves,
    /// A router answers the sender.
    Answered,
    /// The packet for a port of the databases leaves them.
    Isolated,
    /// The packet does not arrive.
    Stopped,
    /// The packet arrives, and the sender gets no reply.
    NoReply,
    /// The packet or the reply goes into a zone that was not asked.
    Unasked {
        /// The last zone that was asked.
        zone: String,
        /// The zone that was not.
        other: String,
    },
}

impl Outcome {
    fn of(request: &Way, reply: Option<&Way>, isolated: bool) -> Self {
        let mut ways = [Some(request), reply].into_iter().flatten();
        let unasked = ways.find_map(|way| Some((way, way.unasked.clone()?)));
        if let Some((way, other)) = unasked {
            return Self::Unasked { zone: way.last.zone.clone(), other };
        }
        let is_back = |way: &Way| {
            let verdict = way.last.answer.verdict;
            matches!(verdict, Verdict::Reaches | Verdict::Leaves)
        };
        let is_answered = reply.is_none_or(is_back);
        match request.last.answer.verdict {
            Verdict::Reaches if is_answered => Self::Reaches,
            Verdict::Answered if is_answered => Self::Answered,
            Verdict::Reaches | Verdict::Answered => Self::NoReply,
            Verdict::Leaves if isolated => Self::Isolated,
            Verdict::Leaves => Self::Leaves,
            Verdict::Dropped | Verdict::Unanswered => Self::Stopped,
        }
    }

    /// `true` if the packet arrives somewhere, and the reply too where somebody can be asked.
    pub fn is_arrival(&self) -> bool {
        matches!(self, Self::Reaches | Self::Leaves | Self::Answered)
    }
}

impl Course {
    /// The course of a packet whose reply went another way, if there is one.
    pub(super) fn new(request: Way, reply: Option<Way>, isolated: bool) -> Self {
        let outcome = Outcome::of(&request, reply.as_ref(), isolated);
        let ways = || [Some(&request), reply.as_ref()].into_iter().flatten();
        let answers = ways().flat_map(|way| way.before.iter().chain([&way.last]));
        let asked: BTreeSet<_> = answers.map(|answer| answer.zone.clone()).collect();
        let not_asked = ways().filter_map(|way| way.unasked.clone());
        let zones =
            AskedZones { asked: asked.into_iter().collect(), not_asked: not_asked.collect() };
        let mut between = request.before;
        let (first, end) = if between.is_empty() {
            (request.last, None)
        } else {
            (between.remove(0), Some(request.last))
        };
        let (reply_between, reply) = match reply {
            Some(way) => (way.before, Some(way.last)),
            None => (Vec::new(), None),
        };
        Self {
            answer: first.answer,
            zones,
            end,
            between,
            reply,
            reply_between,
            isolated,
            zone: first.zone,
            outcome,
        }
    }

    /// `true` if the packet reaches this port, and the sender gets the reply.
    pub(crate) fn connects(&self, port: &str) -> bool {
        self.outcome == Outcome::Reaches && self.last().out.as_deref() == Some(port)
    }

    /// `true` if a zone decides that has no database.
    pub(crate) fn is_unasked(&self) -> bool {
        matches!(self.outcome, Outcome::Unasked { .. })
    }

    /// The answer where the packet ends.
    pub fn last(&self) -> &Answer {
        self.end.as_ref().map_or(&self.answer, |end| &end.answer)
    }

    /// Answers of the packet behind the first tunnel, in order.
    pub fn behind(&self) -> impl Iterator<Item = &ZoneAnswer> {
        self.between.iter().chain(&self.end)
    }

    /// Answers of the reply, in order.
    pub fn replies(&self) -> impl Iterator<Item = &ZoneAnswer> {
        self.reply_between.iter().chain(&self.reply)
    }

    /// The row that drops or rejects the packet or its reply. `None`: no row does.
    pub fn stopped_by(&self) -> Option<RowRef> {
        self.stopping_row().map(|(_, row)| row)
    }

    /// The zone and row that drop or reject the packet or its reply. Databases of zones may give
    /// rows of different objects one UUID.
    pub fn stopping_row(&self) -> Option<(&str, RowRef)> {
        let answer = match self.outcome {
            Outcome::Stopped => self.end.as_ref(),
            Outcome::NoReply => Some(self.reply.as_ref()?),
            _ => return None,
        };
        match answer {
            Some(ZoneAnswer { zone, answer }) => Some((zone, answer.stopped_by?)),
            None => Some((&self.zone, self.answer.stopped_by?)),
        }
    }

    /// Choices that OVN leaves open on both ways.
    pub fn open(&self) -> impl Iterator<Item = &str> {
        let others = self.behind().chain(self.replies()).flat_map(|other| &other.answer.open);
        self.answer.open.iter().chain(others).map(String::as_str)
    }
}
