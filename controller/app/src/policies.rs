//! Policies of a cluster's objects: the inputs of their rows.

use std::collections::BTreeSet;
use std::net::IpAddr;

use patchbay_model::{ClusterSettings, NetworkObjects, host_addresses};
use patchbay_policies::ZonePolicies;
use patchbay_resources::conversion::{egress_firewall, multi_network_policy, network_policy};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Namespace, Node, Object as _};
use patchbay_zone::ZoneObjects;

/// The inputs of the policies' rows in a zone. `None`: there are neither pods nor policies.
pub(crate) fn zone_policies(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    (objects, labelled): (&NetworkObjects<'_>, &BTreeSet<String>),
    pods: Option<&ZoneObjects>,
) -> Option<ZonePolicies> {
    let has_policies = !inventory.network_policies.is_empty()
        || !inventory.multi_network_policies.is_empty()
        || !inventory.egress_firewalls.is_empty()
        || !settings.features.is_empty();
    if pods.is_none() && !has_policies {
        return None;
    }
    let mut policies = ZonePolicies::new(zone, settings);
    policies.set_objects(objects, labelled);
    for (_, namespace) in inventory.namespaces.iter() {
        put_namespace(&mut policies, &namespace.object);
    }
    for (_, node) in inventory.nodes.iter() {
        put_node(&mut policies, &node.object);
    }
    for (_, firewall) in inventory.egress_firewalls.iter() {
        policies.put_firewall(egress_firewall(&firewall.object));
    }
    if let Some(pods) = pods {
        for pod in pods.pods() {
            policies.put_pod(pod, pods.places(pod));
        }
    }
    for (_, policy) in inventory.network_policies.iter() {
        policies.put_policy(network_policy(&policy.object));
    }
    for (_, policy) in inventory.multi_network_policies.iter() {
        policies.put_policy(multi_network_policy(&policy.object));
    }
    Some(policies)
}

/// Adds a namespace, or replaces the one of its name.
pub(crate) fn put_namespace(policies: &mut ZonePolicies, namespace: &Namespace) {
    let (labels, annotations) = (namespace.labels(), namespace.annotations());
    policies.put_namespace(&namespace.name_any(), labels, annotations);
}

/// Addresses of the host of a node. Without an annotation there are none. `None`: the annotation
/// cannot be read.
pub(crate) fn known_addresses(node: &Node) -> Option<Vec<IpAddr>> {
    let addresses = host_addresses(Some(node.annotations())).ok()?;
    Some(addresses.unwrap_or_default())
}

/// Adds a node, or replaces the one of its name.
pub(crate) fn put_node(policies: &mut ZonePolicies, node: &Node) {
    let addresses = known_addresses(node);
    policies.put_node(&node.name_any(), node.labels(), addresses);
}
