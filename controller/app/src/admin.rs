//! Policies of administrators: the inputs of their rows.

use patchbay_model::ClusterSettings;
use patchbay_policies::admin::{AdminPolicyNode, AdminPolicyObjects, ZoneAdminPolicies};
use patchbay_resources::conversion::{admin_network_policy, baseline_admin_network_policy};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Object as _;
use patchbay_zone::ZoneObjects;

use crate::policies::known_addresses;

/// The inputs of the rows of administrators' policies in a zone.
pub(crate) fn zone_admin_policies(
    inventory: &Inventory,
    zone: &str,
    settings: &ClusterSettings,
    zone_objects: &ZoneObjects,
) -> ZoneAdminPolicies {
    let policies = inventory.admin_network_policies.iter();
    let policies = policies.map(|(_, policy)| admin_network_policy(&policy.object));
    let baselines = inventory.baseline_admin_network_policies.iter();
    let baselines = baselines.map(|(_, policy)| baseline_admin_network_policy(&policy.object));
    let namespaces = inventory.namespaces.iter();
    let nodes = inventory.nodes.iter();
    let objects = AdminPolicyObjects {
        policies: policies.chain(baselines).collect(),
        pods: zone_objects.pods().cloned().collect(),
        namespaces: namespaces
            .map(|(key, namespace)| (key.name.as_str(), namespace.object.labels()))
            .collect(),
        nodes: nodes
            .map(|(key, node)| {
                let node = &node.object;
                let (labels, addresses) = (node.labels(), known_addresses(node));
                (key.name.as_str(), AdminPolicyNode { labels, addresses })
            })
            .collect(),
    };
    ZoneAdminPolicies::read(zone, settings, &objects)
}
