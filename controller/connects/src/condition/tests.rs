//! Tests of the condition.

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
    ZoneSummary::from(&ConnectReport { connected: vec![network], ..ConnectReport::default() })
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
        ..ZoneReports::default()
    };
    reports.condition()
}

#[test]
fn the_condition_lists_counts_and_skipped_networks() {
    let complete = complete();
    let condition = condition_of(&[("n1", &complete)], &[], &[]);
    assert_eq!(condition.status, ConditionStatus::True);
    assert_eq!(condition.message, "connected: 1 network with 2 ports in 1 zone");
    let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
    let condition = condition_of(&[("n1", &complete), ("n2", &held)], &[], &[]);
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(
        condition.message,
        "connected: 0 to 1 network with 0 to 2 ports in each of 2 zones, fewest in zone n2; \
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
    let report = ConnectReport { skipped_networks: skipped.into(), ..ConnectReport::default() };
    let summary = ZoneSummary::short(&report, 1);
    let names: Vec<String> = (1..=5).map(|number| format!("n{number}")).collect();
    let zones: Vec<_> = names.iter().map(|name| (name.as_str(), &summary)).collect();
    assert_eq!(
        condition_of(&zones, &[], &[]).message,
        "connected: 0 networks with 0 ports in each of 5 zones; \
         skipped: zones n1, n2, n3 and 2 more: network layer3_1: the network is not known; and 10 more"
    );
}

#[test]
fn messages_above_the_maximum_are_counted() {
    let obstacles = (0..100).map(|number| format!("obstacle {number:03}"));
    let summary = ZoneSummary { obstacles: obstacles.collect(), ..ZoneSummary::default() };
    let message = condition_of(&[("n1", &summary), ("n2", &summary)], &[], &[]).message;
    let end = "; zones n1, n2: obstacle 019; and 160 more";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn zones_without_a_report_make_the_condition_unknown() {
    let condition = condition_of(&[("n1", &complete())], &[], &["n2", "n3"]);
    assert_eq!((condition.status, condition.reason), (ConditionStatus::Unknown, "ZonesSilent"));
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
        "connected: 1 network with 2 ports in each of 3 zones; \
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
        "connected: 0 to 1 network with 0 to 2 ports in each of 3 zones, fewest in zone n2"
    );
}

#[test]
fn a_zone_that_does_not_run_makes_the_condition_unknown_and_is_named() {
    let complete = complete();
    let reports = ZoneReports {
        current: vec![("n1", &complete), ("n3", &complete)],
        expired: vec!["n2"],
        former: vec![("n2", &complete)],
        ..ZoneReports::default()
    };
    let condition = reports.condition();
    assert_eq!((condition.status, condition.reason), (ConditionStatus::Unknown, "ZonesNotRunning"));
    assert_eq!(
        condition.message,
        "connected: 1 network with 2 ports in each of 2 zones; no sign of life from zone n2"
    );
    assert!(!reports.is_empty());
}

#[test]
fn obstacles_of_outdated_reports_about_the_same_version_count() {
    let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
    let complete = complete();
    let reports = ZoneReports {
        outdated: vec!["n1", "n2"],
        former: vec![("n1", &complete), ("n2", &held)],
        ..ZoneReports::default()
    };
    let condition = reports.condition();
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(
        condition.message,
        "skipped: zone n2: the connect router has no tunnel key yet; not up to date in zones n1, n2"
    );
    assert_eq!(reports.obstacles().len(), 1);
}

#[test]
fn pending_annotations_are_an_obstacle_unless_the_node_is_joining() {
    let message = "network red, node n3: the node has no chassis id yet".to_owned();
    let pending = ZoneSummary {
        pending_nodes: [("n3".to_owned(), message)].into(),
        more_pending_nodes: 1,
        ..complete()
    };
    assert!(!pending.is_complete());
    let mut reports = ZoneReports {
        current: vec![("n1", &pending), ("n2", &pending)],
        silent: vec!["n3"],
        joining: ["n3"].into(),
        ..ZoneReports::default()
    };
    let condition = reports.condition();
    assert_eq!((condition.status, condition.reason), (ConditionStatus::Unknown, "ZonesSilent"));
    assert_eq!(
        condition.message,
        "connected: 1 network with 2 ports in each of 2 zones; no report yet from zone n3; \
         waiting: zones n1, n2: network red, node n3: the node has no chassis id yet"
    );
    assert!(reports.obstacles().is_empty());
    reports.joining.clear();
    reports.silent.clear();
    let condition = reports.condition();
    assert_eq!(condition.status, ConditionStatus::False);
    assert_eq!(
        condition.message,
        "connected: 1 network with 2 ports in each of 2 zones; \
         skipped: zones n1, n2: network red, node n3: the node has no chassis id yet; and 2 more"
    );
}

#[test]
fn nodes_without_ovn_are_named_and_do_not_change_the_status() {
    let complete = complete();
    let reports = ZoneReports {
        current: vec![("n1", &complete)],
        unmanaged: vec!["win-1", "win-2"],
        ..ZoneReports::default()
    };
    let condition = reports.condition();
    assert_eq!(condition.status, ConditionStatus::True);
    assert_eq!(
        condition.message,
        "connected: 1 network with 2 ports in 1 zone; without OVN annotations: nodes win-1, win-2"
    );
}

#[test]
fn a_connect_without_networks_is_not_connected_whatever_zones_report() {
    let nothing = ZoneSummary::default();
    let no_networks = ["spec.networkSelectors[0] matches none of 2 networks".to_owned()];
    let mut reports =
        ZoneReports { silent: vec!["n1"], no_networks: &no_networks, ..ZoneReports::default() };
    let reason = |reports: &ZoneReports<'_>| {
        let condition = reports.condition();
        assert_eq!(condition.status, ConditionStatus::False);
        (condition.reason, condition.message)
    };
    let text = "no network is selected: spec.networkSelectors[0] matches none of 2 networks";
    assert_eq!(
        reason(&reports),
        (NO_NETWORKS_SELECTED, format!("{text}; no report yet from zone n1"))
    );
    reports.silent.clear();
    reports.current = vec![("n1", &nothing)];
    assert_eq!(
        reason(&reports),
        (NO_NETWORKS_SELECTED, format!("connected: 0 networks with 0 ports in 1 zone; {text}"))
    );
    // What zones skip is more than what is not selected.
    let held = ZoneSummary::from(&ConnectReport::held(HeldReason::NoTunnelKey));
    reports.current = vec![("n1", &held)];
    assert_eq!(reason(&reports).0, "SomethingSkipped");
}

#[test]
fn selected_networks_without_subnets_make_the_condition_false() {
    let complete = complete();
    let names: Vec<String> = (10..22).map(|number| format!("net-{number}")).collect();
    let reports = ZoneReports {
        current: vec![("n1", &complete)],
        without_subnets: &names,
        ..ZoneReports::default()
    };
    let condition = reports.condition();
    assert_eq!((condition.status, condition.reason), (ConditionStatus::False, "SomethingSkipped"));
    assert!(
        condition.message.contains("without connect subnets: networks net-10, net-11, ")
            && condition.message.ends_with("net-19 and 2 more"),
        "{}",
        condition.message
    );
}
