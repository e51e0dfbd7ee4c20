//! Nodes with the annotations of OVN-Kubernetes.

use std::collections::BTreeMap;

use crate::check::CheckConfig;
use crate::check::facts::Facts;
use crate::check::objects::{GLOBAL_ZONE, NodeFacts};
use crate::check::result::{Check, CheckGroup, counted, listed};

pub(crate) fn check(facts: &Facts, config: &CheckConfig) -> CheckGroup {
    let of = |name, judge: fn(&[&NodeFacts]) -> Check| {
        Check::of(name, "nodes", &facts.nodes, |nodes| {
            let managed: Vec<&NodeFacts> =
                nodes.iter().filter(|node| node.is_managed() || config.writes_networks).collect();
            judge(&managed)
        })
    };
    let ids = if config.writes_networks { duplicate_ids } else { ids };
    CheckGroup {
        name: "nodes",
        checks: vec![
            of("managed", managed),
            of("zones", zones),
            of("ids", ids),
            of("chassis", chassis),
        ],
    }
}

fn managed(nodes: &[&NodeFacts]) -> Check {
    if nodes.is_empty() {
        return Check::failed(
            "managed",
            "no node has annotations of OVN-Kubernetes",
            "Install OVN-Kubernetes first, or use --networks if Patchbay shall write networks.",
        );
    }
    Check::ok("managed", format!("OVN has {}", counted(nodes.len(), "node")))
}

fn zones(nodes: &[&NodeFacts]) -> Check {
    let foreign: Vec<String> = nodes
        .iter()
        .filter_map(|node| {
            let zone = node.zone.as_ref().filter(|zone| **zone != node.name)?;
            Some(format!("{} is in {zone}", node.name))
        })
        .collect();
    if foreign.is_empty() {
        return Check::ok("zones", "each node is its own zone");
    }
    let is_global = nodes.iter().any(|node| node.zone.as_deref() == Some(GLOBAL_ZONE));
    let remedy = if is_global {
        "Switch OVN-Kubernetes to interconnect with one zone for each node."
    } else {
        "Give each node a zone of its own, with the name of the node."
    };
    Check::failed("zones", format!("not each node is a zone: {}", listed(&foreign)), remedy)
}

fn ids(nodes: &[&NodeFacts]) -> Check {
    let without = names(nodes, |node| node.id.is_none());
    if without.is_empty() {
        return duplicate_ids(nodes);
    }
    Check::failed(
        "ids",
        format!("no annotation k8s.ovn.org/node-id: {}", listed(&without)),
        "See the log of OVN-Kubernetes' cluster manager, which writes it.",
    )
}

fn duplicate_ids(nodes: &[&NodeFacts]) -> Check {
    let mut by_id = BTreeMap::<&str, Vec<&str>>::new();
    for node in nodes {
        if let Some(id) = &node.id {
            by_id.entry(id).or_default().push(&node.name);
        }
    }
    let twice: Vec<String> = by_id
        .iter()
        .filter(|(_, nodes)| nodes.len() > 1)
        .map(|(id, nodes)| format!("{id} of {}", nodes.join(" and ")))
        .collect();
    if twice.is_empty() {
        return Check::ok("ids", format!("{} differ", counted(by_id.len(), "id")));
    }
    Check::failed(
        "ids",
        format!("nodes have the same id: {}", listed(&twice)),
        "Take the annotation k8s.ovn.org/node-id away from all but one of them.",
    )
}

fn chassis(nodes: &[&NodeFacts]) -> Check {
    let without = names(nodes, |node| !node.has_chassis);
    if without.is_empty() {
        return Check::ok("chassis", "each node has a chassis");
    }
    Check::failed(
        "chassis",
        format!("no annotation k8s.ovn.org/node-chassis-id: {}", listed(&without)),
        "See external_ids:system-id of Open vSwitch there, and the log of ovnkube-node.",
    )
}

fn names<'a>(nodes: &[&'a NodeFacts], which: fn(&NodeFacts) -> bool) -> Vec<&'a str> {
    nodes.iter().filter(|node| which(node)).map(|node| &*node.name).collect()
}
