//! Pods of a cluster's objects: their addresses, and the inputs of their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_allocate::networks::allocate_pods;
use patchbay_model::{ClusterSettings, NetworkObjects, POD_NETWORKS, PRIMARY_NETWORK_LABEL};
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_resources::conversion::{network_objects, pod};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{Object, Time};
use patchbay_zone::ZoneObjects;

/// The objects that the attachments of pods follow from, for the zone of the node with this name.
pub(crate) fn zone_pods(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    objects: &NetworkObjects<'_>,
    labelled: &BTreeSet<String>,
) -> ZoneObjects {
    let mut pods = ZoneObjects::new(zone, settings);
    pods.set_objects(objects, labelled);
    for (_, sourced) in inventory.pods.iter() {
        pods.put_pod(Arc::new(pod(&sourced.object)));
    }
    pods
}

/// Names of the namespaces whose pods have a primary network.
pub(crate) fn labelled_namespaces(inventory: &Inventory) -> BTreeSet<String> {
    let namespaces = inventory.namespaces.iter();
    let labelled = namespaces.filter(|(_, namespace)| {
        let labels = namespace.object.labels();
        labels.contains_key(PRIMARY_NETWORK_LABEL)
    });
    labelled.map(|(key, _)| key.name.clone()).collect()
}

/// Gives pods without addresses those that the controllers of a cluster would give them, and writes
/// them into the pods' annotations. Returns warnings about pods that have none.
///
/// In layer2 networks, and in localnet networks with subnets, it is the cluster manager that does,
/// and IPAMClaims keep the addresses. `now` is the time of their conditions.
pub(crate) fn allocate(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Vec<String> {
    if inventory.pods.is_empty() {
        return Vec::new();
    }
    let mut warnings = node_warnings(inventory);
    allocate_pods(inventory, settings, now);
    let labelled = labelled_namespaces(inventory);
    let pods = zone_pods(
        inventory,
        "",
        settings,
        &network_objects(inventory, settings),
        &labelled,
    );
    let mut allocator = PodAllocator::new(AllocationScope::AllZones);
    for (key, networks) in allocator.allocate(&pods) {
        let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
        if let Some(sourced) = inventory.pods.get_mut(&key) {
            let annotations = sourced.object.annotations_mut();
            annotations.insert(POD_NETWORKS.to_owned(), networks.to_json());
        }
    }
    let problems = allocator.problems();
    warnings.extend(problems.map(|(pod, problem)| format!("Pod {pod}: {problem}")));
    warnings
}

/// Warnings about pods without a node, which have no ports.
fn node_warnings(inventory: &Inventory) -> Vec<String> {
    let pods = inventory.pods.in_order().into_iter();
    let warnings = pods.filter_map(|(key, sourced)| {
        let pod = pod(&sourced.object);
        let problem = match &pod.node {
            _ if pod.has_host_network || pod.is_completed => return None,
            None => "the pod is not scheduled, so it has no ports".to_owned(),
            Some(node) if inventory.nodes.named(node).is_none() => {
                format!("there is no node {node}, so the pod has no ports")
            }
            Some(_) => return None,
        };
        Some(format!("Pod {key}: spec.nodeName: {problem}"))
    });
    warnings.collect()
}
