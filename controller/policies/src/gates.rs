//! Port groups that new ports wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{PodKey, PolicyDirection};
use patchbay_zone::{NetworkNamespace, PodSelector, ZoneObjects};

use super::acls::{isolated_group, namespace_group};

/// Port groups whose ACLs drop packets of switch ports of the zone's pods, by the ports' names:
/// those of isolated pods, and those of namespaces with a firewall.
pub fn gates(objects: &ZoneObjects) -> BTreeMap<Arc<str>, Vec<String>> {
    objects.placed_pods().flat_map(|pod| gates_of(objects, pod)).collect()
}

/// The [gates] of one pod. They follow from the pod, and from the policies and the
/// firewall of its namespace.
pub fn gates_of(objects: &ZoneObjects, pod: &PodKey) -> BTreeMap<Arc<str>, Vec<String>> {
    let mut gates = BTreeMap::<Arc<str>, Vec<String>>::new();
    let pod = objects.placed_pod(pod);
    let Some(pod) = pod.filter(|pod| pod.pod.node.as_ref() == Some(objects.zone())) else {
        return gates;
    };
    let networks: BTreeSet<&Arc<str>> = pod.places.iter().map(|at| &at.network.name).collect();
    for network in networks {
        let groups = gates_in(objects, network, &pod.pod.key);
        for place in pod.places_in(network).filter(|_| !groups.is_empty()) {
            gates.insert(place.port.as_str().into(), groups.clone());
        }
    }
    gates
}

/// Port groups of the ports of a pod in a network.
fn gates_in(objects: &ZoneObjects, network: &Arc<str>, pod: &PodKey) -> Vec<String> {
    let place = NetworkNamespace { network: network.clone(), namespace: pod.namespace.clone() };
    let is_selected = |selector: Option<PodSelector>| {
        let selection = selector.and_then(|selector| objects.selection(&selector.key(network)));
        selection.is_some_and(|selection| selection.has(pod))
    };
    let isolating = PolicyDirection::BOTH
        .into_iter()
        .filter(|direction| {
            let mut policies = objects.policies_in(&place);
            policies.any(|policy| {
                policy.isolates(*direction) && is_selected(PodSelector::of_policy(policy))
            })
        })
        .map(|direction| isolated_group(&place, direction).name);
    let group = objects.group(&place);
    let firewall = objects.firewall(&pod.namespace);
    let of_firewall = group
        .filter(|_| {
            objects.attached_primary_of(&pod.namespace) == Some(network)
                && firewall.is_some_and(|firewall| !firewall.rules.is_empty())
        })
        .map(|_| namespace_group(&place).name);
    isolating.chain(of_firewall).collect()
}
