//! The subnets of layer3 networks that each node gets.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use patchbay_model::{
    IpFamily, NODE_SUBNETS, NetConf, NetworkActivity, Networks, Node, PodSubnet, SubnetPool,
    Topology, names,
};
use patchbay_resources::conversion::{self, nad_key};
use patchbay_resources::manifests::{Inventory, ObjectKey, Objects, Problem, Sourced};
use patchbay_resources::object::{self as core, Time};
use smallvec::SmallVec;

use super::activity;
use super::annotations::write_annotations;
use super::conditions::is_created;
use super::numbered_networks::NumberedNetworks;
use super::settings::ManagerSettings;

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

/// Subnets of nodes at the end of the last pass.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSubnetMemory {
    /// Positions in the ranges of layer3 networks.
    positions: BTreeMap<(String, IpNet), u64>,
    /// Nodes of the subnets of layer3 networks, by network.
    owners: BTreeMap<String, SubnetOwners>,
    /// Since when networks have no users on nodes that have their subnets, with dynamic allocation.
    unused_since: BTreeMap<(String, String), Timestamp>,
}

impl NodeSubnetMemory {
    /// Forgets a network that is gone.
    pub(super) fn forget(&mut self, network: &str) {
        self.positions.retain(|(of, _), _| of != network);
    }

    /// Time at which the first subnet without users goes. `None`: none does.
    pub(super) fn next_expiry(&self, grace_period: SignedDuration) -> Option<Timestamp> {
        let since = self.unused_since.values().min()?;
        since.checked_add(grace_period).ok()
    }
}

/// Subnets of nodes in layer3 networks.
#[derive(Debug, Default)]
pub(super) struct NodeSubnets {
    /// Subnets of the nodes whose annotations are to be written, by network.
    changed: Vec<(ObjectKey, BTreeMap<String, Vec<IpNet>>)>,
    pub(super) failures: Failures,
    /// Annotations that cannot be read.
    pub(super) problems: Vec<Problem>,
    /// Subnets that are replaced.
    pub(super) warnings: Vec<Problem>,
}

impl NodeSubnets {
    /// Writes the annotations of the nodes.
    pub(super) fn write(&self, nodes: &mut Objects<core::Node>) {
        for (key, subnets) in &self.changed {
            let json = || serde_json::json!(subnets).to_string();
            let value = (!subnets.is_empty()).then(json);
            write_annotations(nodes, key, [(NODE_SUBNETS, value)]);
        }
    }
}

/// Assigns the missing subnets of nodes in layer3 networks, and removes subnets of networks that
/// no longer exist. Nodes are in the order of the manifests.
///
/// A node has one subnet of each family. One that is another node's, or none of the network's, is
/// replaced, with a warning.
///
/// `active`: nodes that get subnets of a network; the default network has all. `None`: all nodes. A
/// node on which a network has no users any more loses its subnet after the grace period, if all
/// users are known. Subnets of networks whose definitions are refused stay as they are.
pub(super) fn assign_node_subnets(
    inventory: &Inventory,
    numbered: &NumberedNetworks,
    settings: &ManagerSettings,
    active: Option<&NetworkActivity>,
    memory: &mut NodeSubnetMemory,
    now: &Time,
) -> NodeSubnets {
    let mut assigned = NodeSubnets::default();
    let nodes = read_nodes(inventory, &mut assigned.problems);
    let mut pools: Vec<Pool> = Vec::new();
    if let Some(subnets) = &settings.default_network {
        pools.push(Pool::new(DEFAULT_NETWORK, subnets, memory, nodes.len()));
    }
    let layer3 = numbered.networks.iter().filter(|network| {
        network.topology == Topology::Layer3 && !numbered.refused.contains(&network.name)
    });
    pools.extend(
        layer3.map(|network| Pool::new(&network.name, &network.pod_subnets, memory, nodes.len())),
    );
    let known = std::mem::take(&mut memory.owners);
    let is_activity_known = activity::is_known(inventory, &settings.cluster);
    let mut unused = BTreeMap::new();
    for pool in &mut pools {
        let known = known.get(&pool.network);
        for (index, message) in pool.restore(&nodes, known) {
            let object = inventory.nodes.get(&nodes[index].0);
            assigned.warnings.extend(object.map(|object| subnet_problem(object, message)));
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
            let failures = assigned.failures.entry(pool.network.clone()).or_default();
            failures.push(key.name.clone());
        }
    }
    assigned.changed = changed_subnets(&nodes, &pools, inventory, numbered);
    memory.unused_since = unused;
    memory.positions = pools.iter().flat_map(Pool::positions).collect();
    let owners = pools.into_iter().map(|pool| (pool.network, pool.owners));
    memory.owners = owners.collect();
    assigned
}

/// Subnets by network of the nodes whose annotations have others. Networks without a pool that are
/// wanted cannot be had at the moment, so their subnets stay.
fn changed_subnets(
    nodes: &[(ObjectKey, Node)],
    pools: &[Pool],
    inventory: &Inventory,
    numbered: &NumberedNetworks,
) -> Vec<(ObjectKey, BTreeMap<String, Vec<IpNet>>)> {
    let wanted = wanted_networks(inventory, &numbered.networks, &numbered.left);
    let is_kept = |network: &str| {
        network == DEFAULT_NETWORK || wanted.contains(network) || numbered.refused.contains(network)
    };
    let kept: Vec<&Pool> = pools.iter().filter(|pool| is_kept(&pool.network)).collect();
    let pooled: BTreeSet<&str> = pools.iter().map(|pool| pool.network.as_str()).collect();
    let mut changed = Vec::new();
    for (index, (key, node)) in nodes.iter().enumerate() {
        let held = kept.iter().map(|pool| (pool.network.as_str(), pool.held[index].as_slice()));
        let others = node
            .subnets
            .iter()
            .map(|(network, subnets)| (network.as_str(), subnets.as_slice()))
            .filter(|(network, _)| !pooled.contains(network) && is_kept(network));
        let mut subnets: BTreeMap<&str, &[IpNet]> = held.chain(others).collect();
        subnets.retain(|_, subnets| !subnets.is_empty());
        let known =
            node.subnets.iter().map(|(network, subnets)| (network.as_str(), subnets.as_slice()));
        if !known.eq(subnets.iter().map(|(network, subnets)| (*network, *subnets))) {
            let owned = subnets
                .into_iter()
                .map(|(network, subnets)| (network.to_owned(), subnets.to_vec()));
            changed.push((key.clone(), owned.collect()));
        }
    }
    changed
}

/// Nodes whose subnets can be read.
fn read_nodes(inventory: &Inventory, problems: &mut Vec<Problem>) -> Vec<(ObjectKey, Node)> {
    let mut nodes = Vec::new();
    for (key, object) in inventory.nodes.in_order() {
        let (node, errors) = conversion::node(&object.object);
        // Node ids have been looked at before.
        let errors = errors.into_iter().filter(|error| error.annotation == NODE_SUBNETS);
        let before = problems.len();
        problems.extend(errors.map(|error| subnet_problem(object, error.reason.to_string())));
        if problems.len() == before {
            nodes.push((key.clone(), node));
        }
    }
    nodes
}

/// Problem of the subnets of a node.
pub(super) fn subnet_problem(node: &Sourced<core::Node>, message: String) -> Problem {
    node.problem(message).in_annotation(NODE_SUBNETS)
}

/// Names of all networks that anybody wants, also of those that cannot be had at the moment. A CUDN
/// that selects no namespace wants none, and one that has left all its namespaces only what it
/// joins.
fn wanted_networks(
    inventory: &Inventory,
    networks: &Networks,
    left: &BTreeSet<String>,
) -> BTreeSet<String> {
    let layer3 = networks
        .iter()
        .filter(|network| network.topology == Topology::Layer3)
        .map(|network| network.name.clone());
    let nads = inventory.network_attachment_definitions.iter();
    let unusable = nads
        .filter(|(_, nad)| networks.by_nad(&nad_key(&nad.object)).is_none())
        .filter_map(|(_, nad)| NetConf::parse(nad.object.spec.config.as_deref()?).ok()?)
        .filter(|network| network.topology == Topology::Layer3)
        .map(|network| network.name);
    let udns = inventory.user_defined_networks.iter().map(|(key, _)| {
        names::udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name)
    });
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .filter(|(_, cudn)| !is_created(cudn.object.status.as_ref()))
        .map(|(key, _)| names::cudn_network(&key.name))
        .filter(|network| !left.contains(network));
    layer3.chain(unusable).chain(udns).chain(cudns).collect()
}

/// There is no subnet left.
struct NoSubnet;

/// Names of the nodes that have the subnets of one network.
type SubnetOwners = BTreeMap<IpNet, Arc<str>>;

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
    fn new(network: &str, subnets: &[PodSubnet], memory: &NodeSubnetMemory, nodes: usize) -> Self {
        let ranges = subnets.iter().filter_map(|subnet| {
            let mut range = SubnetPool::new(subnet.cidr, subnet.host_prefix?);
            let key = (network.to_owned(), subnet.cidr);
            range.set_position(memory.positions.get(&key).copied().unwrap_or_default());
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
                self.owners.insert(subnet, nodes[index].0.name.as_str().into());
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
        memory: &NodeSubnetMemory,
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
            let has_one = subnets.iter().any(|subnet| IpFamily::of_net(*subnet) == family);
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
