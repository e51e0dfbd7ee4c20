//! The condition that says whether everything is connected.

use super::report::ConnectReport;
use crate::cluster::Verdict;

/// Type of the condition.
pub const CONNECTED: &str = "Connected";

/// What the zones, each with its name, have to say about a connect.
pub fn connected<'a>(reports: impl IntoIterator<Item = (&'a str, &'a ConnectReport)>) -> Verdict {
    let (mut zones, mut networks, mut ports, mut skipped) = (0, 0, 0, Vec::new());
    for (zone, report) in reports {
        zones += 1;
        // Zones differ in what they lack, not in what there is.
        networks = networks.max(report.connected.len());
        ports += report
            .connected
            .iter()
            .map(|network| network.ports)
            .sum::<usize>();
        if !report.is_complete() {
            skipped.extend(
                report
                    .obstacles()
                    .into_iter()
                    .map(|message| format!("zone {zone}: {message}")),
            );
        }
    }
    let counts = format!(
        "{} with {} in {}",
        counted(networks, "network"),
        counted(ports, "port"),
        counted(zones, "zone")
    );
    if skipped.is_empty() {
        Verdict {
            type_: CONNECTED,
            holds: true,
            reason: "AllNetworksConnected",
            message: format!("connected: {counts}"),
        }
    } else {
        Verdict {
            type_: CONNECTED,
            holds: false,
            reason: "SomethingSkipped",
            message: format!("connected: {counts}; skipped: {}", skipped.join("; ")),
        }
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::report::{ConnectedNetwork, HeldReason};

    #[test]
    fn the_condition_counts_and_tells_what_is_skipped() {
        let network = ConnectedNetwork {
            owner: "layer3_1".parse().unwrap(),
            network: "red".to_owned(),
            is_local: true,
            ports: 2,
            routes: 2,
        };
        let complete = ConnectReport {
            connected: vec![network],
            ..ConnectReport::default()
        };
        let verdict = connected([("n1", &complete)]);
        assert!(verdict.holds);
        assert_eq!(
            verdict.message,
            "connected: 1 network with 2 ports in 1 zone"
        );
        let held = ConnectReport::held(HeldReason::NoTunnelKey);
        let verdict = connected([("n1", &complete), ("n2", &held)]);
        assert!(!verdict.holds);
        assert_eq!(
            verdict.message,
            "connected: 1 network with 2 ports in 2 zones; \
             skipped: zone n2: the connect router has no tunnel key yet"
        );
    }
}
