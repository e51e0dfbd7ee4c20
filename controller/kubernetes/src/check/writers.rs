//! Other programs that write the same rows, annotations or conditions.

use crate::check::CheckConfig;
use crate::check::facts::Facts;
use crate::check::objects::Writer;
use crate::check::result::{Check, CheckGroup, listed};

pub(crate) fn check(facts: &Facts, config: &CheckConfig) -> CheckGroup {
    let mut checks =
        vec![ovn_kubernetes(facts, ("connects", "--enable-network-connect"), |writer| {
            writer.writes_connects
        })];
    if config.writes_networks {
        checks.push(ovn_kubernetes(
            facts,
            ("networks", "--enable-network-segmentation"),
            |writer| writer.writes_networks,
        ));
    }
    checks.push(managers(facts, config));
    CheckGroup { name: "second-writer", checks }
}

fn ovn_kubernetes(facts: &Facts, (name, flag): (&str, &str), writes: fn(&Writer) -> bool) -> Check {
    let what = "workloads and configuration of OVN-Kubernetes";
    Check::of(name, what, &facts.writers, |writers| {
        let writing: Vec<&str> =
            writers.iter().filter(|one| writes(one)).map(|one| &*one.name).collect();
        if writing.is_empty() {
            let finding = match writers.len() {
                0 => format!("no OVN-Kubernetes with {flag} was found"),
                _ => format!("OVN-Kubernetes runs without {flag}"),
            };
            return Check::ok(name, finding);
        }
        let finding = format!("OVN-Kubernetes runs with {flag}: {}", listed(&writing));
        Check::failed(
            name,
            finding,
            format!("Take {flag} away: both programs write the same rows."),
        )
    })
}

fn managers(facts: &Facts, config: &CheckConfig) -> Check {
    let name = "managers";
    Check::of(name, "leases of cluster managers in all namespaces", &facts.managers, |leases| {
        let now = facts.now();
        let others = leases.iter().filter(|lease| lease.namespace != config.namespace);
        let held: Vec<String> = others
            .filter(|lease| lease.is_held(now))
            .map(|lease| format!("{} holds {}/{}", lease.holder, lease.namespace, lease.name))
            .collect();
        if held.is_empty() {
            return Check::ok(name, "no cluster manager leads in another namespace");
        }
        Check::failed(
            name,
            format!("a cluster manager leads in another namespace: {}", listed(&held)),
            "Remove one of the two installations, or name its namespace with --namespace.",
        )
    })
}
