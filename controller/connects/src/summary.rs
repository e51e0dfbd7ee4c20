//! What a zone has to say about a connect, in short.

use serde::{Deserialize, Serialize};

use super::report::{ConnectReport, Notice};
use patchbay_model::abbreviation::truncate_text;

/// The longest sentence in a short summary, in bytes. What a database says in a refusal has no end of its own.
const SENTENCE: usize = 400;

/// What a zone has to say about a connect, in short. Of versions that know more or fewer members what is common counts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ZoneSummary {
    /// How many networks are connected.
    pub networks: usize,
    /// How many ports the connect router has.
    pub ports: usize,
    /// What is not connected and why, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
    /// How many more obstacles there are.
    pub more: usize,
    /// What is odd without keeping anything from being connected, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// How many more notices there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_notices: usize,
}

impl From<&ConnectReport> for ZoneSummary {
    fn from(report: &ConnectReport) -> Self {
        Self {
            networks: report.connected.len(),
            ports: report.connected.iter().map(|network| network.ports).sum(),
            obstacles: report.obstacles().collect(),
            more: 0,
            notices: report.notices.iter().map(Notice::lasting).collect(),
            more_notices: 0,
        }
    }
}

impl ZoneSummary {
    /// What a report says, with at most so many of its obstacles and notices each, and only the beginning of what is long.
    pub fn short(report: &ConnectReport, most: usize) -> Self {
        let mut summary = Self::from(report);
        summary.more = cut(&mut summary.obstacles, most);
        summary.more_notices = cut(&mut summary.notices, most);
        summary
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "this is how fields are handed over"
)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Leaves at most so many sentences, and of long ones the beginning. Returns how many are gone.
fn cut(sentences: &mut Vec<String>, most: usize) -> usize {
    let more = sentences.len().saturating_sub(most);
    sentences.truncate(most);
    for sentence in sentences {
        sentence.truncate(truncate_text(sentence, SENTENCE).len());
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HeldReason;

    #[test]
    fn short_summaries_are_short() {
        let mut report = ConnectReport::held(HeldReason::Refused("x".repeat(10_000)));
        report.notices = (0..8)
            .map(|number| Notice::SharedNetworks {
                connect: number.to_string(),
                networks: vec!["x".repeat(200); 10],
            })
            .collect();
        let summary = ZoneSummary::short(&report, 5);
        assert_eq!((summary.obstacles.len(), summary.more), (1, 0));
        assert_eq!(summary.obstacles[0].len(), SENTENCE);
        assert_eq!((summary.notices.len(), summary.more_notices), (5, 3));
        assert!(
            summary
                .notices
                .iter()
                .all(|notice| notice.len() == SENTENCE)
        );
        let summary = ZoneSummary::short(&report, 0);
        assert_eq!((summary.obstacles.len(), summary.more), (0, 1));
    }

    #[test]
    fn members_may_be_missing_or_unknown() {
        let text = r#"{"networks": 2, "later": {"a": 1}}"#;
        let summary: ZoneSummary = serde_json::from_str(text).unwrap();
        let expected = ZoneSummary {
            networks: 2,
            ..ZoneSummary::default()
        };
        assert_eq!(summary, expected);
    }
}
