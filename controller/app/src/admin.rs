//! Policies of administrators: the inputs of their rows.

use std::net::IpAddr;

use patchbay_model::{ClusterSettings, host_addresses};
use patchbay_pods::ZonePods;
use patchbay_policies::admin::{AdminPolicyObjects, ZoneAdminPolicies};
use patchbay_resources::conversion::{admin_network_policy, baseline_admin_network_policy};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Node, Object as _};

/// The inputs of the rows of administrators' policies in a zone.
pub(crate) fn zone_admin_policies(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    pods: Option<&ZonePods>,
) -> ZoneAdminPolicies {
    let policies = inventory.admin_network_policies.iter();
    let policies = policies.map(|(_, policy)| admin_network_policy(&policy.object));
    let baselines = inventory.baseline_admin_network_policies.iter();
    let baselines = baselines.map(|(_, policy)| baseline_admin_network_policy(&policy.object));
    let pods = pods.into_iter().flat_map(ZonePods::pods).cloned();
    let namespaces = inventory.namespaces.iter();
    let nodes = inventory.nodes.iter();
    let objects = AdminPolicyObjects {
        policies: policies.chain(baselines).collect(),
        pods: pods.collect(),
        namespaces: namespaces
            .map(|(key, namespace)| (key.name.as_str(), namespace.object.labels()))
            .collect(),
        nodes: nodes
            .map(|(key, node)| {
                let node = &node.object;
                (key.name.as_str(), (node.labels(), addresses_of(node)))
            })
            .collect(),
    };
    ZoneAdminPolicies::read(zone, settings, &objects)
}

/// Addresses of the host of a node.
pub(crate) fn addresses_of(node: &Node) -> Vec<IpAddr> {
    host_addresses(Some(node.annotations())).unwrap_or_default()
}
