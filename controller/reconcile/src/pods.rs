//! Pods of a cluster's objects: their addresses, and the inputs of their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_allocate::networks::{self as manager, AttachedPods, NumberedNetworks, PodAddresses};
use patchbay_model::{ClusterSettings, NetworkObjects, PRIMARY_NETWORK_LABEL, Pod};
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

/// Reads the pods of an inventory, in their order.
pub(crate) fn read_pods(inventory: &Inventory) -> Vec<(ObjectKey, Arc<Pod>)> {
    let pods = inventory.pods.in_order().into_iter();
    pods.map(|(key, sourced)| (key.clone(), Arc::new(pod(&sourced.object))))
        .collect()
}

/// Gives pods without addresses those that the controllers of a cluster would give them, and writes
/// them into the pods' annotations. Returns warnings about pods that have none.
///
/// In layer2 networks, and in localnet networks with subnets, it is the cluster manager that does,
/// and IPAMClaims keep the addresses. `now` is the time of their conditions.
pub(crate) fn address_pods(
    inventory: &mut Inventory,
    pods: &mut [(ObjectKey, Arc<Pod>)],
    attached: AttachedPods,
    networks: &NumberedNetworks,
    settings: &ClusterSettings,
    now: &Time,
) -> Vec<String> {
    if pods.is_empty() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = node_warnings(inventory, pods).collect();
    let mut addresses = manager::address_pods(inventory, networks, &attached, settings, now);
    // Pods are changed in place.
    drop(attached);
    set_networks(pods, &addresses);
    let mut zone = ZoneObjects::new("", settings);
    let labelled = labelled_namespaces(inventory);
    zone.set_objects(&network_objects(inventory, settings), &labelled);
    for (_, pod) in pods.iter() {
        zone.put_pod(pod.clone());
    }
    let mut allocator = PodAllocator::new(AllocationScope::AllZones);
    for (key, networks) in allocator.allocate(&zone) {
        let key = ObjectKey::namespaced(&*key.namespace, &*key.name);
        addresses.networks.insert(key, networks.clone());
    }
    set_networks(pods, &addresses);
    addresses.write(inventory);
    let problems = allocator.problems();
    warnings.extend(problems.map(|(pod, problem)| format!("Pod {pod}: {problem}")));
    warnings
}

/// Sets the addresses that pods have got.
fn set_networks(pods: &mut [(ObjectKey, Arc<Pod>)], addresses: &PodAddresses) {
    for (key, pod) in pods {
        if let Some(networks) = addresses.networks.get(key) {
            Arc::make_mut(pod).networks.clone_from(networks);
        }
    }
}

/// Warnings about pods without a node, which have no ports.
fn node_warnings(
    inventory: &Inventory,
    pods: &[(ObjectKey, Arc<Pod>)],
) -> impl Iterator<Item = String> {
    pods.iter().filter_map(|(key, pod)| {
        let problem = match &pod.node {
            _ if pod.has_host_network || pod.is_completed => return None,
            None => "the pod is not scheduled, so it has no ports".to_owned(),
            Some(node) if inventory.nodes.named(node).is_none() => {
                format!("there is no node {node}, so the pod has no ports")
            }
            Some(_) => return None,
        };
        Some(format!("Pod {key}: spec.nodeName: {problem}"))
    })
}
