//! The condition that says whether everything is connected.

use std::collections::{BTreeMap, BTreeSet};

use super::summary::ZoneSummary;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::condition::{ConditionReport, ConditionStatus};

/// Type of the condition.
pub const CONNECTED: &str = "Connected";

/// How many zones are named that say the same.
const NAMED: usize = 3;
/// How many sentences are told of those that zones say.
const SENTENCES: usize = 20;

/// What the zones have to say about a connect.
#[derive(Clone, Debug, Default)]
pub struct ZoneReports<'a> {
    /// What zones, each with its name, say about the connect as it is now.
    pub current: Vec<(&'a str, &'a ZoneSummary)>,
    /// Zones that have not said anything about it since it was changed.
    pub outdated: Vec<&'a str>,
    /// Zones that have never said anything about it.
    pub silent: Vec<&'a str>,
}

impl<'a> ZoneReports<'a> {
    /// Whether no zone has ever said anything.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.outdated.is_empty()
    }

    /// What is not connected and why, whatever zones say so.
    pub fn obstacles(&self) -> BTreeSet<&'a str> {
        let summaries = self.current.iter().map(|(_, summary)| *summary);
        summaries
            .flat_map(|summary| &summary.obstacles)
            .map(String::as_str)
            .collect()
    }

    /// The condition. What a zone said before the connect was changed vouches for nothing, good or bad. What is odd is
    /// told and makes nothing false.
    pub fn verdict(&self) -> ConditionReport {
        let skipped = Sentences::of(&self.current, |summary| (&summary.obstacles, summary.more));
        let noted = Sentences::of(&self.current, |summary| {
            (&summary.notices, summary.more_notices)
        });
        let mut parts = Vec::new();
        if !self.current.is_empty() || (self.outdated.is_empty() && self.silent.is_empty()) {
            parts.push(self.counts());
        }
        let is_complete = skipped.is_empty();
        parts.extend(skipped.told("skipped"));
        if !self.outdated.is_empty() {
            parts.push(format!("not up to date in {}", named(&self.outdated)));
        }
        if !self.silent.is_empty() {
            parts.push(format!("no report yet of {}", named(&self.silent)));
        }
        parts.extend(noted.told("noted"));
        let (holds, reason) = if !is_complete {
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
            status: holds,
            reason,
            message: parts.join("; "),
        }
    }

    /// How much is connected. Zones may differ in what there is, so the one that has least is named.
    fn counts(&self) -> String {
        let summaries = || self.current.iter().map(|(_, summary)| *summary);
        let networks = || summaries().map(|summary| summary.networks);
        let (least, most) = (
            networks().min().unwrap_or_default(),
            networks().max().unwrap_or_default(),
        );
        let mut networks = counted(most, "network");
        let mut fewest = String::new();
        if least < most {
            networks = format!("{least} to {networks}");
            let zones = self.current.iter().copied();
            let zones = zones.filter(|(_, summary)| summary.networks == least);
            let zones: Vec<&str> = zones.map(|(zone, _)| zone).collect();
            fewest = format!(", fewest in {}", named(&zones));
        }
        let ports = summaries().map(|summary| summary.ports).sum();
        format!(
            "connected: {networks} with {} in {}{fewest}",
            counted(ports, "port"),
            counted(self.current.len(), "zone")
        )
    }
}

/// What zones say, each sentence once, with the zones that say it.
struct Sentences<'a> {
    by_text: BTreeMap<&'a str, Vec<&'a str>>,
    /// How many more there are.
    more: usize,
}

impl<'a> Sentences<'a> {
    fn of(
        summaries: &[(&'a str, &'a ZoneSummary)],
        said: impl Fn(&'a ZoneSummary) -> (&'a Vec<String>, usize),
    ) -> Self {
        let (mut by_text, mut more) = (BTreeMap::<&str, Vec<&str>>::new(), 0);
        for (zone, summary) in summaries {
            let (sentences, left_out) = said(summary);
            more += left_out;
            for sentence in sentences {
                by_text.entry(sentence).or_default().push(zone);
            }
        }
        Self { by_text, more }
    }

    fn is_empty(&self) -> bool {
        self.by_text.is_empty() && self.more == 0
    }

    /// As parts of a message, under this word. What is left out is counted.
    fn told(&self, word: &str) -> Vec<String> {
        let mut sentences = self.by_text.iter();
        let first = sentences.by_ref().take(SENTENCES);
        let first = first.map(|(text, zones)| format!("{}: {text}", named(zones)));
        let first: Vec<String> = first.collect();
        let mut parts = Vec::new();
        if !first.is_empty() {
            parts.push(format!("{word}: {}", first.join("; ")));
        }
        let more = self.more + sentences.map(|(_, zones)| zones.len()).sum::<usize>();
        if more > 0 {
            parts.push(format!("and {more} more"));
        }
        parts
    }
}

fn named(zones: &[&str]) -> String {
    let plural = if zones.len() == 1 { "" } else { "s" };
    format!("zone{plural} {}", abbreviate_list(zones, NAMED))
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
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

    fn verdict(
        current: &[(&str, &ZoneSummary)],
        outdated: &[&str],
        silent: &[&str],
    ) -> ConditionReport {
        let reports = ZoneReports {
            current: current.to_vec(),
            outdated: outdated.to_vec(),
            silent: silent.to_vec(),
        };
        reports.verdict()
    }

    #[test]
    fn the_condition_counts_and_tells_what_is_skipped() {
        let complete = complete();
        let told = verdict(&[("n1", &complete)], &[], &[]);
        assert_eq!(told.status, ConditionStatus::True);
        assert_eq!(told.message, "connected: 1 network with 2 ports in 1 zone");
        let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
        let told = verdict(&[("n1", &complete), ("n2", &held)], &[], &[]);
        assert_eq!(told.status, ConditionStatus::False);
        assert_eq!(
            told.message,
            "connected: 0 to 1 network with 2 ports in 2 zones, fewest in zone n2; \
             skipped: zone n2: the connect router has no tunnel key yet"
        );
    }

    #[test]
    fn what_many_zones_say_is_told_once() {
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
            verdict(&zones, &[], &[]).message,
            "connected: 0 networks with 0 ports in 5 zones; \
             skipped: zones n1, n2, n3 and 2 more: network layer3_1: the network is not known; and 10 more"
        );
    }

    #[test]
    fn only_so_many_sentences_are_told() {
        let obstacles = (0..100).map(|number| format!("obstacle {number:03}"));
        let summary = ZoneSummary {
            obstacles: obstacles.collect(),
            ..ZoneSummary::default()
        };
        let message = verdict(&[("n1", &summary), ("n2", &summary)], &[], &[]).message;
        let end = "; zones n1, n2: obstacle 019; and 160 more";
        assert!(message.ends_with(end), "{message}");
    }

    #[test]
    fn as_long_as_zones_are_silent_nobody_knows() {
        let told = verdict(&[("n1", &complete())], &[], &["n2", "n3"]);
        assert_eq!(
            (told.status, told.reason),
            (ConditionStatus::Unknown, "ZonesSilent")
        );
        assert_eq!(
            told.message,
            "connected: 1 network with 2 ports in 1 zone; no report yet of zones n2, n3"
        );
    }

    #[test]
    fn who_is_not_up_to_date_vouches_for_nothing() {
        let complete = complete();
        let told = verdict(&[("n1", &complete)], &["n2"], &[]);
        assert_eq!(
            (told.status, told.reason),
            (ConditionStatus::Unknown, "ZonesNotUpToDate")
        );
        assert_eq!(
            told.message,
            "connected: 1 network with 2 ports in 1 zone; not up to date in zone n2"
        );
        let told = verdict(&[], &["n1", "n2"], &[]);
        assert_eq!(told.message, "not up to date in zones n1, n2");
        // What one zone lacks is so, whatever the others will say.
        let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
        let told = verdict(&[("n1", &held)], &["n2"], &["n3"]);
        assert_eq!(told.status, ConditionStatus::False);
        assert_eq!(
            told.message,
            "connected: 0 networks with 0 ports in 1 zone; \
             skipped: zone n1: the connect router has no tunnel key yet; \
             not up to date in zone n2; no report yet of zone n3"
        );
    }

    #[test]
    fn what_is_odd_is_told_and_holds_nothing_back() {
        let mut odd = complete();
        odd.notices = vec!["network red: odd".to_owned()];
        odd.more_notices = 2;
        let complete = complete();
        let told = verdict(&[("n1", &odd), ("n2", &odd), ("n3", &complete)], &[], &[]);
        assert_eq!(told.status, ConditionStatus::True);
        assert_eq!(
            told.message,
            "connected: 1 network with 6 ports in 3 zones; \
             noted: zones n1, n2: network red: odd; and 4 more"
        );
        odd.obstacles = vec!["network blue: bad".to_owned()];
        let told = verdict(&[("n1", &odd)], &["n2"], &[]);
        assert_eq!(told.status, ConditionStatus::False);
        assert_eq!(
            told.message,
            "connected: 1 network with 2 ports in 1 zone; skipped: zone n1: network blue: bad; \
             not up to date in zone n2; noted: zone n1: network red: odd; and 2 more"
        );
    }

    #[test]
    fn a_zone_with_fewer_networks_is_named() {
        let complete = complete();
        let none = ZoneSummary::default();
        let zones = [("n1", &complete), ("n2", &none), ("n3", &complete)];
        assert_eq!(
            verdict(&zones, &[], &[]).message,
            "connected: 0 to 1 network with 4 ports in 3 zones, fewest in zone n2"
        );
    }
}
