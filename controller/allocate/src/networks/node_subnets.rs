//! The subnets of layer3 networks that each node gets.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use patchbay_model::{
    IpFamily, NODE_SUBNETS, NetConf, Network, NetworkActivity, Node, PodSubnet, SubnetPool,
    Topology, names,
};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced};
use patchbay_resources::object::{self as core, Time};
use smallvec::SmallVec;

use super::annotations::{annotate, annotation_field};
use super::manager::ManagerSettings;
use super::memory::Memory;
use super::{activity, status};

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
/// node on which a network has no users any more loses its subnet after the grace period, if all
/// users are known. Subnets of networks whose definitions are refused stay as they are.
pub(super) fn complete(
    inventory: &mut Inventory,
    settings: &ManagerSettings,
    active: Option<&NetworkActivity>,
    memory: &mut Memory,
    now: &Time,
) -> NodeSubnets {
    let mut result = NodeSubnets::default();
    let nodes = read_nodes(inventory, &mut result.problems);
    let mut pools: Vec<Pool> = Vec::new();
    if let Some(subnets) = &settings.default_network {
        pools.push(Pool::new(DEFAULT_NETWORK, subnets, memory, nodes.len()));
    }
    for network in layer3_networks(inventory, &memory.refused) {
        let subnets = &network.pod_subnets;
        pools.push(Pool::new(&network.name, subnets, memory, nodes.len()));
    }
    let known = std::mem::take(&mut memory.node_subnet_owners);
    let is_activity_known = activity::is_known(inventory, &settings.cluster);
    let mut unused = BTreeMap::new();
    for pool in &mut pools {
        let known = known.get(&pool.network);
        for (index, message) in pool.restore(&nodes, known) {
            let key = &nodes[index].0;
            if let Some(object) = inventory.nodes.get(key) {
                inventory.warnings.push(problem(object, key, &message));
            }
        }
        for (index, (key, node)) in nodes.iter().enumerate() {
            let is_active = pool.network == DEFAULT_NETWORK
                || active.is_none_or(|active| active.is_rendered(&pool.network, &key.name));
            if !is_active {
                if !is_activity_known {
                    continue;
                }
                unused.extend(pool.expire(index, &key.name, settings, memory, now));
                continue;
            }
            if pool.allocate(index, &key.name, known).is_ok() {
                continue;
            }
            pool.held[index] = node.subnets_of(&pool.network).into();
            let failures = result.failures.entry(pool.network.clone()).or_default();
            failures.push(key.name.clone());
        }
    }
    let wanted = wanted_networks(inventory, &memory.left);
    let is_kept = |network: &str| {
        network == DEFAULT_NETWORK || wanted.contains(network) || memory.refused.contains(network)
    };
    let pooled: BTreeSet<&str> = pools.iter().map(|pool| pool.network.as_str()).collect();
    for (index, (key, node)) in nodes.iter().enumerate() {
        let held = pools
            .iter()
            .map(|pool| (pool.network.as_str(), pool.held[index].as_slice()))
            .filter(|(network, _)| is_kept(network));
        let others = node
            .subnets
            .iter()
            .map(|(network, subnets)| (network.as_str(), subnets.as_slice()))
            .filter(|(network, _)| is_kept(network) && !pooled.contains(network));
        if let Some(subnets) = changed_subnets(node, held, others)
            && let Some(object) = inventory.nodes.get_mut(key)
        {
            write(&mut object.object, &subnets);
        }
    }
    memory.unused_since = unused;
    memory.node_subnets = pools.iter().flat_map(Pool::positions).collect();
    let owners = pools.into_iter().map(|pool| (pool.network, pool.owners));
    memory.node_subnet_owners = owners.collect();
    result
}

/// Subnets of a node by network, if they are not those of its annotation.
///
/// `others`: subnets of networks without a pool, which are wanted but cannot be had at the moment.
fn changed_subnets<'a>(
    node: &'a Node,
    held: impl Iterator<Item = (&'a str, &'a [IpNet])>,
    others: impl Iterator<Item = (&'a str, &'a [IpNet])>,
) -> Option<BTreeMap<String, Vec<IpNet>>> {
    let mut subnets: BTreeMap<&str, &[IpNet]> = held.chain(others).collect();
    subnets.retain(|_, subnets| !subnets.is_empty());
    let is_same = subnets.len() == node.subnets.len()
        && subnets
            .iter()
            .all(|(network, subnets)| node.subnets_of(network) == *subnets);
    (!is_same).then(|| {
        let subnets = subnets.into_iter();
        let owned = subnets.map(|(network, subnets)| (network.to_owned(), subnets.to_vec()));
        owned.collect()
    })
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

/// The layer3 networks, without those whose definitions are refused.
fn layer3_networks(inventory: &Inventory, refused: &BTreeSet<String>) -> Vec<Network> {
    let networks = super::networks_of(inventory);
    let layer3 = networks
        .iter()
        .filter(|network| network.topology == Topology::Layer3 && !refused.contains(&network.name));
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

/// Names of the nodes that have the subnets of one network.
pub(super) type SubnetOwners = BTreeMap<IpNet, Arc<str>>;

/// Subnets of one node in one network, mostly one of each family.
type HeldSubnets = SmallVec<[IpNet; 2]>;

/// The ranges of a network, and the subnets of nodes in them.
struct Pool {
    network: String,
    ranges: Vec<SubnetPool>,
    owners: SubnetOwners,
    /// Subnets of each node, by its place in the list of nodes.
    held: Vec<HeldSubnets>,
}

impl Pool {
    fn new(network: &str, subnets: &[PodSubnet], memory: &Memory, nodes: usize) -> Self {
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
            held: vec![HeldSubnets::new(); nodes],
        }
    }

    /// Position in each range at which the next search starts.
    fn positions(&self) -> impl Iterator<Item = ((String, IpNet), u64)> {
        let ranges = self.ranges.iter();
        ranges.map(|range| ((self.network.clone(), range.range()), range.position()))
    }

    /// Reserves the subnets that nodes have already, at most one of each family. Returns for each
    /// other one the place of its node and the reason why it is replaced.
    ///
    /// A subnet that several nodes have is that of the node that was known to have it, else that of
    /// the oldest one.
    fn restore(
        &mut self,
        nodes: &[(ObjectKey, Node)],
        known: Option<&SubnetOwners>,
    ) -> Vec<(usize, String)> {
        let mut claims: Vec<(bool, Option<Timestamp>, usize, IpNet)> = Vec::new();
        for (index, (key, node)) in nodes.iter().enumerate() {
            for subnet in node.subnets_of(&self.network) {
                let owner = known.and_then(|known| known.get(subnet));
                let is_known = owner.is_some_and(|owner| **owner == *key.name);
                claims.push((!is_known, node.created, index, *subnet));
            }
        }
        // Nodes of the same age are in the order of their names.
        claims.sort_by(|one, other| {
            let name = |claim: &(bool, _, usize, _)| &nodes[claim.2].0;
            let order = (one.0, one.1).cmp(&(other.0, other.1));
            order.then_with(|| name(one).cmp(name(other)))
        });
        let network = &self.network;
        let mut replaced = Vec::new();
        for (_, _, index, subnet) in claims {
            let kept = &mut self.held[index];
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
                self.owners
                    .insert(subnet, nodes[index].0.name.as_str().into());
                kept.push(subnet);
                continue;
            } else {
                let owner = self.owners.get(&subnet).map_or("?", |owner| owner);
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
        index: usize,
        node: &str,
        settings: &ManagerSettings,
        memory: &Memory,
        now: &Time,
    ) -> Option<((String, String), Timestamp)> {
        let subnets = &mut self.held[index];
        if subnets.is_empty() {
            return None;
        }
        let key = (self.network.clone(), node.to_owned());
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
        index: usize,
        node: &str,
        known: Option<&SubnetOwners>,
    ) -> Result<(), NoSubnet> {
        let subnets = &mut self.held[index];
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
            let former = known
                .into_iter()
                .flatten()
                .filter(|(subnet, owner)| IpFamily::of_net(**subnet) == family && ***owner == *node)
                .map(|(subnet, _)| *subnet)
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
            self.owners.insert(*subnet, node.into());
        }
        subnets.extend(taken);
        Ok(())
    }
}
