//! Node ids, chassis ids and transit addresses.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::NODE_TRANSIT_ADDRESSES;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{ClusterSettings, FIRST_NODE_ID, IpFamily, NODE_CHASSIS_ID, NODE_ID, NodeId};
use patchbay_resources::manifests::{ObjectKey, Objects, Problem, Sourced};
use patchbay_resources::object as core;
use sha2::{Digest, Sha256};

use super::annotations::{annotate, annotation, annotation_field};
use super::memory::Memory;

/// The ids that nodes may have; 0 and 1 are not theirs.
const NODE_IDS: std::ops::RangeInclusive<u32> = FIRST_NODE_ID as u32..=5000;

/// Allocates missing ids and transit addresses of nodes.
///
/// Ids are allocated in the order of the manifests. A node that has lost its annotation gets the id
/// that it had. A new node with the id of a known one gets another id. The transit addresses follow
/// from an id that is allocated. A node whose annotations cannot be read is not changed.
pub(super) fn complete(
    nodes: &mut Objects<core::Node>,
    settings: &ClusterSettings,
    memory: &mut Memory,
) -> Vec<Problem> {
    let known = std::mem::take(&mut memory.node_numbers);
    forget_ids_of_others(nodes, &known);
    let (mut problems, mut ids) = annotated_ids(nodes);
    let annotated: BTreeSet<ObjectKey> = nodes
        .iter()
        .filter(|(_, node)| annotation(&node.object.metadata, NODE_TRANSIT_ADDRESSES).is_some())
        .map(|(key, _)| key.clone())
        .collect();
    let own_ids: BTreeMap<ObjectKey, NodeId> =
        ids.iter().map(|(id, key)| (key.clone(), *id)).collect();
    let keys: Vec<ObjectKey> = nodes
        .in_order()
        .into_iter()
        .map(|(key, _)| key.clone())
        .collect();
    for key in keys {
        let Some(node) = nodes.get_mut(&key) else {
            continue;
        };
        let id = if annotation(&node.object.metadata, NODE_ID).is_some() {
            own_ids.get(&key).copied()
        } else {
            let is_free =
                |id: u32| NodeId::try_new(id.into()).is_ok_and(|id| !ids.contains_key(&id));
            let former = known.get(&key.name).copied();
            let id = former.filter(|id| is_free(id.get().into())).or_else(|| {
                let next = memory.node_ids.next(NODE_IDS, is_free);
                next.and_then(|id| NodeId::try_new(id.into()).ok())
            });
            if id.is_none() {
                let message = "all node ids up to 5000 are in use";
                problems.push(problem(node, &key, NODE_ID, message));
            }
            id
        };
        let Some(id) = id else {
            let former = known.get(&key.name).map(|id| (key.name.clone(), *id));
            memory.node_numbers.extend(former);
            continue;
        };
        let meta = &mut node.object.metadata;
        let is_new = annotation(meta, NODE_ID).is_none();
        annotate(meta, NODE_ID, id.to_string());
        if is_new || annotation(meta, NODE_TRANSIT_ADDRESSES).is_none() {
            annotate(
                meta,
                NODE_TRANSIT_ADDRESSES,
                transit_addresses(settings, id),
            );
        }
        memory.node_numbers.insert(key.name.clone(), id);
        ids.entry(id).or_insert(key);
    }
    problems.extend(unreadable_transit_addresses(nodes));
    problems.extend(shared_transit_addresses(nodes, &annotated));
    problems
}

/// Removes the ids of new nodes that are those of known ones.
fn forget_ids_of_others(nodes: &mut Objects<core::Node>, known: &BTreeMap<String, NodeId>) {
    let owners: BTreeMap<NodeId, &String> = known.iter().map(|(name, id)| (*id, name)).collect();
    let keys: Vec<ObjectKey> = nodes.iter().map(|(key, _)| key.clone()).collect();
    for key in keys.iter().filter(|key| !known.contains_key(&key.name)) {
        let id =
            |node: &Sourced<core::Node>| annotation(&node.object.metadata, NODE_ID)?.parse().ok();
        let owner = nodes
            .get(key)
            .and_then(id)
            .and_then(|id: NodeId| owners.get(&id));
        let is_taken = owner.is_some_and(|owner| nodes.named(owner).is_some());
        if let Some(node) = nodes.get_mut(key).filter(|_| is_taken) {
            let annotations = node.object.metadata.annotations.get_or_insert_default();
            annotations.remove(NODE_ID);
            annotations.remove(NODE_TRANSIT_ADDRESSES);
        }
    }
}

/// Adds missing chassis ids of nodes: a UUID made from the name.
pub(super) fn invent_chassis_ids(nodes: &mut Objects<core::Node>) -> Vec<Problem> {
    let problems = shared_chassis_ids(nodes);
    nodes.change_each(|key, node| {
        let meta = &mut node.object.metadata;
        if annotation(meta, NODE_CHASSIS_ID).is_none() {
            annotate(meta, NODE_CHASSIS_ID, invented_chassis_id(&key.name));
        }
    });
    problems
}

/// Transit addresses that two nodes have. A node whose id implies the address keeps it.
fn shared_transit_addresses(
    nodes: &Objects<core::Node>,
    annotated: &BTreeSet<ObjectKey>,
) -> Vec<Problem> {
    let mut nodes = nodes.in_order();
    nodes.sort_by_key(|(key, _)| annotated.contains(*key));
    let mut owners = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, node) in nodes {
        // Unreadable addresses are reported by `unreadable_transit_addresses`.
        let addresses =
            patchbay_model::transit_addresses(node.object.metadata.annotations.as_ref());
        for address in addresses.unwrap_or_default() {
            let address = address.addr();
            let other = *owners.entry(address).or_insert(key);
            if other != key {
                let message = format!("transit address {address} is already that of node {other}");
                problems.push(problem(node, key, NODE_TRANSIT_ADDRESSES, message));
            }
        }
    }
    problems
}

fn annotated_ids(nodes: &Objects<core::Node>) -> (Vec<Problem>, BTreeMap<NodeId, ObjectKey>) {
    let (mut problems, mut ids) = (Vec::new(), BTreeMap::<NodeId, ObjectKey>::new());
    for (key, node) in nodes.in_order() {
        let Some(text) = annotation(&node.object.metadata, NODE_ID) else {
            continue;
        };
        let id = text
            .parse::<NodeId>()
            .ok()
            .filter(|id| NODE_IDS.contains(&u32::from(id.get())));
        match id {
            None => problems.push(problem(
                node,
                key,
                NODE_ID,
                format!(
                    "node id {text:?} is not a number in {}..={}",
                    NODE_IDS.start(),
                    NODE_IDS.end()
                ),
            )),
            Some(id) => match ids.get(&id) {
                Some(other) => {
                    let message = format!("node id {id} is already that of node {other}");
                    problems.push(problem(node, key, NODE_ID, message));
                }
                None => {
                    ids.insert(id, key.clone());
                }
            },
        }
    }
    (problems, ids)
}

fn shared_chassis_ids(nodes: &Objects<core::Node>) -> Vec<Problem> {
    let mut chassis = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, node) in nodes.in_order() {
        let Some(id) = annotation(&node.object.metadata, NODE_CHASSIS_ID) else {
            continue;
        };
        if let Some(other) = chassis.insert(id, key) {
            let message = format!("chassis id {id} is already that of node {other}");
            problems.push(problem(node, key, NODE_CHASSIS_ID, message));
        }
    }
    problems
}

fn unreadable_transit_addresses(nodes: &Objects<core::Node>) -> Vec<Problem> {
    let nodes = nodes.in_order().into_iter();
    let unreadable = nodes.filter_map(|(key, node)| {
        let error =
            patchbay_model::transit_addresses(node.object.metadata.annotations.as_ref()).err()?;
        let message = format!("cannot read the addresses: {error}");
        Some(problem(node, key, NODE_TRANSIT_ADDRESSES, message))
    });
    unreadable.collect()
}

fn problem(
    node: &Sourced<core::Node>,
    key: &ObjectKey,
    annotation: &str,
    message: impl Into<String>,
) -> Problem {
    Problem {
        location: node.origin.location().cloned(),
        object: Some(format!("Node {key}")),
        field: Some(annotation_field(annotation)),
        message: message.into(),
    }
}

/// Chassis id of a node without the annotation: a UUID of version 8 (RFC 9562) over the first
/// bytes of the SHA-256 of its name, so that the same manifests give the same rows on every
/// machine.
fn invented_chassis_id(node: &str) -> String {
    let digest = Sha256::new()
        .chain_update("chassis of ")
        .chain_update(node)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// The node's address in each transit range of the cluster: the base of the range plus the node's
/// id.
fn transit_addresses(settings: &ClusterSettings, id: NodeId) -> String {
    let mut addresses = BTreeMap::new();
    for range in &settings.transit_subnets {
        let family = IpFamily::of_net(*range);
        if settings.has_family(family)
            && let Some(address) = nth_address(*range, id.get().into())
        {
            addresses.insert(
                family.long_name(),
                format!("{address}/{}", range.prefix_len()),
            );
        }
    }
    serde_json::json!(addresses).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::testing::inventory;
    use super::*;

    fn ids(yaml: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        let mut nodes = inventory(yaml).nodes;
        let mut problems = invent_chassis_ids(&mut nodes);
        problems.extend(complete(
            &mut nodes,
            &ClusterSettings::default(),
            &mut Memory::default(),
        ));
        if !problems.is_empty() {
            return Err(problems.iter().map(ToString::to_string).collect());
        }
        let id = |node: &core::Node| annotation(&node.metadata, NODE_ID).unwrap().to_owned();
        Ok(nodes
            .in_order()
            .iter()
            .map(|(key, node)| (key.name.clone(), id(&node.object)))
            .collect())
    }

    fn node(name: &str, annotations: &str) -> String {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, annotations: {{{annotations}}}}}}}\n"
        )
    }

    #[test]
    fn ids_are_kept_and_the_others_follow_in_manifest_order() {
        let yaml = node("z", "")
            + &node("m", "k8s.ovn.org/node-id: '3'")
            + &node("a", "")
            + &node("b", "");
        let expected = [("z", "2"), ("m", "3"), ("a", "4"), ("b", "5")];
        assert_eq!(
            ids(&yaml).unwrap(),
            expected.map(|(name, id)| (name.to_owned(), id.to_owned()))
        );
    }

    #[test]
    fn a_node_gets_back_the_id_that_it_had() {
        let mut nodes = inventory(&(node("a", "") + &node("b", ""))).nodes;
        let (settings, mut memory) = (ClusterSettings::default(), Memory::default());
        complete(&mut nodes, &settings, &mut memory);
        let wanted = nodes.clone();
        let key = ObjectKey::cluster("a");
        nodes.get_mut(&key).unwrap().object.metadata.annotations = None;
        assert!(complete(&mut nodes, &settings, &mut memory).is_empty());
        assert_eq!(nodes, wanted);
        // A new node does not take the id of a known one.
        let copied = inventory(&node("aa", "k8s.ovn.org/node-id: '3'")).nodes;
        for (_, node) in copied.iter() {
            nodes.insert(node.clone());
        }
        assert!(complete(&mut nodes, &settings, &mut memory).is_empty());
        let id = |name: &str| annotation(&nodes.named(name).unwrap().metadata, NODE_ID);
        assert_eq!([id("aa"), id("a"), id("b")], ["4", "2", "3"].map(Some));
    }

    #[test]
    fn a_new_id_has_the_transit_addresses_of_the_id() {
        let addresses =
            r#"k8s.ovn.org/node-transit-switch-port-ifaddr: '{"ipv4":"100.88.0.9/16"}'"#;
        let mut nodes = inventory(&node("a", addresses)).nodes;
        let (settings, mut memory) = (ClusterSettings::default(), Memory::default());
        assert!(complete(&mut nodes, &settings, &mut memory).is_empty());
        let meta = &nodes.named("a").unwrap().metadata;
        assert_eq!(
            annotation(meta, NODE_TRANSIT_ADDRESSES),
            Some(r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#)
        );
    }

    #[test]
    fn bad_ids_name_the_nodes() {
        let yaml = node("a", "k8s.ovn.org/node-id: '7'")
            + &node("b", "k8s.ovn.org/node-id: '7'")
            + &node("c", "k8s.ovn.org/node-id: '1'")
            + &node("d", "k8s.ovn.org/node-id: '5001'")
            + &node("e", "k8s.ovn.org/node-id: x");
        let field = "metadata.annotations[k8s.ovn.org/node-id]";
        assert_eq!(
            ids(&yaml).unwrap_err(),
            [
                format!(
                    "standard input:4 (document 2): Node b: {field}: node id 7 is already that of node a"
                ),
                format!(
                    "standard input:6 (document 3): Node c: {field}: node id \"1\" is not a number in 2..=5000"
                ),
                format!(
                    "standard input:8 (document 4): Node d: {field}: node id \"5001\" is not a number in 2..=5000"
                ),
                format!(
                    "standard input:10 (document 5): Node e: {field}: node id \"x\" is not a number in 2..=5000"
                ),
            ]
        );
        let twice = node("a", "k8s.ovn.org/node-chassis-id: c1")
            + &node("b", "k8s.ovn.org/node-chassis-id: c1");
        assert!(ids(&twice).unwrap_err()[0].ends_with("chassis id c1 is already that of node a"));
    }

    #[test]
    fn unreadable_addresses_are_reported() {
        let yaml = node(
            "a",
            r#"k8s.ovn.org/node-id: '2', k8s.ovn.org/node-transit-switch-port-ifaddr: '{"ipv4":"nowhere"}'"#,
        );
        let problems = ids(&yaml).unwrap_err();
        let expected = "Node a: metadata.annotations[k8s.ovn.org/node-transit-switch-port-ifaddr]: \
                        cannot read the addresses: ";
        assert!(problems[0].contains(expected), "{problems:?}");
    }

    #[test]
    fn two_nodes_do_not_have_one_transit_address() {
        let at = |id: u16, addresses: &str| {
            format!(
                "k8s.ovn.org/node-id: '{id}', k8s.ovn.org/node-transit-switch-port-ifaddr: '{addresses}'"
            )
        };
        let field = "metadata.annotations[k8s.ovn.org/node-transit-switch-port-ifaddr]";
        let yaml = node("a", &at(2, r#"{"ipv4":"100.88.0.3/16"}"#))
            + &node("b", "")
            + &node(
                "c",
                &at(4, r#"{"ipv4":"100.88.9.9/16","ipv6":"fd97::9/64"}"#),
            )
            + &node(
                "d",
                &at(5, r#"{"ipv4":"100.88.9.8/16","ipv6":"fd97:0::9/64"}"#),
            );
        assert_eq!(
            ids(&yaml).unwrap_err(),
            [
                format!(
                    "standard input:2 (document 1): Node a: {field}: transit address 100.88.0.3 is already that of node b"
                ),
                format!(
                    "standard input:8 (document 4): Node d: {field}: transit address fd97::9 is already that of node c"
                ),
            ]
        );
    }

    #[test]
    fn ids_can_run_out() {
        let yaml: String = (0..5000)
            .map(|number| node(&format!("n{number}"), ""))
            .collect();
        let problems = ids(&yaml).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("Node n4999: "), "{}", problems[0]);
    }

    #[test]
    fn chassis_and_transit_addresses_are_filled_in() {
        let mut nodes =
            inventory(&(node("a", "k8s.ovn.org/node-chassis-id: c1") + &node("b", ""))).nodes;
        let settings = ClusterSettings::default();
        assert!(invent_chassis_ids(&mut nodes).is_empty());
        assert!(complete(&mut nodes, &settings, &mut Memory::default()).is_empty());
        let read = |name: &str, key: &str| {
            annotation(&nodes.named(name).unwrap().metadata, key)
                .unwrap()
                .to_owned()
        };
        assert_eq!(read("a", NODE_CHASSIS_ID), "c1");
        assert_eq!(read("b", NODE_CHASSIS_ID), invented_chassis_id("b"));
        assert_ne!(invented_chassis_id("b"), invented_chassis_id("c"));
        assert_eq!(
            read("b", NODE_TRANSIT_ADDRESSES),
            r#"{"ipv4":"100.88.0.3/16","ipv6":"fd97::3/64"}"#
        );
    }
}
