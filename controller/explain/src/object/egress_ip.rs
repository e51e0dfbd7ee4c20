//! Explanation of an EgressIP.

use patchbay_model::Selector;
use patchbay_resources::conversion::egress_ip;
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object as _;

use super::Findings;
use super::labels::{known_labels, names, selector_text};

/// Explains an EgressIP.
pub(super) fn of(key: &ObjectKey, inventory: &Inventory) -> Option<Findings> {
    let object = &inventory.egress_ips.get(key)?.object;
    let read = egress_ip(object);
    let mut found = Findings::default();
    let named = format!("EgressIP {key}");
    found.facts.push(format!("addresses {}", names(&object.spec.egress_ips)));
    let assigned = read.assignments.iter();
    let assigned: Vec<String> =
        assigned.map(|one| format!("{} on node {}", one.address, one.node)).collect();
    if assigned.is_empty() {
        let message = "no node has one of the addresses: the cluster manager of OVN-Kubernetes \
                       assigns them";
        found.stop(message, &named, "status.items");
    } else {
        found.facts.push(format!("assigned: {}", names(&assigned)));
    }
    let (Some(of_namespaces), Some(of_pods)) = (&read.namespaces, &read.pods) else {
        return Some(found);
    };
    let namespaces = || inventory.namespaces.iter();
    let selected: Vec<&str> = namespaces()
        .filter(|(_, namespace)| of_namespaces.matches(namespace.object.labels()))
        .map(|(key, _)| key.name.as_str())
        .collect();
    if selected.is_empty() {
        let labels = namespaces().map(|(_, namespace)| namespace.object.labels());
        let known = known_labels(of_namespaces, labels);
        let text = selector_text(of_namespaces);
        let message = format!("no namespace has the labels {text}; {known}");
        found.stop(message, &named, "spec.namespaceSelector");
        return Some(found);
    }
    found.facts.push(format!("namespaces {}", names(&selected)));
    let pods = || selected.iter().flat_map(|name| inventory.pods.in_namespace(name));
    let matching = pods().filter(|(_, pod)| of_pods.matches(pod.object.labels()));
    let matching: Vec<String> = matching.map(|(key, _)| key.to_string()).collect();
    if matching.is_empty() {
        let labels = pods().map(|(_, pod)| pod.object.labels());
        let known = known_labels(of_pods, labels);
        let message = match selector_text(of_pods) {
            text if text.is_empty() => "these namespaces have no pods".to_owned(),
            text => format!("no pod there has the labels {text}; {known}"),
        };
        let is_of_all = *of_pods == Selector::default();
        let field = if is_of_all { "spec.namespaceSelector" } else { "spec.podSelector" };
        found.stop(message, &named, field);
    } else {
        found.facts.push(format!("pods {}", names(&matching)));
    }
    Some(found)
}
