//! Condition `Connected` of a CNC, from the reports of all zones.

use std::collections::{BTreeMap, BTreeSet};

use super::zone_summary::ZoneSummary;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::condition::{ConditionReport, ConditionStatus};

/// Condition type.
pub const CONNECTED: &str = "Connected";

/// Number of zones listed by name for one message; further ones are counted.
const MAX_NAMED_ZONES: usize = 3;
/// Maximum number of obstacles and of notices in the condition message; further ones are counted.
const MAX_MESSAGES: usize = 20;

/// Reports of all zones about one connect.
#[derive(Clone, Debug, Default)]
pub struct ZoneReports<'a> {
    /// Names and summaries of zones that have reported the connect's current generation.
    pub current: Vec<(&'a str, &'a ZoneSummary)>,
    /// Zones whose last report is about an earlier generation.
    pub outdated: Vec<&'a str>,
    /// Zones that have never reported the connect.
    pub silent: Vec<&'a str>,
}

impl<'a> ZoneReports<'a> {
    /// True if no zone has reported the connect.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.outdated.is_empty()
    }

    /// Distinct obstacles of all current reports.
    pub fn obstacles(&self) -> BTreeSet<&'a str> {
        let summaries = self.current.iter().map(|(_, summary)| *summary);
        summaries
            .flat_map(|summary| &summary.obstacles)
            .map(String::as_str)
            .collect()
    }

    /// Returns the condition.
    ///
    /// Reports about an earlier generation do not count. Notices are listed in the message and do
    /// not change the status.
    pub fn condition(&self) -> ConditionReport {
        let skipped = ZoneMessages::of(&self.current, |summary| (&summary.obstacles, summary.more));
        let noted = ZoneMessages::of(&self.current, |summary| {
            (&summary.notices, summary.more_notices)
        });
        let mut parts = Vec::new();
        if !self.current.is_empty() || (self.outdated.is_empty() && self.silent.is_empty()) {
            parts.push(self.counts());
        }
        let is_complete = skipped.is_empty();
        parts.extend(skipped.format_parts("skipped"));
        if !self.outdated.is_empty() {
            parts.push(format!(
                "not up to date in {}",
                format_zones(&self.outdated)
            ));
        }
        if !self.silent.is_empty() {
            parts.push(format!("no report yet from {}", format_zones(&self.silent)));
        }
        parts.extend(noted.format_parts("noted"));
        let (status, reason) = if !is_complete {
            (ConditionStatus::False, "SomethingSkipped")
        } else if !self.silent.is_empty() {
            (ConditionStatus::Unknown, "ZonesSilent")
        } else if !self.outdated.is_empty() {
            (ConditionStatus::Unknown, "ZonesNotUpToDate")
        } else {
            (ConditionStatus::True, "AllNetworksConnected")
        };
        ConditionReport {
            type_: CONNECTED,
            status,
            reason,
            message: parts.join("; "),
        }
    }

    /// Formats the numbers of networks, ports and zones. Zones may connect different numbers of
    /// networks; those with the fewest are listed.
    fn counts(&self) -> String {
        let summaries = || self.current.iter().map(|(_, summary)| *summary);
        let networks = || summaries().map(|summary| summary.networks);
        let (least, most) = (
            networks().min().unwrap_or_default(),
            networks().max().unwrap_or_default(),
        );
        let mut networks = format_count(most, "network");
        let mut fewest = String::new();
        if least < most {
            networks = format!("{least} to {networks}");
            let zones = self.current.iter().copied();
            let zones = zones.filter(|(_, summary)| summary.networks == least);
            let zones: Vec<&str> = zones.map(|(zone, _)| zone).collect();
            fewest = format!(", fewest in {}", format_zones(&zones));
        }
        let ports = summaries().map(|summary| summary.ports).sum();
        format!(
            "connected: {networks} with {} in {}{fewest}",
            format_count(ports, "port"),
            format_count(self.current.len(), "zone")
        )
    }
}

/// Distinct messages, each with the zones that reported it.
struct ZoneMessages<'a> {
    by_text: BTreeMap<&'a str, Vec<&'a str>>,
    /// Number of messages that zones left out of their summaries.
    more: usize,
}

impl<'a> ZoneMessages<'a> {
    fn of(
        summaries: &[(&'a str, &'a ZoneSummary)],
        messages_of: impl Fn(&'a ZoneSummary) -> (&'a Vec<String>, usize),
    ) -> Self {
        let (mut by_text, mut more) = (BTreeMap::<&str, Vec<&str>>::new(), 0);
        for (zone, summary) in summaries {
            let (messages, left_out) = messages_of(summary);
            more += left_out;
            for message in messages {
                by_text.entry(message).or_default().push(zone);
            }
        }
        Self { by_text, more }
    }

    fn is_empty(&self) -> bool {
        self.by_text.is_empty() && self.more == 0
    }

    /// Formats the messages as parts of the condition message, after `label`.
    fn format_parts(&self, label: &str) -> Vec<String> {
        let mut messages = self.by_text.iter();
        let first = messages.by_ref().take(MAX_MESSAGES);
        let first = first.map(|(text, zones)| format!("{}: {text}", format_zones(zones)));
        let first: Vec<String> = first.collect();
        let mut parts = Vec::new();
        if !first.is_empty() {
            parts.push(format!("{label}: {}", first.join("; ")));
        }
        let more = self.more + messages.map(|(_, zones)| zones.len()).sum::<usize>();
        if more > 0 {
            parts.push(format!("and {more} more"));
        }
        parts
    }
}

fn format_zones(zones: &[&str]) -> String {
    let plural = if zones.len() == 1 { "" } else { "s" };
    format!("zone{plural} {}", abbreviate_list(zones, MAX_NAMED_ZONES))
}

fn format_count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ConnectReport, ConnectedNetwork, HeldReason, NetworkSkip, SkippedNetwork};

    fn complete() -> ZoneSummary {
        let network = ConnectedNetwork {
            owner: "layer3_1".parse().unwrap(),
            network: "red".to_owned(),
            is_local: true,
            ports: 2,
            routes: 2,
        };
        ZoneSummary::from(&ConnectReport {
            connected: vec![network],
            ..ConnectReport::default()
        })
    }

    fn condition_of(
        current: &[(&str, &ZoneSummary)],
        outdated: &[&str],
        silent: &[&str],
    ) -> ConditionReport {
        let reports = ZoneReports {
            current: current.to_vec(),
            outdated: outdated.to_vec(),
            silent: silent.to_vec(),
        };
        reports.condition()
    }

    #[test]
    fn the_condition_lists_counts_and_skipped_networks() {
        let complete = complete();
        let condition = condition_of(&[("n1", &complete)], &[], &[]);
        assert_eq!(condition.status, ConditionStatus::True);
        assert_eq!(
            condition.message,
            "connected: 1 network with 2 ports in 1 zone"
        );
        let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
        let condition = condition_of(&[("n1", &complete), ("n2", &held)], &[], &[]);
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(
            condition.message,
            "connected: 0 to 1 network with 2 ports in 2 zones, fewest in zone n2; \
             skipped: zone n2: the connect router has no tunnel key yet"
        );
    }

    #[test]
    fn equal_messages_of_several_zones_are_listed_once() {
        let skipped = ["layer3_1", "layer3_2", "layer3_3"].map(|owner| SkippedNetwork {
            owner: owner.parse().unwrap(),
            network: None,
            reason: NetworkSkip::Unknown,
        });
        let report = ConnectReport {
            skipped_networks: skipped.into(),
            ..ConnectReport::default()
        };
        let summary = ZoneSummary::short(&report, 1);
        let names: Vec<String> = (1..=5).map(|number| format!("n{number}")).collect();
        let zones: Vec<_> = names.iter().map(|name| (name.as_str(), &summary)).collect();
        assert_eq!(
            condition_of(&zones, &[], &[]).message,
            "connected: 0 networks with 0 ports in 5 zones; \
             skipped: zones n1, n2, n3 and 2 more: network layer3_1: the network is not known; and 10 more"
        );
    }

    #[test]
    fn messages_above_the_maximum_are_counted() {
        let obstacles = (0..100).map(|number| format!("obstacle {number:03}"));
        let summary = ZoneSummary {
            obstacles: obstacles.collect(),
            ..ZoneSummary::default()
        };
        let message = condition_of(&[("n1", &summary), ("n2", &summary)], &[], &[]).message;
        let end = "; zones n1, n2: obstacle 019; and 160 more";
        assert!(message.ends_with(end), "{message}");
    }

    #[test]
    fn zones_without_a_report_make_the_condition_unknown() {
        let condition = condition_of(&[("n1", &complete())], &[], &["n2", "n3"]);
        assert_eq!(
            (condition.status, condition.reason),
            (ConditionStatus::Unknown, "ZonesSilent")
        );
        assert_eq!(
            condition.message,
            "connected: 1 network with 2 ports in 1 zone; no report yet from zones n2, n3"
        );
    }

    #[test]
    fn outdated_reports_do_not_count() {
        let complete = complete();
        let condition = condition_of(&[("n1", &complete)], &["n2"], &[]);
        assert_eq!(
            (condition.status, condition.reason),
            (ConditionStatus::Unknown, "ZonesNotUpToDate")
        );
        assert_eq!(
            condition.message,
            "connected: 1 network with 2 ports in 1 zone; not up to date in zone n2"
        );
        let condition = condition_of(&[], &["n1", "n2"], &[]);
        assert_eq!(condition.message, "not up to date in zones n1, n2");
        // An obstacle in one zone makes the condition false, whatever the others report.
        let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
        let condition = condition_of(&[("n1", &held)], &["n2"], &["n3"]);
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(
            condition.message,
            "connected: 0 networks with 0 ports in 1 zone; \
             skipped: zone n1: the connect router has no tunnel key yet; \
             not up to date in zone n2; no report yet from zone n3"
        );
    }

    #[test]
    fn notices_are_listed_and_do_not_change_the_status() {
        let mut odd = complete();
        odd.notices = vec!["network red: odd".to_owned()];
        odd.more_notices = 2;
        let complete = complete();
        let condition = condition_of(&[("n1", &odd), ("n2", &odd), ("n3", &complete)], &[], &[]);
        assert_eq!(condition.status, ConditionStatus::True);
        assert_eq!(
            condition.message,
            "connected: 1 network with 6 ports in 3 zones; \
             noted: zones n1, n2: network red: odd; and 4 more"
        );
        odd.obstacles = vec!["network blue: bad".to_owned()];
        let condition = condition_of(&[("n1", &odd)], &["n2"], &[]);
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(
            condition.message,
            "connected: 1 network with 2 ports in 1 zone; skipped: zone n1: network blue: bad; \
             not up to date in zone n2; noted: zone n1: network red: odd; and 2 more"
        );
    }

    #[test]
    fn zones_with_the_fewest_networks_are_listed() {
        let complete = complete();
        let none = ZoneSummary::default();
        let zones = [("n1", &complete), ("n2", &none), ("n3", &complete)];
        assert_eq!(
            condition_of(&zones, &[], &[]).message,
            "connected: 0 to 1 network with 4 ports in 3 zones, fewest in zone n2"
        );
    }
}
