//! Condition `Connected` of a CNC, from the reports of all zones.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::condition::{ConditionReport, ConditionStatus, NO_NETWORKS_SELECTED};

use super::zone_summary::ZoneSummary;

/// Condition type.
pub const CONNECTED: &str = "Connected";

/// Number of zones or nodes listed by name for one message; further ones are counted.
const MAX_NAMED_ZONES: usize = 3;
/// Number of networks without connect subnets listed by name; further ones are counted.
const MAX_NAMED_NETWORKS: usize = 10;
/// Maximum number of messages of each kind in the condition message; further ones are counted.
const MAX_MESSAGES: usize = 20;

/// Reports of all zones about one connect.
#[derive(Clone, Debug, Default)]
pub struct ZoneReports<'a> {
    /// Names and summaries of running zones that have reported the connect's current version, for
    /// the current nodes and networks.
    pub current: Vec<(&'a str, &'a ZoneSummary)>,
    /// Zones whose last report is about another version of the connect, or about other nodes or
    /// networks.
    pub outdated: Vec<&'a str>,
    /// Zones that have never reported the connect.
    pub silent: Vec<&'a str>,
    /// Zones that have reported the connect and do not run any more.
    pub expired: Vec<&'a str>,
    /// Names and summaries of zones in `outdated` and `expired` that have reported the connect's
    /// current version. Their obstacles count, because most of them do not depend on what has
    /// changed since.
    pub former: Vec<(&'a str, &'a ZoneSummary)>,
    /// Nodes whose zone has never reported any connect. What OVN-Kubernetes has not written for
    /// them yet is no failure.
    pub joining: BTreeSet<&'a str>,
    /// Nodes that OVN does not manage. They have no zone.
    pub unmanaged: Vec<&'a str>,
    /// Reasons why the connect selects no network that can be connected. Empty: it selects some.
    pub no_networks: &'a [String],
    /// Names of selected networks without connect subnets, of which no zone knows.
    pub without_subnets: &'a [String],
}

impl<'a> ZoneReports<'a> {
    /// `true` if no zone has reported the connect.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.outdated.is_empty() && self.expired.is_empty()
    }

    /// Distinct obstacles of all reports that count.
    pub fn obstacles(&self) -> BTreeSet<&'a str> {
        self.skipped().by_text.into_keys().collect()
    }

    /// Returns the condition.
    ///
    /// Reports about an earlier version of the connect do not count. Notices are listed in the
    /// message and do not change the status. A connect that selects no network is not connected,
    /// whatever the zones report.
    pub fn condition(&self) -> ConditionReport {
        let skipped = self.skipped();
        let mut parts = Vec::new();
        if !self.current.is_empty() || (self.is_empty() && self.silent.is_empty()) {
            parts.push(self.counts());
        }
        if !self.no_networks.is_empty() {
            let reasons = self.no_networks.join("; ");
            parts.push(format!("no network is selected: {reasons}"));
        }
        let is_complete = skipped.is_empty() && self.without_subnets.is_empty();
        if !self.without_subnets.is_empty() {
            let plural = plural(self.without_subnets.len());
            let networks = abbreviate_list(self.without_subnets, MAX_NAMED_NETWORKS);
            parts.push(format!("without connect subnets: network{plural} {networks}"));
        }
        parts.extend(skipped.format_parts("skipped"));
        for (label, zones) in [
            ("not up to date in", &self.outdated),
            ("no report yet from", &self.silent),
            ("no sign of life from", &self.expired),
        ] {
            if !zones.is_empty() {
                parts.push(format!("{label} {}", format_zones(zones)));
            }
        }
        parts.extend(self.awaited().format_parts("waiting"));
        parts.extend(self.noted().format_parts("noted"));
        if !self.unmanaged.is_empty() {
            let nodes = abbreviate_list(&self.unmanaged, MAX_NAMED_ZONES);
            let plural = plural(self.unmanaged.len());
            parts.push(format!("without OVN annotations: node{plural} {nodes}"));
        }
        let (status, reason) = if !is_complete {
            (ConditionStatus::False, "SomethingSkipped")
        } else if !self.no_networks.is_empty() {
            (ConditionStatus::False, NO_NETWORKS_SELECTED)
        } else if !self.expired.is_empty() {
            (ConditionStatus::Unknown, "ZonesNotRunning")
        } else if !self.silent.is_empty() {
            (ConditionStatus::Unknown, "ZonesSilent")
        } else if !self.outdated.is_empty() {
            (ConditionStatus::Unknown, "ZonesNotUpToDate")
        } else {
            (ConditionStatus::True, "AllNetworksConnected")
        };
        ConditionReport { type_: CONNECTED, status, reason, message: parts.join("; ") }
    }

    /// Obstacles, and nodes with incomplete annotations that are not joining.
    fn skipped(&self) -> ZoneMessages<'a> {
        let mut messages = ZoneMessages::default();
        for (zone, summary) in self.counted() {
            messages.add(zone, summary.obstacles.iter(), summary.more);
            let pending = summary
                .pending_nodes
                .iter()
                .filter(|(node, _)| !self.joining.contains(node.as_str()));
            // Nodes that are left out may be joining ones, too.
            let more = if self.joining.is_empty() { summary.more_pending_nodes } else { 0 };
            messages.add(zone, pending.map(|(_, message)| message), more);
        }
        messages
    }

    /// Joining nodes with incomplete annotations.
    fn awaited(&self) -> ZoneMessages<'a> {
        let mut messages = ZoneMessages::default();
        for (zone, summary) in self.counted() {
            let pending = summary
                .pending_nodes
                .iter()
                .filter(|(node, _)| self.joining.contains(node.as_str()));
            messages.add(zone, pending.map(|(_, message)| message), 0);
        }
        messages
    }

    fn noted(&self) -> ZoneMessages<'a> {
        let mut messages = ZoneMessages::default();
        for (zone, summary) in &self.current {
            messages.add(zone, summary.notices.iter(), summary.more_notices);
        }
        messages
    }

    /// Reports whose obstacles count.
    fn counted(&self) -> impl Iterator<Item = (&'a str, &'a ZoneSummary)> {
        self.current.iter().chain(&self.former).copied()
    }

    /// Formats the numbers of networks, ports and zones. Every zone has all ports of the connect
    /// router. Zones may connect different numbers of networks; those with the fewest are listed.
    fn counts(&self) -> String {
        let summaries = || self.current.iter().map(|(_, summary)| *summary);
        let networks = format_range(summaries().map(|summary| summary.networks), "network");
        let ports = format_range(summaries().map(|summary| summary.ports), "port");
        let least = summaries().map(|summary| summary.networks).min();
        let zones = self.current.iter().copied();
        let fewest: Vec<&str> = zones
            .filter(|(_, summary)| Some(summary.networks) == least)
            .map(|(zone, _)| zone)
            .collect();
        let fewest = if fewest.len() < self.current.len() {
            format!(", fewest in {}", format_zones(&fewest))
        } else {
            String::new()
        };
        let zones = match self.current.len() {
            count @ (0 | 1) => format_count(count, "zone"),
            count => format!("each of {count} zones"),
        };
        format!("connected: {networks} with {ports} in {zones}{fewest}")
    }
}

/// Distinct messages, each with the zones that reported it.
#[derive(Default)]
struct ZoneMessages<'a> {
    by_text: BTreeMap<&'a str, Vec<&'a str>>,
    /// Number of messages that zones left out of their summaries.
    more: usize,
}

impl<'a> ZoneMessages<'a> {
    /// Adds the messages of a zone, which has left out `more` others.
    fn add(&mut self, zone: &'a str, messages: impl Iterator<Item = &'a String>, more: usize) {
        self.more += more;
        for message in messages {
            self.by_text.entry(message).or_default().push(zone);
        }
    }

    fn is_empty(&self) -> bool {
        self.by_text.is_empty() && self.more == 0
    }

    /// Formats the messages as parts of the condition message, after `label`.
    fn format_parts(&self, label: &str) -> Vec<String> {
        let mut messages = self.by_text.iter();
        let first: Vec<String> = messages
            .by_ref()
            .take(MAX_MESSAGES)
            .map(|(text, zones)| format!("{}: {text}", format_zones(zones)))
            .collect();
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
    let plural = plural(zones.len());
    format!("zone{plural} {}", abbreviate_list(zones, MAX_NAMED_ZONES))
}

fn format_count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", plural(number))
}

/// Formats the smallest and the largest of several numbers, or the number that all are.
fn format_range(numbers: impl Iterator<Item = usize> + Clone, noun: &str) -> String {
    let least = numbers.clone().min().unwrap_or_default();
    let most = format_count(numbers.max().unwrap_or_default(), noun);
    if most == format_count(least, noun) { most } else { format!("{least} to {most}") }
}

const fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests;
