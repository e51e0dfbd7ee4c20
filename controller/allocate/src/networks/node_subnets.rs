//! The subnets of layer3 networks that each node gets.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::{IpNet, Ipv4Net};
use jiff::Timestamp;
use patchbay_model::{
    IpFamily, NODE_SUBNETS, NetConf, Network, NetworkActivity, Node, PodSubnet, SubnetPool,
    Topology, names,
};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced};
use patchbay_resources::object::{self as core, Time};

use super::annotations::{annotate, annotation_field};
use super::manager::ManagerSettings;
use super::memory::Memory;
use super::status;

/// The default network's entry, which OVN-Kubernetes owns.
const DEFAULT_NETWORK: &str = "default";

/// Nodes, by network, for which there was no subnet left, in the order of the manifests.
pub(super) type Failures = BTreeMap<String, Vec<String>>;

/// Error of a node for which a network has no subnet left.
pub(super) fn no_subnet(node: &str, network: &str) -> String {
    format!(
        "error allocating network for node {node}, network name {network}: no subnets available"
    )
}

/// Result of the allocation of node subnets.
#[derive(Debug, Default)]
pub(super) struct NodeSubnets {
    pub(super) failures: Failures,
    /// Annotations that cannot be read.
    pub(super) problems: Vec<Problem>,
}

/// Allocates the missing subnets of nodes in layer3 networks, and removes subnets of networks that
/// no longer exist. Nodes are in the order of the manifests.
///
/// A node has one subnet of each family. One that is another node's, or none of the network's, is
/// replaced, with a warning of the inventory.
///
/// `active`: nodes that get subnets of a network; the default network has all. `None`: all nodes. A
/// node on which a network has no users any more loses its subnet after the grace period.
pub(super) fn complete(
    inventory: &mut Inventory,
    settings: &ManagerSettings,
    active: Option<&NetworkActivity>,
    memory: &mut Memory,
    now: &Time,
) -> NodeSubnets {
    let mut result = NodeSubnets::default();
    let mut nodes = read_nodes(inventory, &mut result.problems);
    let annotated: Vec<BTreeMap<String, Vec<IpNet>>> =
        nodes.iter().map(|(_, node)| node.subnets.clone()).collect();
    let mut pools: Vec<Pool> = Vec::new();
    if let Some(subnets) = &settings.default_network {
        pools.push(Pool::new(DEFAULT_NETWORK, subnets, memory));
    }
    for network in layer3_networks(inventory) {
        pools.push(Pool::new(&network.name, &network.pod_subnets, memory));
    }
    let mut unused = BTreeMap::new();
    for pool in &mut pools {
        for (index, message) in pool.restore(&mut nodes, &memory.node_subnet_owners) {
            let key = &nodes[index].0;
            if let Some(object) = inventory.nodes.get(key) {
                inventory.warnings.push(problem(object, key, &message));
            }
        }
        for (index, (key, node)) in nodes.iter_mut().enumerate() {
            let is_active = pool.network == DEFAULT_NETWORK
                || active.is_none_or(|active| active.is_rendered(&pool.network, &key.name));
            if !is_active {
                unused.extend(pool.expire(node, settings, memory, now));
                continue;
            }
            if pool.allocate(node, &memory.node_subnet_owners).is_ok() {
                continue;
            }
            let network = &pool.network;
            let before = annotated[index].get(network).cloned();
            node.subnets
                .insert(network.clone(), before.unwrap_or_default());
            let failures = result.failures.entry(network.clone()).or_default();
            failures.push(key.name.clone());
        }
    }
    memory.unused_since = unused;
    memory.node_subnets = pools.iter().flat_map(Pool::positions).collect();
    memory.node_subnet_owners = pools.into_iter().flat_map(Pool::into_owners).collect();
    let wanted = wanted_networks(inventory, &memory.left);
    for ((key, mut node), before) in nodes.into_iter().zip(annotated) {
        node.subnets.retain(|network, subnets| {
            !subnets.is_empty() && (network == DEFAULT_NETWORK || wanted.contains(network))
        });
        if node.subnets != before
            && let Some(object) = inventory.nodes.get_mut(&key)
        {
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

pub(super) fn problem(node: &Sourced<core::Node>, key: &ObjectKey, message: &str) -> Problem {
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

/// Names of all networks that anybody wants, also of those that cannot be had at the moment. A CUDN
/// that selects no namespace wants none, and one that has left all its namespaces only what it
/// joins.
fn wanted_networks(inventory: &Inventory, left: &BTreeSet<String>) -> BTreeSet<String> {
    let nads = inventory.network_attachment_definitions.iter();
    let configured = nads
        .filter_map(|(_, nad)| NetConf::parse(nad.object.spec.config.as_deref()?).ok()?)
        .filter(|network| network.topology == Topology::Layer3)
        .map(|network| network.name);
    let udns = inventory.user_defined_networks.iter().map(|(key, _)| {
        names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name)
    });
    let cudns = inventory.cluster_user_defined_networks.iter();
    let cudns = cudns
        .filter(|(_, cudn)| !status::is_created(cudn.object.status.as_ref()))
        .map(|(key, _)| names::cudn_network(&key.name))
        .filter(|network| !left.contains(network));
    configured.chain(udns).chain(cudns).collect()
}

/// There is no subnet left.
struct NoSubnet;

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

    /// Position in each range at which the next search starts.
    fn positions(&self) -> impl Iterator<Item = ((String, IpNet), u64)> {
        let ranges = self.ranges.iter();
        ranges.map(|range| ((self.network.clone(), range.range()), range.position()))
    }

    /// Nodes of the subnets, by network and subnet.
    fn into_owners(self) -> impl Iterator<Item = ((String, IpNet), String)> {
        let network = self.network;
        let owners = self.owners.into_iter();
        owners.map(move |(subnet, node)| ((network.clone(), subnet), node))
    }

    /// Reserves the subnets that nodes have already, at most one of each family. Returns for each
    /// other one the place of its node and the reason why it is replaced.
    ///
    /// A subnet that several nodes have is that of the node that was known to have it, else that of
    /// the oldest one.
    fn restore(
        &mut self,
        nodes: &mut [(ObjectKey, Node)],
        known: &BTreeMap<(String, IpNet), String>,
    ) -> Vec<(usize, String)> {
        let mut claims: Vec<(bool, Option<Timestamp>, usize, IpNet)> = Vec::new();
        for (index, (key, node)) in nodes.iter_mut().enumerate() {
            let subnets = node.subnets.get_mut(&self.network);
            for subnet in subnets.into_iter().flat_map(std::mem::take) {
                let owner = known.get(&(self.network.clone(), subnet));
                let is_known = owner.is_some_and(|owner| *owner == key.name);
                claims.push((!is_known, node.created, index, subnet));
            }
        }
        // Nodes of the same age are in the order of their names.
        claims.sort_by(|one, other| {
            let name = |claim: &(bool, _, usize, _)| &nodes[claim.2].0;
            let order = (one.0, one.1).cmp(&(other.0, other.1));
            order.then_with(|| name(one).cmp(name(other)))
        });
        let network = self.network.clone();
        let mut replaced = Vec::new();
        for (_, _, index, subnet) in claims {
            let (key, node) = &mut nodes[index];
            let kept = node.subnets.entry(network.clone()).or_default();
            let family = IpFamily::of_net(subnet);
            let mut of_family = kept.iter().filter(|one| IpFamily::of_net(**one) == family);
            let other = of_family.next().copied();
            let mut ranges = self.ranges.iter_mut();
            let Some(range) = ranges.find(|range| range.contains(subnet)) else {
                let reason =
                    format!("{subnet} is no node subnet of network {network} and gets replaced");
                replaced.push((index, reason));
                continue;
            };
            let reason = if let Some(other) = other {
                format!("{subnet} of network {network} is one too many beside {other}")
            } else if range.reserve(subnet) {
                self.owners.insert(subnet, key.name.clone());
                kept.push(subnet);
                continue;
            } else {
                let owner = self.owners.get(&subnet).map_or("?", String::as_str);
                format!(
                    "{subnet} of network {network} is already that of node {owner} and gets replaced"
                )
            };
            replaced.push((index, reason));
        }
        replaced
    }

    /// Releases the subnets of a node on which the network has had no users for the grace period.
    /// Returns since when it has none otherwise.
    fn expire(
        &mut self,
        node: &mut Node,
        settings: &ManagerSettings,
        memory: &Memory,
        now: &Time,
    ) -> Option<((String, String), Timestamp)> {
        let subnets = node.subnets.get_mut(&self.network)?;
        if subnets.is_empty() {
            return None;
        }
        let key = (self.network.clone(), node.name.clone());
        let since = memory.unused_since.get(&key).copied().unwrap_or(now.0);
        if now.0.duration_since(since) < settings.cluster.udn_deletion_grace_period {
            return Some((key, since));
        }
        for subnet in subnets.drain(..) {
            self.owners.remove(&subnet);
            self.ranges.iter_mut().any(|range| range.release(subnet));
        }
        None
    }

    /// Takes one subnet of every family of the network that the node has none of yet, or none at
    /// all. A node that was known to have a subnet gets it back.
    fn allocate(
        &mut self,
        node: &mut Node,
        known: &BTreeMap<(String, IpNet), String>,
    ) -> Result<(), NoSubnet> {
        let subnets = node.subnets.entry(self.network.clone()).or_default();
        let mut taken = Vec::new();
        for family in IpFamily::BOTH {
            let of_family = |range: &&mut SubnetPool| range.family() == family;
            let mut ranges = self.ranges.iter_mut().filter(of_family).peekable();
            let has_one = subnets
                .iter()
                .any(|subnet| IpFamily::of_net(*subnet) == family);
            if has_one || ranges.peek().is_none() {
                continue;
            }
            let former = known_subnets(known, &self.network)
                .filter(|(subnet, owner)| {
                    IpFamily::of_net(*subnet) == family && **owner == node.name
                })
                .map(|(subnet, _)| subnet)
                .find(|subnet| self.ranges.iter_mut().any(|range| range.reserve(*subnet)));
            let mut ranges = self.ranges.iter_mut().filter(of_family);
            let Some(subnet) = former.or_else(|| ranges.find_map(SubnetPool::allocate)) else {
                for subnet in taken {
                    self.ranges.iter_mut().any(|range| range.release(subnet));
                }
                return Err(NoSubnet);
            };
            taken.push(subnet);
        }
        for subnet in &taken {
            self.owners.insert(*subnet, node.name.clone());
        }
        subnets.extend(taken);
        Ok(())
    }
}

/// Subnets of a network, with the names of their nodes.
fn known_subnets<'a>(
    known: &'a BTreeMap<(String, IpNet), String>,
    network: &'a str,
) -> impl Iterator<Item = (IpNet, &'a String)> {
    let first = (network.to_owned(), IpNet::V4(Ipv4Net::default()));
    let of_network = known
        .range(first..)
        .take_while(move |((name, _), _)| name == network);
    of_network.map(|((_, subnet), owner)| (*subnet, owner))
}
