//! Policies of administrators: the inputs of their rows.

use patchbay_model::{ClusterSettings, host_addresses};
use patchbay_pods::ZonePods;
use patchbay_policies::admin::{AdminPolicyObjects, ZoneAdminPolicies};
use patchbay_resources::conversion::{admin_network_policy, baseline_admin_network_policy};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object;

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
    let mut objects = AdminPolicyObjects {
        policies: policies.chain(baselines).collect(),
        ..AdminPolicyObjects::default()
    };
    if !objects.policies.is_empty() {
        let pods = pods.into_iter().flat_map(ZonePods::pods).cloned();
        let namespaces = inventory.namespaces.iter();
        let namespaces =
            namespaces.map(|(key, namespace)| (key.name.as_str(), namespace.object.labels()));
        let nodes = inventory.nodes.iter().map(|(_, node)| &node.object);
        let nodes = nodes.map(|node| {
            let addresses = host_addresses(Some(node.annotations())).unwrap_or_default();
            (node.labels(), addresses)
        });
        objects.pods = pods.collect();
        objects.namespaces = namespaces.collect();
        objects.nodes = nodes.collect();
    }
    ZoneAdminPolicies::read(zone, settings, &objects)
}
