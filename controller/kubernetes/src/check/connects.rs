//! Conditions of ClusterNetworkConnects, and zones that are behind.

use std::collections::BTreeMap;

use crate::check::facts::Facts;
use crate::check::objects::ConnectFacts;
use crate::check::result::{Check, CheckGroup, counted, listed};
use crate::reports::zone_reports::WatchedZoneReport;

/// Reason of a connect whose selectors match nothing, which is no failure of the installation.
const SELECTS_NOTHING: &str = "NoNetworksSelected";

pub(crate) fn check(facts: &Facts) -> CheckGroup {
    let of = |judge: fn(&[ConnectFacts]) -> Check, name| {
        Check::of(name, "ClusterNetworkConnects", &facts.connects, |connects| judge(connects))
    };
    CheckGroup {
        name: "connects",
        checks: vec![of(accepted, "accepted"), of(connected, "connected"), behind(facts)],
    }
}

fn accepted(connects: &[ConnectFacts]) -> Check {
    let name = "accepted";
    let refused: Vec<String> = connects
        .iter()
        .filter_map(|connect| match connect.conditions.get("Accepted") {
            Some(condition) if condition.status == "True" => None,
            Some(condition) => Some(format!("{}: {}", connect.name, condition.message)),
            None => Some(format!("{}: no condition yet", connect.name)),
        })
        .collect();
    if refused.is_empty() {
        let all = counted(connects.len(), "ClusterNetworkConnect");
        return Check::ok(name, format!("accepted: {all}"));
    }
    Check::failed(
        name,
        format!("not accepted: {}", listed(&refused)),
        "Correct the object that the message names: `patchbay explain cnc NAME`.",
    )
}

fn connected(connects: &[ConnectFacts]) -> Check {
    let name = "connected";
    let (mut apart, mut unsure) = (Vec::new(), Vec::new());
    for connect in connects {
        let Some(condition) = connect.conditions.get("Connected") else {
            unsure.push(format!("{}: no condition yet", connect.name));
            continue;
        };
        let named = format!("{}: {}", connect.name, condition.message);
        match &*condition.status {
            "True" => {}
            "False" if condition.reason != SELECTS_NOTHING => apart.push(named),
            _ => unsure.push(named),
        }
    }
    let remedy = "See what is missing, and where: `patchbay explain cnc NAME`.";
    if !apart.is_empty() {
        return Check::failed(name, format!("not connected: {}", listed(&apart)), remedy);
    }
    if !unsure.is_empty() {
        return Check::warning(name, format!("not sure: {}", listed(&unsure)), remedy);
    }
    Check::ok(name, format!("connected: {}", counted(connects.len(), "ClusterNetworkConnect")))
}

fn behind(facts: &Facts) -> Check {
    let name = "reports";
    Check::of(name, "ClusterNetworkConnects", &facts.connects, |connects| {
        Check::of(name, "nodes", &facts.nodes, |nodes| {
            Check::of(name, "reports of the zones", &facts.reports, |known| {
                let reports: BTreeMap<&str, &WatchedZoneReport> =
                    known.iter().map(|report| (&*report.zone, &**report)).collect();
                let managed = nodes.iter().filter(|node| node.is_managed());
                let behind: Vec<&str> = managed
                    .map(|node| &*node.name)
                    .filter(|node| {
                        let report = reports.get(node);
                        connects.iter().any(|connect| {
                            let entry = report.and_then(|one| one.connects.get(&connect.name));
                            !entry.is_some_and(|entry| entry.is_about(&connect.metadata))
                        })
                    })
                    .collect();
                if behind.is_empty() {
                    return Check::ok(name, "each zone has reported the present state");
                }
                Check::warning(
                    name,
                    format!("zones are behind: {}", listed(&behind)),
                    "Wait for some seconds. Of zones that stay behind, see the log and the pod.",
                )
            })
        })
    })
}
