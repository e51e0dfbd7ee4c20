//! Reasons of the manifests why packets between two pods are lost.

use std::collections::BTreeMap;

use patchbay_explain::{Explanation, NetworkExplanation, ZoneView, explain};
use patchbay_lab::{Lab, Pod, PodName, Protocol, ServiceTarget};
use patchbay_model::{Databases, Role};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion;

/// Reasons why the pods' networks are not connected, one line each. Empty: the pods are in one
/// network, or the manifests connect theirs.
pub(super) fn reasons(lab: &Lab, cluster: &Cluster, from: &PodName, to: &PodName) -> Vec<String> {
    let find = |name: &PodName| lab.pods().find(|pod| pod.name == *name);
    let (Some(from), Some(to)) = (find(from), find(to)) else {
        return Vec::new();
    };
    // Connects are between user-defined networks.
    let is_central = cluster.settings().databases == Databases::Central;
    if from.network == to.network || is_central {
        return Vec::new();
    }
    let networks = cluster.networks();
    let mut reasons = Vec::new();
    let mut is_joined = false;
    for object in cluster.connects() {
        let Some(name) = object.metadata.name.as_deref() else {
            continue;
        };
        let views = zone_views(lab, name);
        let explained = explain(name, &cluster.inventory, &networks, &views, None);
        let Some(explanation) = explained else {
            continue;
        };
        let find = |pod: &Pod| {
            let mut networks = explanation.networks.iter();
            networks.find(|network| network.network == pod.network)
        };
        let connect = format!("ClusterNetworkConnect {name}");
        match (find(from), find(to)) {
            (Some(one), Some(other)) => {
                is_joined = true;
                let found = obstacles(&explanation, [(one, from), (other, to)]);
                reasons.extend(found.into_iter().map(|reason| format!("{connect}: {reason}")));
                if conversion::connect(object).is_ok_and(|c| c.connectivity.is_service_only()) {
                    reasons.push(format!("{connect} connects services only"));
                }
            }
            (Some(_), None) => reasons.push(not_selected(&connect, from, to)),
            (None, Some(_)) => reasons.push(not_selected(&connect, to, from)),
            (None, None) => {}
        }
    }
    if !is_joined {
        let (one, other) = (&from.network, &to.network);
        let none = format!("no ClusterNetworkConnect joins {one} and {other}");
        reasons.insert(0, none);
    }
    reasons
}

/// Reasons of the manifests why a service does not answer a pod, one line each.
pub(super) fn service_reasons(
    lab: &Lab,
    cluster: &Cluster,
    from: &PodName,
    service: &ServiceTarget,
    protocol: Protocol,
) -> Vec<String> {
    let mut reasons = service.reasons(protocol);
    let networks = cluster.networks();
    let owner = networks.iter().find(|network| {
        let mut namespaces = network.namespaces.iter();
        network.role == Role::Primary && namespaces.any(|name| **name == *service.key.namespace)
    });
    let (Some(owner), Some(pod)) = (owner, lab.pods().find(|pod| pod.name == *from)) else {
        return reasons;
    };
    let (own, other) = (pod.network.as_str(), owner.name.as_str());
    let mut connects = cluster
        .connects()
        .filter_map(|object| conversion::connect(object).ok())
        .filter(|connect| connect.connectivity.service_network);
    let is_shared = own == other
        || connects.any(|connect| {
            let ids = connect.subnets.owners().map(|owner| owner.network_id);
            let names: Vec<&str> =
                ids.filter_map(|id| Some(networks.by_id(id)?.name.as_str())).collect();
            names.contains(&own) && names.contains(&other)
        });
    if !is_shared {
        reasons.push(format!(
            "no ClusterNetworkConnect with connectivity ServiceNetwork joins {own} and {other}"
        ));
    }
    reasons
}

fn not_selected(connect: &str, selected: &Pod, other: &Pod) -> String {
    format!("{connect} selects {} and not {}", selected.network, other.network)
}

/// Obstacles of a connect that concern two networks on the nodes of their pods.
fn obstacles(explanation: &Explanation, networks: [(&NetworkExplanation, &Pod); 2]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if let (false, Some(message)) = (explanation.is_accepted, &explanation.accepted) {
        found.push(message.clone());
    }
    found.extend(explanation.obstacles.iter().map(ToString::to_string));
    for (network, _) in networks {
        let name = &network.network;
        let reasons = network.reasons.iter();
        found.extend(reasons.map(|reason| format!("network {name}: {reason}")));
        let is_concerned = |node: &str| networks.iter().any(|(_, pod)| pod.node == node);
        let nodes = network.nodes.iter();
        for node in nodes.filter(|node| !node.connected && is_concerned(&node.node)) {
            let reasons = node.reasons.iter();
            let on_node = format!("network {name} on node {}", node.node);
            found.extend(reasons.map(|reason| format!("{on_node}: {reason}")));
        }
    }
    found
}

/// Reports of the nodes about a connect.
fn zone_views(lab: &Lab, connect: &str) -> BTreeMap<String, ZoneView> {
    let views = lab.nodes().filter_map(|node| {
        let outcome = lab.outcome(node).ok()?;
        let skipped = outcome.skipped_networks.iter();
        let view = ZoneView {
            report: outcome.reports.get(connect)?.clone(),
            without_rows: skipped
                .map(|skipped| (skipped.network.clone(), skipped.reason.clone()))
                .collect(),
            ..ZoneView::default()
        };
        Some((node.to_owned(), view))
    });
    views.collect()
}
