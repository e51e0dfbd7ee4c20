//! The condition that says whether everything is connected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::report::ConnectReport;
use crate::cluster::{Holds, Verdict};
use crate::listing::listed;

/// Type of the condition.
pub const CONNECTED: &str = "Connected";

/// How many zones are named that say the same.
const NAMED: usize = 3;

/// What a zone has to say about a connect, in short.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ZoneSummary {
    /// How many networks are connected.
    pub networks: usize,
    /// How many ports the connect router has.
    pub ports: usize,
    /// What is not connected and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
    /// How many more obstacles there are.
    #[serde(default)]
    pub more: usize,
}

impl From<&ConnectReport> for ZoneSummary {
    fn from(report: &ConnectReport) -> Self {
        Self::short(report, usize::MAX)
    }
}

impl ZoneSummary {
    /// What a report says, with at most so many of its obstacles.
    pub fn short(report: &ConnectReport, obstacles: usize) -> Self {
        Self {
            networks: report.connected.len(),
            ports: report.connected.iter().map(|network| network.ports).sum(),
            obstacles: report.obstacles().take(obstacles).collect(),
            more: report.obstacle_count().saturating_sub(obstacles),
        }
    }
}

/// What the zones, each with its name, have to say about a connect; `silent` ones have not said anything.
pub fn connected<'a>(
    summaries: impl IntoIterator<Item = (&'a str, &'a ZoneSummary)>,
    silent: &[&'a str],
) -> Verdict {
    let (mut zones, mut networks, mut ports, mut more) = (0, 0, 0, 0);
    let mut obstacles = BTreeMap::<&str, Vec<&str>>::new();
    for (zone, summary) in summaries {
        zones += 1;
        // Zones differ in what they lack, not in what there is.
        networks = networks.max(summary.networks);
        ports += summary.ports;
        more += summary.more;
        for obstacle in &summary.obstacles {
            obstacles.entry(obstacle).or_default().push(zone);
        }
    }
    let mut parts = vec![format!(
        "connected: {} with {} in {}",
        counted(networks, "network"),
        counted(ports, "port"),
        counted(zones, "zone")
    )];
    let skipped: Vec<String> = obstacles
        .iter()
        .map(|(obstacle, zones)| format!("{}: {obstacle}", named(zones)))
        .collect();
    if !skipped.is_empty() {
        parts.push(format!("skipped: {}", skipped.join("; ")));
    }
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    if !silent.is_empty() {
        parts.push(format!("no report yet of {}", named(silent)));
    }
    let (holds, reason) = match (skipped.is_empty(), silent.is_empty()) {
        (false, _) => (Holds::False, "SomethingSkipped"),
        (true, false) => (Holds::Unknown, "ZonesSilent"),
        (true, true) => (Holds::True, "AllNetworksConnected"),
    };
    Verdict {
        type_: CONNECTED,
        holds,
        reason,
        message: parts.join("; "),
    }
}

fn named(zones: &[&str]) -> String {
    let plural = if zones.len() == 1 { "" } else { "s" };
    format!("zone{plural} {}", listed(zones, NAMED))
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::report::{ConnectedNetwork, HeldReason, NetworkSkip, SkippedNetwork};

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

    #[test]
    fn the_condition_counts_and_tells_what_is_skipped() {
        let complete = complete();
        let verdict = connected([("n1", &complete)], &[]);
        assert_eq!(verdict.holds, Holds::True);
        assert_eq!(
            verdict.message,
            "connected: 1 network with 2 ports in 1 zone"
        );
        let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
        let verdict = connected([("n1", &complete), ("n2", &held)], &[]);
        assert_eq!(verdict.holds, Holds::False);
        assert_eq!(
            verdict.message,
            "connected: 1 network with 2 ports in 2 zones; \
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
        let zones = names.iter().map(|name| (name.as_str(), &summary));
        assert_eq!(
            connected(zones, &[]).message,
            "connected: 0 networks with 0 ports in 5 zones; \
             skipped: zones n1, n2, n3 and 2 more: network layer3_1: the network is not known; and 10 more"
        );
    }

    #[test]
    fn as_long_as_zones_are_silent_nobody_knows() {
        let verdict = connected([("n1", &complete())], &["n2", "n3"]);
        assert_eq!(verdict.holds, Holds::Unknown);
        assert_eq!(
            verdict.message,
            "connected: 1 network with 2 ports in 1 zone; no report yet of zones n2, n3"
        );
    }
}
