//! Node ids, chassis ids and transit addresses.

use std::collections::BTreeMap;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{
    ClusterSettings, FIRST_NODE_ID, IpFamily, NODE_CHASSIS_ID, NODE_ID, NODE_TRANSIT_ADDRESSES,
    NodeId, transit_addresses,
};
use patchbay_resources::manifests::{ObjectKey, Objects, Problem, Sourced};
use patchbay_resources::object as core;
use sha2::{Digest, Sha256};

use super::annotations::{annotation, write_annotations};
use crate::cursor::Cursor;

/// The ids that nodes may have; 0 and 1 are not theirs.
const NODE_IDS: std::ops::RangeInclusive<u32> = FIRST_NODE_ID as u32..=5000;

/// Ids of nodes at the end of the last pass, and the position of their allocator.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeIdMemory {
    cursor: Cursor,
    /// Ids by name of the node.
    known: BTreeMap<String, NodeId>,
}

/// Ids of all nodes, and the transit addresses that follow from new ones.
#[derive(Debug, Default)]
pub struct NodeIds {
    nodes: BTreeMap<ObjectKey, NodeNumbers>,
    /// New nodes with the id of a known one, whose annotations go.
    copies: Vec<ObjectKey>,
    /// Annotations that cannot be read or contradict each other.
    pub(super) problems: Vec<Problem>,
}

#[derive(Debug)]
struct NodeNumbers {
    id: NodeId,
    /// Addresses of the id, IPv4 first. `None`: those of the annotation stay.
    transit: Option<Vec<IpNet>>,
}

impl NodeIds {
    /// Names and ids of the nodes that have one, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, NodeId)> {
        let nodes = self.nodes.iter();
        nodes.map(|(key, numbers)| (&*key.name, numbers.id))
    }

    /// Id of a node. `None`: it has none.
    pub(super) fn get(&self, node: &str) -> Option<NodeId> {
        let numbers = self.nodes.get(&ObjectKey::cluster(node))?;
        Some(numbers.id)
    }

    /// Writes the annotations of the nodes.
    pub(super) fn write(&self, nodes: &mut Objects<core::Node>) {
        for key in &self.copies {
            write_annotations(nodes, key, [(NODE_ID, None), (NODE_TRANSIT_ADDRESSES, None)]);
        }
        for (key, NodeNumbers { id, transit }) in &self.nodes {
            write_annotations(nodes, key, [(NODE_ID, Some(id.to_string()))]);
            if let Some(addresses) = transit {
                let by_family = addresses.iter().map(|net| {
                    let family = IpFamily::of_net(*net).long_name();
                    (family, net.to_string())
                });
                let json = serde_json::json!(by_family.collect::<BTreeMap<_, _>>());
                let value = Some(json.to_string());
                write_annotations(nodes, key, [(NODE_TRANSIT_ADDRESSES, value)]);
            }
        }
    }
}

/// A node with the values of its annotations.
struct AnnotatedNode<'a> {
    key: &'a ObjectKey,
    node: &'a Sourced<core::Node>,
    id: Option<&'a str>,
    has_transit: bool,
    transit: Result<Vec<IpNet>, serde_json::Error>,
}

impl<'a> AnnotatedNode<'a> {
    /// `is_copy`: the annotations are those of a known node.
    fn new(key: &'a ObjectKey, node: &'a Sourced<core::Node>, is_copy: bool) -> Self {
        let meta = &node.object.metadata;
        let value = |key| annotation(meta, key).filter(|_| !is_copy);
        Self {
            key,
            node,
            id: value(NODE_ID),
            has_transit: value(NODE_TRANSIT_ADDRESSES).is_some(),
            transit: if is_copy {
                Ok(Vec::new())
            } else {
                transit_addresses(meta.annotations.as_ref())
            },
        }
    }

    fn problem(&self, annotation: &str, message: impl Into<String>) -> Problem {
        self.node.problem(message).in_annotation(annotation)
    }
}

/// Assigns missing ids and transit addresses of nodes.
///
/// Ids are assigned in the order of the manifests. A node that has lost its annotation gets the id
/// that it had. A new node with the id of a known one gets another id. The transit addresses follow
/// from an id that is assigned. A node whose annotations cannot be read is not changed.
pub(super) fn assign_node_ids(
    nodes: &Objects<core::Node>,
    settings: &ClusterSettings,
    memory: &mut NodeIdMemory,
) -> NodeIds {
    let known = std::mem::take(&mut memory.known);
    let owners: BTreeMap<NodeId, &String> = known.iter().map(|(name, id)| (*id, name)).collect();
    let mut assigned = NodeIds::default();
    let mut annotated = Vec::with_capacity(nodes.len());
    for (key, node) in nodes.in_order() {
        let id = annotation(&node.object.metadata, NODE_ID).and_then(|text| text.parse().ok());
        let owner = id.and_then(|id: NodeId| owners.get(&id));
        let is_copy = !known.contains_key(&key.name)
            && owner.is_some_and(|owner| nodes.named(owner).is_some());
        assigned.copies.extend(is_copy.then(|| key.clone()));
        annotated.push(AnnotatedNode::new(key, node, is_copy));
    }
    let mut ids = annotated_ids(&annotated, &mut assigned.problems);
    let own_ids: BTreeMap<&ObjectKey, NodeId> = ids.iter().map(|(id, key)| (*key, *id)).collect();
    for node in &mut annotated {
        let name = &node.key.name;
        let former = known.get(name).copied();
        let id = if node.id.is_some() {
            own_ids.get(node.key).copied()
        } else {
            let is_free =
                |id: u32| NodeId::try_new(id.into()).is_ok_and(|id| !ids.contains_key(&id));
            let id = former.filter(|id| is_free(id.get().into())).or_else(|| {
                let next = memory.cursor.next(NODE_IDS, is_free);
                next.and_then(|id| NodeId::try_new(id.into()).ok())
            });
            if id.is_none() {
                let problem = node.problem(NODE_ID, "all node ids up to 5000 are in use");
                assigned.problems.push(problem);
            }
            id
        };
        let Some(id) = id else {
            memory.known.extend(former.map(|id| (name.clone(), id)));
            continue;
        };
        let mut transit = None;
        if node.id.is_none() || !node.has_transit {
            let addresses = transit_addresses_of(settings, id);
            node.transit = Ok(addresses.clone());
            transit = Some(addresses);
        }
        memory.known.insert(name.clone(), id);
        ids.entry(id).or_insert(node.key);
        let numbers = NodeNumbers { id, transit };
        assigned.nodes.insert(node.key.clone(), numbers);
    }
    let unreadable = annotated.iter().filter_map(|node| {
        let error = node.transit.as_ref().err()?;
        let message = format!("cannot read the addresses: {error}");
        Some(node.problem(NODE_TRANSIT_ADDRESSES, message))
    });
    assigned.problems.extend(unreadable);
    assigned.problems.extend(shared_transit_addresses(annotated));
    assigned
}

/// Ids in annotations, with their nodes. Those that cannot be used are problems.
fn annotated_ids<'a>(
    nodes: &[AnnotatedNode<'a>],
    problems: &mut Vec<Problem>,
) -> BTreeMap<NodeId, &'a ObjectKey> {
    let mut ids = BTreeMap::<NodeId, &'a ObjectKey>::new();
    for node in nodes {
        let Some(text) = node.id else {
            continue;
        };
        let id = text.parse::<NodeId>().ok();
        let Some(id) = id.filter(|id| NODE_IDS.contains(&id.get().into())) else {
            let (first, last) = NODE_IDS.into_inner();
            let message = format!("node id {text:?} is not a number in {first}..={last}");
            problems.push(node.problem(NODE_ID, message));
            continue;
        };
        let owner = *ids.entry(id).or_insert(node.key);
        if owner != node.key {
            let message = format!("node id {id} is already that of node {owner}");
            problems.push(node.problem(NODE_ID, message));
        }
    }
    ids
}

/// Transit addresses that two nodes have. A node whose id implies the address keeps it.
fn shared_transit_addresses(mut nodes: Vec<AnnotatedNode<'_>>) -> Vec<Problem> {
    nodes.sort_by_key(|node| node.has_transit);
    let mut owners = BTreeMap::new();
    let mut problems = Vec::new();
    for node in &nodes {
        for address in node.transit.iter().flatten().map(IpNet::addr) {
            let other = *owners.entry(address).or_insert(node.key);
            if other != node.key {
                let message = format!("transit address {address} is already that of node {other}");
                problems.push(node.problem(NODE_TRANSIT_ADDRESSES, message));
            }
        }
    }
    problems
}

/// The node's address in each transit range of the cluster, IPv4 first: the base of the range plus
/// the node's id.
fn transit_addresses_of(settings: &ClusterSettings, id: NodeId) -> Vec<IpNet> {
    let ranges = settings.transit_subnets.iter();
    let of_families = ranges.filter(|range| settings.has_family(IpFamily::of_net(**range)));
    let addresses = of_families.filter_map(|range| {
        let address = nth_address(*range, id.get().into())?;
        let net = IpNet::new(address, range.prefix_len()).ok()?;
        Some((IpFamily::of_net(*range).long_name(), net))
    });
    addresses.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Adds missing chassis ids of nodes: a UUID made from the name. Returns ids that two nodes have.
pub(super) fn invent_chassis_ids(nodes: &mut Objects<core::Node>) -> Vec<Problem> {
    let mut owners = BTreeMap::new();
    let (mut problems, mut without_id) = (Vec::new(), Vec::new());
    for (key, node) in nodes.in_order() {
        let Some(id) = annotation(&node.object.metadata, NODE_CHASSIS_ID) else {
            without_id.push(key.clone());
            continue;
        };
        if let Some(other) = owners.insert(id, key) {
            let message = format!("chassis id {id} is already that of node {other}");
            let node = AnnotatedNode::new(key, node, false);
            problems.push(node.problem(NODE_CHASSIS_ID, message));
        }
    }
    for key in without_id {
        let id = Some(invented_chassis_id(&key.name));
        write_annotations(nodes, &key, [(NODE_CHASSIS_ID, id)]);
    }
    problems
}

/// Chassis id of a node without the annotation: a UUID of version 8 (RFC 9562) over the first
/// bytes of the SHA-256 of its name, so that the same manifests give the same rows on every
/// machine.
fn invented_chassis_id(node: &str) -> String {
    let digest = Sha256::new().chain_update("chassis of ").chain_update(node).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::testing::inventory;
    use super::*;

    /// Assigns ids and writes them.
    fn assign(nodes: &mut Objects<core::Node>, memory: &mut NodeIdMemory) -> Vec<Problem> {
        let ids = assign_node_ids(nodes, &ClusterSettings::default(), memory);
        ids.write(nodes);
        ids.problems
    }

    fn ids(yaml: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        let mut nodes = inventory(yaml).nodes;
        let mut problems = invent_chassis_ids(&mut nodes);
        problems.extend(assign(&mut nodes, &mut NodeIdMemory::default()));
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
        let mut memory = NodeIdMemory::default();
        assign(&mut nodes, &mut memory);
        let wanted = nodes.clone();
        let key = ObjectKey::cluster("a");
        nodes.get_mut(&key).unwrap().object.metadata.annotations = None;
        assert!(assign(&mut nodes, &mut memory).is_empty());
        assert_eq!(nodes, wanted);
        // A new node does not take the id of a known one.
        let copied = inventory(&node("aa", "k8s.ovn.org/node-id: '3'")).nodes;
        for (_, node) in copied.iter() {
            nodes.insert(node.clone());
        }
        assert!(assign(&mut nodes, &mut memory).is_empty());
        let id = |name: &str| annotation(&nodes.named(name).unwrap().metadata, NODE_ID);
        assert_eq!([id("aa"), id("a"), id("b")], ["4", "2", "3"].map(Some));
    }

    #[test]
    fn a_new_id_has_the_transit_addresses_of_the_id() {
        let addresses =
            r#"k8s.ovn.org/node-transit-switch-port-ifaddr: '{"ipv4":"100.88.0.9/16"}'"#;
        let mut nodes = inventory(&node("a", addresses)).nodes;
        let mut memory = NodeIdMemory::default();
        assert!(assign(&mut nodes, &mut memory).is_empty());
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
            + &node("c", &at(4, r#"{"ipv4":"100.88.9.9/16","ipv6":"fd97::9/64"}"#))
            + &node("d", &at(5, r#"{"ipv4":"100.88.9.8/16","ipv6":"fd97:0::9/64"}"#));
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
        let yaml: String = (0..5000).map(|number| node(&format!("n{number}"), "")).collect();
        let problems = ids(&yaml).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("Node n4999: "), "{}", problems[0]);
    }

    #[test]
    fn chassis_and_transit_addresses_are_filled_in() {
        let mut nodes =
            inventory(&(node("a", "k8s.ovn.org/node-chassis-id: c1") + &node("b", ""))).nodes;
        assert!(invent_chassis_ids(&mut nodes).is_empty());
        assert!(assign(&mut nodes, &mut NodeIdMemory::default()).is_empty());
        let read = |name: &str, key: &str| {
            annotation(&nodes.named(name).unwrap().metadata, key).unwrap().to_owned()
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
