//! What a zone half logs about a connect.

use patchbay_connects::ConnectReport;

/// How many problems of a connect are logged: there may be one for each node of each network.
const PROBLEMS: usize = 20;

/// The part of a report that is logged.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Message {
    pub(super) networks: String,
    pub(super) problems: String,
}

impl Message {
    pub(super) fn of(report: &ConnectReport) -> Self {
        let networks: Vec<&str> = report
            .connected
            .iter()
            .map(|network| network.network.as_str())
            .collect();
        let notices = report.notices.iter().map(ToString::to_string);
        let mut problems: Vec<String> = report.obstacles().chain(notices).take(PROBLEMS).collect();
        let more = (report.obstacle_count() + report.notices.len()).saturating_sub(PROBLEMS);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Self {
            networks: networks.join(", "),
            problems: problems.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_connects::{NetworkSkip, Notice, SkippedNetwork};

    #[test]
    fn what_is_logged_has_an_end() {
        let skipped = (1..=30).map(|number| SkippedNetwork {
            owner: format!("layer3_{number}").parse().unwrap(),
            network: None,
            reason: NetworkSkip::Unknown,
        });
        let notice = Notice::UnknownOwner("odd".to_owned());
        let mut report = ConnectReport {
            skipped_networks: skipped.collect(),
            notices: vec![notice],
            ..ConnectReport::default()
        };
        let problems = |report: &ConnectReport| Message::of(report).problems;
        let told = problems(&report);
        assert!(told.starts_with("network layer3_1: the network is not known; "));
        assert!(told.ends_with("network layer3_20: the network is not known; and 11 more"));
        report.skipped_networks.truncate(1);
        assert_eq!(
            problems(&report),
            "network layer3_1: the network is not known; annotation: odd"
        );
    }
}
