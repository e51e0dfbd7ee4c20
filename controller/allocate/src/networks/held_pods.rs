//! Pods without ports because their node has no chassis id, in the conditions of their networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::NODE_CHASSIS_ID;
use patchbay_resources::conversion::networks_of;
use patchbay_resources::manifests::{Inventory, Objects};
use patchbay_resources::object::Time;
use patchbay_resources::set_condition;
use patchbay_resources::udn::NetworkStatus;

use super::annotations::annotation;
use super::conditions::{PORTS_AVAILABLE, condition};
use super::pods::AttachedPods;
use super::resource::{NetworkResource, change_status};

/// Most nodes that a message names.
const MAX_NODES: usize = 5;

/// Notes for every network that pods of a node get no port of it, because the node has no chassis id:
/// zones do not complete layer3 and primary networks without it. A network without such pods gets no
/// condition, and one that had some a true one.
pub fn note_held_pods(inventory: &mut Inventory, now: &Time) {
    let nodes: BTreeSet<String> = inventory
        .nodes
        .iter()
        .filter(|(_, node)| annotation(&node.object.metadata, NODE_CHASSIS_ID).is_none())
        .map(|(key, _)| key.name.clone())
        .collect();
    let mut held = BTreeMap::<Arc<str>, BTreeSet<Arc<str>>>::new();
    // The pods of a large cluster are read only if a node holds some.
    if !nodes.is_empty() {
        let pods = AttachedPods::read(inventory, &networks_of(inventory));
        let uses = pods.uses().into_iter();
        for (network, node) in uses.filter(|(_, node)| nodes.contains(&**node)) {
            held.entry(network).or_default().insert(node);
        }
    }
    note_held(&mut inventory.user_defined_networks, &held, now);
    note_held(&mut inventory.cluster_user_defined_networks, &held, now);
}

fn note_held<T: NetworkResource>(
    objects: &mut Objects<T>,
    held: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    now: &Time,
) {
    change_status(objects, |key, sourced, status| {
        let was_held = condition(status.as_ref(), PORTS_AVAILABLE).is_some();
        let (true, Some(NetworkStatus { conditions })) = (sourced.object.needs_chassis(), status)
        else {
            return;
        };
        let (holds, reason, message) = match held.get(&*T::network_name(key)) {
            Some(nodes) => (false, "NoChassisId", describe(nodes)),
            None if was_held => {
                let message = "All nodes with pods of the network have a chassis id.";
                (true, "ChassisIds", message.to_owned())
            }
            None => return,
        };
        set_condition(conditions, PORTS_AVAILABLE, holds, reason, message, now);
    });
}

fn describe(nodes: &BTreeSet<Arc<str>>) -> String {
    let named: Vec<&str> = nodes.iter().take(MAX_NODES).map(|node| &**node).collect();
    let more = match nodes.len().saturating_sub(MAX_NODES) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!(
        "pods get no port on these nodes, because metadata.annotations[{NODE_CHASSIS_ID}] is missing, the system-id of their Open vSwitch: Node {}{more}",
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
