//! Pods without ports because their node has no chassis id, in the conditions of their networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{NODE_CHASSIS_ID, names};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::Time;
use patchbay_resources::set_condition;
use patchbay_resources::udn::{Layer2Config, NetworkRole, NetworkStatus};

use super::annotations::{annotation, annotation_field};
use super::pods::AttachedPods;

/// Condition: pods on all nodes can get ports of the network. OVN-Kubernetes has none for it.
pub const PORTS_AVAILABLE: &str = "PortsAvailable";
/// Most nodes that a message names.
const MAX_NODES: usize = 5;

/// Notes for every network that pods of a node get no port of it, because the node has no chassis id:
/// zones do not complete layer3 and primary networks without it. A network without such pods gets no
/// condition, and one that had some a true one.
pub fn note_held_pods(inventory: &mut Inventory, now: &Time) {
    let nodes = inventory.nodes.iter();
    let nodes =
        nodes.filter(|(_, node)| annotation(&node.object.metadata, NODE_CHASSIS_ID).is_none());
    let nodes: BTreeSet<String> = nodes.map(|(key, _)| key.name.clone()).collect();
    let mut held = BTreeMap::<Arc<str>, BTreeSet<Arc<str>>>::new();
    // The pods of a large cluster are read only if a node holds some.
    if !nodes.is_empty() {
        let (pods, _) = AttachedPods::collect(inventory);
        let uses = pods.uses().into_iter();
        for (network, node) in uses.filter(|(_, node)| nodes.contains(&**node)) {
            held.entry(network).or_default().insert(node);
        }
    }
    let note = |status: &mut Option<NetworkStatus>, network: &str| {
        let Some(NetworkStatus { conditions }) = status else {
            return;
        };
        if let Some(nodes) = held.get(network) {
            let message = describe(nodes);
            set_condition(
                conditions,
                PORTS_AVAILABLE,
                false,
                "NoChassisId",
                message,
                now,
            );
        } else if conditions.iter().any(|one| one.type_ == PORTS_AVAILABLE) {
            let message = "All nodes with pods of the network have a chassis id.";
            set_condition(
                conditions,
                PORTS_AVAILABLE,
                true,
                "ChassisIds",
                message,
                now,
            );
        }
    };
    inventory.user_defined_networks.change_each(|key, udn| {
        let spec = &udn.object.spec;
        if needs_chassis(spec.layer3.is_some(), spec.layer2.as_ref()) {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let network = names::udn_network(namespace, &key.name);
            note(&mut udn.object.status, &network);
        }
    });
    let cudns = &mut inventory.cluster_user_defined_networks;
    cudns.change_each(|key, cudn| {
        let config = &cudn.object.spec.network;
        if needs_chassis(config.layer3.is_some(), config.layer2.as_ref()) {
            let network = names::cudn_network(&key.name);
            note(&mut cudn.object.status, &network);
        }
    });
}

/// `true` if zones do not complete a network without the chassis id of their node.
fn needs_chassis(is_layer3: bool, layer2: Option<&Layer2Config>) -> bool {
    is_layer3 || layer2.is_some_and(|config| config.role == NetworkRole::Primary)
}

fn describe(nodes: &BTreeSet<Arc<str>>) -> String {
    let named: Vec<&str> = nodes.iter().take(MAX_NODES).map(|node| &**node).collect();
    let more = match nodes.len().saturating_sub(MAX_NODES) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let field = annotation_field(NODE_CHASSIS_ID);
    format!(
        "pods get no port on these nodes, because {field} is missing, the system-id of their Open vSwitch: Node {}{more}",
        named.join(", Node ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::testing::inventory;

    const NETWORK: &str = "---\n{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: red, namespace: blue, \
         uid: u}, spec: {topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.9.0.0/16}]}}, status: {conditions: []}}\n---\n{apiVersion: \
         k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: red, namespace: blue, annotations: \
         {k8s.ovn.org/network-id: '3'}}, spec: {config: '{\"cniVersion\":\"1.1.0\",\"name\":\"blue_red\",\"type\":\
         \"ovn-k8s-cni-overlay\",\"topology\":\"layer2\",\"role\":\"secondary\",\"netAttachDefName\":\"blue/red\"}'}}\n---\n\
         {apiVersion: v1, kind: Namespace, metadata: {name: blue}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, \
         namespace: blue, annotations: {k8s.v1.cni.cncf.io/networks: red}}, spec: {nodeName: n1, containers: []}}\n";

    fn condition(inventory: &Inventory) -> Option<(String, String)> {
        let (_, udn) = inventory.user_defined_networks.iter().next()?;
        let status = udn.object.status.as_ref()?;
        let mut conditions = status.conditions.iter();
        let one = conditions.find(|one| one.type_ == PORTS_AVAILABLE)?;
        Some((one.status.clone(), one.message.clone()))
    }

    #[test]
    fn networks_name_nodes_whose_pods_get_no_port() {
        let node = |name: &str| {
            format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}\n")
        };
        let now = Time::default();
        let mut idle = inventory(&(node("n2") + NETWORK));
        note_held_pods(&mut idle, &now);
        assert_eq!(condition(&idle), None, "no pod is on the node");
        let mut held = inventory(&(node("n1") + NETWORK));
        note_held_pods(&mut held, &now);
        let (status, message) = condition(&held).unwrap();
        assert_eq!(status, "False");
        let expected = "pods get no port on these nodes, because metadata.annotations[k8s.ovn.org/node-chassis-id] is \
                        missing, the system-id of their Open vSwitch: Node n1";
        assert_eq!(message, expected);
        held.nodes.change_each(|_, node| {
            let annotations = node.object.metadata.annotations.get_or_insert_default();
            annotations.insert(NODE_CHASSIS_ID.to_owned(), "c".to_owned());
        });
        note_held_pods(&mut held, &now);
        assert_eq!(condition(&held).unwrap().0, "True");
    }
}
