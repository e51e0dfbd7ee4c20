//! Hops of a packet, choices that OVN leaves open, and the end of the path.

use std::fmt;

use serde::Serialize;

use super::Dependences;
use crate::answer::Verdict;
use crate::northbound::{RowRef, SwitchPortId};

/// Decision about a packet on its way.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Hop {
    /// Kind of the datapath.
    pub kind: HopKind,
    /// Name of the switch or router.
    pub name: String,
    /// Stage of the pipeline, as ovn-northd names it, such as `lr_in_policy`.
    pub stage: &'static str,
    /// Decision in words.
    pub decision: String,
    /// Row that decides. `None`: the configuration of the switch or router as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<RowRef>,
}

/// Kind of a datapath.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HopKind {
    /// `Logical_Switch`
    Switch,
    /// `Logical_Router`
    Router,
}

impl fmt::Display for HopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Switch => "switch",
            Self::Router => "router",
        })
    }
}

/// End of the path of a packet.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) verdict: Verdict,
    /// Switch port by which the packet goes out. `None`: it does not, or by a router port.
    pub(crate) out: Option<SwitchPortId>,
    /// Place of the end, in words; for a router port by which the packet goes out, its name.
    pub(crate) at: String,
}

impl End {
    pub(crate) fn dropped(at: impl Into<String>) -> Self {
        Self { verdict: Verdict::Dropped, out: None, at: at.into() }
    }

    pub(crate) fn unanswered(at: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unanswered, out: None, at: at.into() }
    }
}

/// Hops of a packet and choices that OVN leaves open.
#[derive(Debug, Default)]
pub(crate) struct Path {
    pub(crate) hops: Vec<Hop>,
    pub(crate) open: Vec<String>,
    pub(crate) dependences: Dependences,
    /// Row that drops or rejects the packet.
    pub(crate) stopped_by: Option<RowRef>,
}

impl Path {
    pub(crate) fn switch(
        &mut self,
        name: &str,
        stage: &'static str,
        row: Option<RowRef>,
        decision: String,
    ) {
        self.add(HopKind::Switch, name, stage, row, decision);
    }

    pub(crate) fn router(
        &mut self,
        name: &str,
        stage: &'static str,
        row: Option<RowRef>,
        decision: String,
    ) {
        self.add(HopKind::Router, name, stage, row, decision);
    }

    fn add(
        &mut self,
        kind: HopKind,
        name: &str,
        stage: &'static str,
        row: Option<RowRef>,
        decision: String,
    ) {
        self.hops.push(Hop { kind, name: name.to_owned(), stage, decision, row });
    }

    /// Removes the hops behind the first repetition of the last one.
    pub(crate) fn cut_repetition(&mut self) {
        let last = self.hops.last();
        if let Some(first) = self.hops.iter().position(|hop| Some(hop) == last) {
            self.hops.truncate(first + 1);
        }
    }

    /// Records a choice that OVN leaves open.
    pub(crate) fn leave_open(&mut self, choice: String) {
        if !self.open.contains(&choice) {
            self.open.push(choice);
        }
    }

    /// Records a row whose effect on the packet does not follow from the Northbound database alone,
    /// or is not modelled. The rest of the path is that without the effect.
    pub(crate) fn leave_unjudged(&mut self, row: RowRef, effect: &str) {
        self.leave_open(format!("cannot be judged: {effect} [{row}]"));
    }
}
