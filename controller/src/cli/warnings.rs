//! What is odd but not wrong.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;

use crate::api::cnc::{ClusterNetworkConnect, NetworkSelector};
use crate::api::selector;
use crate::model::PRIMARY_NETWORK_LABEL;
use crate::source::{Inventory, ObjectKey, Problem, Sourced, describe};

/// Selectors of connects that match nothing.
pub(super) fn of_selectors(inventory: &Inventory) -> Vec<String> {
    let connects = inventory.cluster_network_connects.in_order().into_iter();
    connects
        .flat_map(|(_, connect)| {
            let selectors = connect.object.spec.network_selectors.iter().enumerate();
            selectors.filter_map(move |(place, entry)| {
                let (member, found) = selected(inventory, entry)?;
                let field = format!("spec.networkSelectors[{place}].{member}");
                (!found).then(|| problem(connect, Some(field), "matches no network"))
            })
        })
        .collect()
}

/// The member that counts, and whether it matches anything.
fn selected(inventory: &Inventory, entry: &NetworkSelector) -> Option<(&'static str, bool)> {
    if let Some(member) = &entry.cluster_user_defined_network_selector {
        let labels = &member.network_selector;
        let found = inventory.cluster_user_defined_networks.iter();
        let found = matches(labels, found.map(|(_, network)| network.object.labels()));
        return Some(("clusterUserDefinedNetworkSelector.networkSelector", found));
    }
    let member = entry.primary_user_defined_network_selector.as_ref()?;
    let namespaces = inventory.namespaces.iter();
    let labels = namespaces
        .map(|(_, namespace)| namespace.object.labels())
        .filter(|labels| labels.contains_key(PRIMARY_NETWORK_LABEL));
    let found = matches(&member.namespace_selector, labels);
    Some(("primaryUserDefinedNetworkSelector.namespaceSelector", found))
}

fn matches<'a>(
    selector: &LabelSelector,
    mut labels: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> bool {
    labels.any(|labels| selector::matches(selector, labels))
}

/// What a connect's status complains about.
pub(super) fn of_status(inventory: &Inventory, connect: &str) -> Vec<String> {
    let key = ObjectKey::cluster(connect);
    let Some(sourced) = inventory.cluster_network_connects.get(&key) else {
        return Vec::new();
    };
    let status = sourced.object.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.status == "False")
        .map(|condition| {
            let message = format!("not {}: {}", condition.type_, condition.message);
            problem(sourced, None, message)
        })
        .collect()
}

fn problem(
    connect: &Sourced<ClusterNetworkConnect>,
    field: Option<String>,
    message: impl Into<String>,
) -> String {
    let problem = Problem {
        place: connect.origin.place().cloned(),
        object: Some(describe(&connect.object)),
        field,
        message: message.into(),
    };
    problem.to_string()
}
