//! Log messages of a zone controller about a ClusterNetworkConnect.

use patchbay_connects::ConnectReport;

/// Problems per log line. There may be one for each node of each network.
const MAX_LOGGED_PROBLEMS: usize = 20;

/// The logged part of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConnectLogFields {
    pub(crate) networks: String,
    pub(crate) problems: String,
}

impl ConnectLogFields {
    pub(crate) fn of(report: &ConnectReport) -> Self {
        let networks: Vec<&str> =
            report.connected.iter().map(|network| network.network.as_str()).collect();
        let notices = report.notices.iter().map(ToString::to_string);
        let mut problems: Vec<String> =
            report.obstacles().chain(notices).take(MAX_LOGGED_PROBLEMS).collect();
        let more =
            (report.obstacle_count() + report.notices.len()).saturating_sub(MAX_LOGGED_PROBLEMS);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Self { networks: networks.join(", "), problems: problems.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_connects::{NetworkSkip, Notice, SkippedNetwork};

    #[test]
    fn a_log_line_has_a_limited_number_of_problems() {
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
        let problems = |report: &ConnectReport| ConnectLogFields::of(report).problems;
        let text = problems(&report);
        assert!(text.starts_with("network layer3_1: the network is not known; "));
        assert!(text.ends_with("network layer3_20: the network is not known; and 11 more"));
        report.skipped_networks.truncate(1);
        assert_eq!(
            problems(&report),
            "network layer3_1: the network is not known; annotation: odd"
        );
    }
}
