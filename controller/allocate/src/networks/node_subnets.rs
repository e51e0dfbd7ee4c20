//! The subnets of layer3 networks that each node gets.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_resources::object as core;

use super::annotations::{annotate, annotation_field};
use super::manager::ManagerSettings;
use super::memory::Memory;
use patchbay_model::{
    IpFamily, NODE_SUBNETS, NetConf, Network, Node, PodSubnet, SubnetPool, Topology, names,
};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced};

/// The default network's entry, which OVN-Kubernetes owns.
const DEFAULT_NETWORK: &str = "default";

/// The first node, by network, for which there was no subnet left.
pub(super) type Failures = BTreeMap<String, String>;

/// Nodes with pods, by network.
pub(super) type ActiveNodes = BTreeMap<String, BTreeSet<String>>;

/// Result of the allocation of node subnets.
#[derive(Debug, Default)]
pub(super) struct NodeSubnets {
    pub(super) failures: Failures,
    /// Annotations that cannot be read or contradict each other.
    pub(super) problems: Vec<Problem>,
}

/// Allocates the missing subnets of nodes in layer3 networks, and removes subnets of networks that no
/// longer exist. Nodes are in the order of the manifests.
///
/// `active`: nodes that get subnets of a network; the default network has all. `None`: all nodes.
pub(super) fn complete(
    inventory: &mut Inventory,
    settings: &ManagerSettings,
    active: Option<&ActiveNodes>,
    memory: &mut Memory,
) -> NodeSubnets {
    let mut result = NodeSubnets::default();
    let mut nodes = read_nodes(inventory, &mut result.problems);
    let mut pools: Vec<Pool> = Vec::new();
    if let Some(subnets) = &settings.default_network {
        pools.push(Pool::new(DEFAULT_NETWORK, subnets, memory));
    }
    for network in layer3_networks(inventory) {
        pools.push(Pool::new(&network.name, &network.pod_subnets, memory));
    }
    // The oldest node has a subnet that several have, as in the zones.
    let mut by_age: Vec<_> = nodes.iter_mut().collect();
    by_age
        .sort_by(|(one, node), (other, second)| (node.created, one).cmp(&(second.created, other)));
    for (key, node) in by_age {
        let Some(object) = inventory.nodes.get(key) else {
            continue;
        };
        for pool in &mut pools {
            let restored = pool.restore(node);
            result.problems.extend(
                restored
                    .taken
                    .iter()
                    .map(|message| problem(object, key, message)),
            );
            inventory.warnings.extend(
                restored
                    .foreign
                    .iter()
                    .map(|message| problem(object, key, message)),
            );
        }
    }
    for pool in &mut pools {
        for (key, node) in &mut nodes {
            let is_active = pool.network == DEFAULT_NETWORK
                || active.is_none_or(|active| {
                    let nodes = active.get(&pool.network);
                    nodes.is_some_and(|nodes| nodes.contains(&key.name))
                });
            if !is_active {
                continue;
            }
            let (Err(NoSubnet), Some(object)) = (pool.allocate(node), inventory.nodes.get(key))
            else {
                continue;
            };
            let network = &pool.network;
            let message = format!(
                "error allocating network for node {key}, network name {network}: no subnets available"
            );
            inventory.warnings.push(problem(object, key, &message));
            result
                .failures
                .entry(network.clone())
                .or_insert_with(|| key.name.clone());
        }
    }
    memory.node_subnets = pools.iter().flat_map(Pool::positions).collect();
    let wanted = wanted_networks(inventory);
    for (key, mut node) in nodes {
        node.subnets
            .retain(|network, _| network == DEFAULT_NETWORK || wanted.contains(network));
        if let Some(object) = inventory.nodes.get_mut(&key) {
            write(&mut object.object, &node.subnets);
        }
    }
    result
}

/// Nodes whose subnets can be read.
fn read_nodes(inventory: &Inventory, problems: &mut Vec<Problem>) -> Vec<(ObjectKey, Node)> {
    let mut nodes = Vec::new();
    for (key, object) in inventory.nodes.in_order() {
        let (node, errors) = patchbay_resources::conversion::node(&object.object);
        // Node ids have been looked at before.
        let errors = errors
            .into_iter()
            .filter(|error| error.annotation == NODE_SUBNETS);
        let before = problems.len();
        problems.extend(errors.map(|error| problem(object, key, &error.reason.to_string())));
        if problems.len() == before {
            nodes.push((key.clone(), node));
        }
    }
    nodes
}

fn problem(node: &Sourced<core::Node>, key: &ObjectKey, message: &str) -> Problem {
    Problem {
        location: node.origin.location().cloned(),
        object: Some(format!("Node {key}")),
        field: Some(annotation_field(NODE_SUBNETS)),
        message: message.to_owned(),
    }
}

fn write(node: &mut core::Node, subnets: &BTreeMap<String, Vec<IpNet>>) {
    if !subnets.is_empty() {
        annotate(
            &mut node.metadata,
            NODE_SUBNETS,
            serde_json::json!(subnets).to_string(),
        );
    } else if let Some(annotations) = &mut node.metadata.annotations {
        annotations.remove(NODE_SUBNETS);
    }
}

/// The layer3 networks.
fn layer3_networks(inventory: &Inventory) -> Vec<Network> {
    let networks = super::networks_of(inventory);
    let layer3 = networks
        .iter()
        .filter(|network| network.topology == Topology::Layer3);
    layer3.cloned().collect()
}

/// Names of all networks that anybody wants, also of those that cannot be had at the moment.
fn wanted_networks(inventory: &Inventory) -> BTreeSet<String> {
    let nads = inventory.network_attachment_definitions.iter();
    let configured = nads
        .filter_map(|(_, nad)| NetConf::parse(nad.object.spec.config.as_deref()?).ok()?)
        .filter(|network| network.topology == Topology::Layer3)
        .map(|network| network.name);
    let udns = inventory.user_defined_networks.iter().map(|(key, _)| {
        names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name)
    });
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .map(|(key, _)| names::cudn_network(&key.name));
    configured.chain(udns).chain(cudns).collect()
}

/// There is no subnet left.
struct NoSubnet;

/// Subnets of a node's annotation that cannot be used.
#[derive(Default)]
struct Restored {
    /// Another node has it.
    taken: Vec<String>,
    /// The network has no such subnet, because it was another network of the same name.
    foreign: Vec<String>,
}

/// The ranges of a network, and the subnets of nodes in them.
struct Pool {
    network: String,
    ranges: Vec<SubnetPool>,
    owners: BTreeMap<IpNet, String>,
}

impl Pool {
    fn new(network: &str, subnets: &[PodSubnet], memory: &Memory) -> Self {
        let ranges = subnets.iter().filter_map(|subnet| {
            let mut range = SubnetPool::new(subnet.cidr, subnet.host_prefix?);
            let key = (network.to_owned(), subnet.cidr);
            range.set_position(memory.node_subnets.get(&key).copied().unwrap_or_default());
            Some(range)
        });
        Self {
            network: network.to_owned(),
            ranges: ranges.collect(),
            owners: BTreeMap::new(),
        }
    }

    /// Where the next search in each range starts.
    fn positions(&self) -> impl Iterator<Item = ((String, IpNet), u64)> {
        let ranges = self.ranges.iter();
        ranges.map(|range| ((self.network.clone(), range.range()), range.position()))
    }

    /// Reserves the subnets that the node has already.
    fn restore(&mut self, node: &mut Node) -> Restored {
        let mut restored = Restored::default();
        let Some(subnets) = node.subnets.get_mut(&self.network) else {
            return restored;
        };
        subnets.retain(|subnet| {
            let Some(range) = self.ranges.iter_mut().find(|range| range.contains(*subnet)) else {
                let network = &self.network;
                restored.foreign.push(format!(
                    "{subnet} is no node subnet of network {network} and gets replaced"
                ));
                return false;
            };
            if !range.reserve(*subnet) {
                let owner = self.owners.get(subnet).map_or("?", String::as_str);
                restored.taken.push(format!(
                    "{subnet} of network {} is already that of node {owner}",
                    self.network
                ));
            }
            self.owners.insert(*subnet, node.name.clone());
            true
        });
        restored
    }

    /// Takes one subnet of every family of the network that the node has none of yet.
    fn allocate(&mut self, node: &mut Node) -> Result<(), NoSubnet> {
        let subnets = node.subnets.entry(self.network.clone()).or_default();
        for family in IpFamily::BOTH {
            let mut ranges = self
                .ranges
                .iter_mut()
                .filter(|range| range.family() == family)
                .peekable();
            let missing = subnets
                .iter()
                .all(|subnet| IpFamily::of_net(*subnet) != family);
            if missing && ranges.peek().is_some() {
                subnets.push(ranges.find_map(SubnetPool::allocate).ok_or(NoSubnet)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::inventory;
    use super::*;

    const NETWORKS: &str = r#"
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: net, namespace: blue, annotations: {k8s.ovn.org/network-id: '1'}}
spec: {config: '{"name":"blue_net","netAttachDefName":"blue/net","type":"ovn-k8s-cni-overlay","topology":"layer3","subnets":"10.0.0.0/23/24,fd00::/48"}'}
"#;

    fn completed(inventory: &mut Inventory) -> NodeSubnets {
        complete(
            inventory,
            &ManagerSettings::default(),
            None,
            &mut Memory::default(),
        )
    }

    fn node(name: &str, subnets: &str) -> String {
        format!(
            "---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, annotations: {{k8s.ovn.org/node-subnets: '{subnets}'}}}}}}
"
        )
    }

    fn annotations(inventory: &Inventory) -> Vec<&str> {
        let nodes = inventory.nodes.in_order().into_iter();
        let annotations = nodes.map(|(_, node)| node.object.metadata.annotations.as_ref().unwrap());
        annotations
            .map(|annotations| annotations.get(NODE_SUBNETS).map_or("", String::as_str))
            .collect()
    }

    #[test]
    fn nodes_get_a_subnet_of_every_family_and_keep_what_they_have() {
        let kept =
            r#"{"default":["10.244.0.0/24"],"gone_net":"10.9.0.0/24","blue_net":["10.0.0.0/24"]}"#;
        let mut inventory = inventory(&(NETWORKS.to_owned() + &node("z", "") + &node("a", kept)));
        assert!(completed(&mut inventory).failures.is_empty());
        assert_eq!(
            annotations(&inventory),
            [
                r#"{"blue_net":["10.0.1.0/24","fd00:0:0:1::/64"]}"#,
                r#"{"blue_net":["10.0.0.0/24","fd00:0:0:2::/64"],"default":["10.244.0.0/24"]}"#,
            ]
        );
        let again = inventory.clone();
        assert!(completed(&mut inventory).failures.is_empty());
        assert_eq!(inventory, again);
    }

    #[test]
    fn nodes_beyond_the_capacity_are_reported_and_others_have_subnets() {
        let nodes: String = ["a", "b", "c", "d"].map(|name| node(name, "")).concat();
        let mut inventory = inventory(&(NETWORKS.to_owned() + &nodes));
        let failures = completed(&mut inventory).failures;
        assert_eq!(failures, Failures::from([("blue_net".into(), "c".into())]));
        assert_eq!(
            inventory.warnings[0].to_string(),
            "standard input:11 (document 4): Node c: metadata.annotations[k8s.ovn.org/node-subnets]: error allocating network for node c, network name blue_net: no subnets available"
        );
        assert_eq!(inventory.warnings.len(), 2);
        assert_eq!(
            annotations(&inventory)[1],
            r#"{"blue_net":["10.0.1.0/24","fd00:0:0:2::/64"]}"#
        );
    }

    #[test]
    fn contradicting_annotations_are_refused() {
        let subnets = r#"{"blue_net":["10.0.0.0/24"]}"#;
        let yaml = NETWORKS.to_owned() + &node("a", subnets) + &node("b", subnets);
        let errors = completed(&mut inventory(&yaml)).problems;
        assert_eq!(
            errors[0].to_string(),
            "standard input:9 (document 3): Node b: metadata.annotations[k8s.ovn.org/node-subnets]: 10.0.0.0/24 of network blue_net is already that of node a"
        );
        let errors = completed(&mut inventory(&node("a", "{"))).problems;
        assert!(
            errors[0].to_string().contains(
                "Node a: metadata.annotations[k8s.ovn.org/node-subnets]: not a JSON object"
            )
        );
    }

    #[test]
    fn subnets_of_an_earlier_network_of_the_name_are_replaced() {
        let mut inventory =
            inventory(&(NETWORKS.to_owned() + &node("a", r#"{"blue_net":["10.7.0.0/24"]}"#)));
        assert!(completed(&mut inventory).failures.is_empty());
        assert_eq!(
            annotations(&inventory),
            [r#"{"blue_net":["10.0.0.0/24","fd00:0:0:1::/64"]}"#]
        );
        assert!(
            inventory.warnings[0]
                .message
                .starts_with("10.7.0.0/24 is no node subnet of network blue_net")
        );
    }
}
