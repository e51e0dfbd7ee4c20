//! Summary of a connect in one zone, as zones publish it.

use std::collections::BTreeMap;

use patchbay_model::abbreviation::truncate_text;
use patchbay_model::printable::{is_unprintable, printable};
use serde::{Deserialize, Serialize};

use super::report::{ConnectReport, Notice};

/// Upper bound of a message in a short summary, in bytes, because error texts of a database have
/// no upper bound.
const MAX_MESSAGE_BYTES: usize = 400;

/// Upper bound of each number in a short summary: more than a connect has in one zone, and small
/// enough for sums over all zones.
const MAX_COUNT: usize = 1 << 30;

/// Summary of a connect in one zone.
///
/// Unknown members are ignored and missing members have defaults, so that zones of different
/// versions understand each other.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ZoneSummary {
    /// Number of connected networks.
    pub networks: usize,
    /// Number of ports of the connect router.
    pub ports: usize,
    /// Messages about networks and nodes that are not connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
    /// Number of obstacles left out.
    pub more: usize,
    /// Messages about nodes whose annotations are not complete yet, by node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pending_nodes: BTreeMap<String, String>,
    /// Number of pending nodes left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_pending_nodes: usize,
    /// Messages about irregularities that prevent no connection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Number of notices left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_notices: usize,
}

impl From<&ConnectReport> for ZoneSummary {
    fn from(report: &ConnectReport) -> Self {
        Self {
            networks: report.connected.len(),
            ports: report.connected.iter().map(|network| network.ports).sum(),
            obstacles: report.lasting_obstacles().collect(),
            more: 0,
            pending_nodes: report.pending_nodes(),
            more_pending_nodes: 0,
            notices: report.notices.iter().map(Notice::lasting).collect(),
            more_notices: 0,
        }
    }
}

impl ZoneSummary {
    /// Summarizes a report with at most `most` obstacles, pending nodes and notices each, and
    /// truncates long messages.
    pub fn short(report: &ConnectReport, most: usize) -> Self {
        let mut summary = Self::from(report);
        summary.limit(most);
        summary
    }

    /// Limits a summary to at most `most` obstacles, pending nodes and notices each, every message
    /// to one printable line, and numbers to what a zone can have.
    ///
    /// The summary of another zone is from a node, which may be hostile.
    pub fn limit(&mut self, most: usize) {
        let sum = |left: usize, cut: usize| left.saturating_add(cut).min(MAX_COUNT);
        self.more = sum(self.more, cut(&mut self.obstacles, most));
        let more_nodes = self.pending_nodes.len().saturating_sub(most);
        self.more_pending_nodes = sum(self.more_pending_nodes, more_nodes);
        if let Some(first) = self.pending_nodes.keys().nth(most).cloned() {
            self.pending_nodes.split_off(&first);
        }
        self.pending_nodes.values_mut().for_each(shorten);
        self.more_notices = sum(self.more_notices, cut(&mut self.notices, most));
        self.networks = self.networks.min(MAX_COUNT);
        self.ports = self.ports.min(MAX_COUNT);
    }

    /// `true` if every network is connected on every node that OVN manages.
    pub fn is_complete(&self) -> bool {
        self.obstacles.is_empty()
            && self.more == 0
            && self.pending_nodes.is_empty()
            && self.more_pending_nodes == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Keeps the first `most` messages, truncates long ones, and returns the number removed.
fn cut(messages: &mut Vec<String>, most: usize) -> usize {
    let more = messages.len().saturating_sub(most);
    messages.truncate(most);
    messages.iter_mut().for_each(shorten);
    more
}

/// Makes a message one printable line of limited length.
fn shorten(message: &mut String) {
    message.truncate(truncate_text(message, MAX_MESSAGE_BYTES).len());
    if message.contains(is_unprintable) {
        *message = printable(message, MAX_MESSAGE_BYTES).into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HeldReason;

    #[test]
    fn short_summaries_have_few_and_truncated_messages() {
        let mut report = ConnectReport::held(HeldReason::Refused("x".repeat(10_000)));
        report.notices = (0..8)
            .map(|number| Notice::SharedNetworks {
                connect: number.to_string(),
                networks: vec!["x".repeat(200); 10],
            })
            .collect();
        let summary = ZoneSummary::short(&report, 5);
        assert_eq!((summary.obstacles.len(), summary.more), (1, 0));
        assert_eq!(summary.obstacles[0].len(), MAX_MESSAGE_BYTES);
        assert_eq!((summary.notices.len(), summary.more_notices), (5, 3));
        assert!(summary.notices.iter().all(|notice| notice.len() == MAX_MESSAGE_BYTES));
        let summary = ZoneSummary::short(&report, 0);
        assert_eq!((summary.obstacles.len(), summary.more), (0, 1));
    }

    #[test]
    fn missing_and_unknown_members_are_accepted() {
        let text = r#"{"networks": 2, "later": {"a": 1}}"#;
        let summary: ZoneSummary = serde_json::from_str(text).unwrap();
        let expected = ZoneSummary { networks: 2, ..ZoneSummary::default() };
        assert_eq!(summary, expected);
    }
}
