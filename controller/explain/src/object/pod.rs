//! Explanation of a pod.

use std::collections::BTreeMap;

use patchbay_model::{NadKey, PRIMARY_NETWORK_LABEL, Policy, PolicyDirection};
use patchbay_resources::conversion::{egress_ip, network_policy, network_service, pod};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object as _;

use super::labels::names;
use super::{Findings, ObjectView};

/// Explains a pod.
pub(super) fn of(key: &ObjectKey, inventory: &Inventory, view: ObjectView<'_>) -> Option<Findings> {
    let object = &inventory.pods.get(key)?.object;
    let read = pod(object);
    let mut found = Findings::default();
    let named = format!("Pod {key}");
    let namespace = key.namespace.as_deref().unwrap_or_default();
    match &read.node {
        Some(node) => {
            found.facts.push(format!("on node {node}"));
            let is_known = inventory.nodes.named(node).is_some();
            if !is_known && !inventory.nodes.is_empty() {
                let nodes: Vec<&str> =
                    inventory.nodes.iter().map(|(key, _)| key.name.as_str()).collect();
                let message = format!("there is no node {node}; the nodes are {}", names(&nodes));
                found.stop(message, &named, "spec.nodeName");
            }
        }
        None => found.stop("the pod is on no node", &named, "spec.nodeName"),
    }
    if read.has_host_network {
        found.facts.push("uses the network of its node, so it has no ports".to_owned());
        return Some(found);
    }
    if read.is_completed {
        found.facts.push("its containers have ended, so it has no ports".to_owned());
        return Some(found);
    }
    for (attachment, of_network) in read.networks.iter() {
        let network = attachment.split_once('/').and_then(|(namespace, name)| {
            let nad = NadKey { namespace: namespace.to_owned(), name: name.to_owned() };
            view.networks.by_nad(&nad)
        });
        let network = network.map_or(attachment, |network| &network.name);
        let addresses: Vec<String> =
            of_network.addresses.iter().map(|net| net.addr().to_string()).collect();
        let gateways: Vec<String> = of_network.gateways.iter().map(ToString::to_string).collect();
        let gateway = match &gateways[..] {
            [] => String::new(),
            gateways => format!(", gateway {}", gateways.join(", ")),
        };
        let addresses = names(&addresses);
        let text = format!("{} network {network}: {addresses}{gateway}", of_network.role);
        found.facts.push(text);
    }
    // With the label, the missing network is a problem of the pod.
    let of_namespace = inventory.namespaces.named(namespace);
    let is_labelled =
        of_namespace.is_some_and(|object| object.labels().contains_key(PRIMARY_NETWORK_LABEL));
    if !is_labelled && view.networks.primary_nad(namespace).is_none() {
        found.notices.push(format!(
            "namespace {namespace} has no primary user-defined network, so the pod is on the default network"
        ));
    }
    found.facts.extend(isolating(namespace, &read.labels, inventory));
    let services = inventory.services.in_namespace(namespace).filter(|(_, service)| {
        let selector = network_service(&service.object).selector;
        let mut labels = selector.iter();
        !selector.is_empty() && labels.all(|(key, value)| read.labels.get(key) == Some(value))
    });
    let services: Vec<&str> = services.map(|(key, _)| key.name.as_str()).collect();
    if !services.is_empty() {
        found.facts.push(format!("endpoint of services {}", names(&services)));
    }
    if let Some(of_namespace) = of_namespace {
        let egress_ips = inventory.egress_ips.iter().filter(|(_, object)| {
            egress_ip(&object.object).selects(of_namespace.labels(), &read.labels)
        });
        let egress_ips: Vec<&str> = egress_ips.map(|(key, _)| key.name.as_str()).collect();
        if !egress_ips.is_empty() {
            found
                .facts
                .push(format!("leaves with the addresses of EgressIPs {}", names(&egress_ips)));
        }
    }
    Some(found)
}

/// The policies that isolate a pod, in sentences.
fn isolating(
    namespace: &str,
    labels: &BTreeMap<String, String>,
    inventory: &Inventory,
) -> Vec<String> {
    let policies = inventory.network_policies.in_namespace(namespace);
    let policies: Vec<Policy> = policies
        .map(|(_, object)| network_policy(&object.object))
        .filter(|policy| policy.pods.as_ref().is_some_and(|pods| pods.matches(labels)))
        .collect();
    let directions = [(PolicyDirection::Ingress, "to"), (PolicyDirection::Egress, "from")];
    let facts = directions.into_iter().filter_map(|(direction, word)| {
        let of_direction = policies.iter().filter(|policy| policy.isolates(direction));
        let of_direction: Vec<&str> = of_direction.map(|policy| &*policy.key.name).collect();
        let policies = names(&of_direction);
        (!of_direction.is_empty())
            .then(|| format!("packets {word} it are limited by NetworkPolicies {policies}"))
    });
    facts.collect()
}
