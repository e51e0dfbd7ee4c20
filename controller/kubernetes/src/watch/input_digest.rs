//! Digest of the nodes and networks from which the rows of a ClusterNetworkConnect follow.
//!
//! A zone's report contains the digest of what the zone has seen, and the leader compares it with
//! the digest of what it sees itself. Services, pods and egress IPs are not part of it, because the
//! leader does not watch them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use patchbay_model::{Network, Networks, NodeError, OwnerKey, Topology};
use patchbay_resources::conversion;
use patchbay_resources::manifests::Objects;
use patchbay_resources::object::Node;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of a SHA-256.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct InputDigest(String);

/// Sum of digests modulo 2^128, from which a summand can be removed again. So the cost of an update
/// follows the number of changed nodes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct DigestSum(u128);

impl DigestSum {
    fn add(&mut self, summand: u128) {
        self.0 = self.0.wrapping_add(summand);
    }

    fn remove(&mut self, summand: u128) {
        self.0 = self.0.wrapping_sub(summand);
    }
}

/// Digests of all nodes that OVN manages, and of their subnets in the connected networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDigests {
    nodes: Objects<Node>,
    /// Names, ids and chassis of the nodes.
    identities: DigestSum,
    /// Subnets of the nodes, by connected network.
    subnets: BTreeMap<String, DigestSum>,
    /// Names of the connected networks.
    connected: BTreeSet<String>,
    /// Annotations that cannot be read, by node.
    unreadable: BTreeMap<String, Vec<UnreadableAnnotation>>,
}

/// An annotation of a node, or an entry of one, that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct UnreadableAnnotation {
    /// Key of the annotation.
    pub(crate) annotation: &'static str,
    /// The network of the entry. `None`: the whole annotation cannot be read.
    pub(crate) network: Option<String>,
    /// Message with the error and the object.
    pub(crate) message: String,
}

impl UnreadableAnnotation {
    fn new(error: &NodeError) -> Self {
        Self {
            annotation: error.annotation,
            network: error.network().map(str::to_owned),
            message: error.to_string(),
        }
    }
}

impl NodeDigests {
    /// Annotations that cannot be read, by node.
    pub(crate) fn unreadable(&self) -> &BTreeMap<String, Vec<UnreadableAnnotation>> {
        &self.unreadable
    }

    /// Replaces the set of connected networks. With new ones, the nodes are read again.
    pub(crate) fn set_connected(&mut self, connected: &BTreeSet<String>) {
        if connected.is_subset(&self.connected) {
            self.subnets.retain(|name, _| connected.contains(name));
            self.connected.clone_from(connected);
        } else {
            *self = Self { connected: connected.clone(), ..Self::default() };
        }
    }

    /// Replaces the nodes.
    pub(crate) fn update(&mut self, nodes: &Objects<Node>) {
        let former = std::mem::replace(&mut self.nodes, nodes.clone());
        for change in nodes.changes_since(&former) {
            self.unreadable.remove(&change.key.name);
            for (node, apply, is_current) in [
                (change.former, DigestSum::remove as fn(&mut DigestSum, u128), false),
                (change.current, DigestSum::add, true),
            ] {
                let Some(node) = node else {
                    continue;
                };
                let (node, errors) = conversion::node(&node.object);
                if is_current && !errors.is_empty() {
                    let unreadable = errors.iter().map(UnreadableAnnotation::new).collect();
                    self.unreadable.insert(node.name.clone(), unreadable);
                }
                if node.is_unmanaged {
                    continue;
                }
                apply(&mut self.identities, identity_digest(&node, &errors));
                for network in &self.connected {
                    for subnet in node.subnets_of(network) {
                        let sum = self.subnets.entry(network.clone()).or_default();
                        apply(sum, subnet_digest(&node.name, *subnet));
                    }
                }
            }
        }
    }

    /// Digest of the nodes and of the networks with these owner keys.
    pub(crate) fn digest_of(
        &self,
        owners: impl IntoIterator<Item = OwnerKey>,
        networks: &Networks,
    ) -> InputDigest {
        let mut digest = Sha256::new();
        let mut has_nodes = false;
        for owner in owners {
            digest.update(owner.to_string());
            let Some(network) = networks.by_id(owner.network_id) else {
                digest.update([0]);
                continue;
            };
            digest.update([1]);
            digest.update(network_digest(network));
            // All nodes share the link of a layer2 network.
            if network.topology == Topology::Layer3 {
                has_nodes = true;
                let sum = self.subnets.get(&network.name);
                digest.update(sum.copied().unwrap_or_default().0.to_be_bytes());
            }
        }
        if has_nodes {
            digest.update(self.identities.0.to_be_bytes());
        }
        let first = first_bytes::<8>(digest);
        InputDigest(format!("{:016x}", u64::from_be_bytes(first)))
    }
}

/// Digest of the fields from which rows are derived.
fn network_digest(network: &Network) -> [u8; 16] {
    let mut digest = Sha256::new();
    digest.update(network.config().to_string());
    first_bytes(digest)
}

fn identity_digest(node: &patchbay_model::Node, errors: &[NodeError]) -> u128 {
    let unreadable: Vec<_> =
        errors.iter().map(|error| (error.annotation, error.network().map(str::to_owned))).collect();
    let id = node.id.map(patchbay_model::NodeId::get);
    let mut digest = Sha256::new();
    digest.update(format!(
        "{:?} {:?} {id:?} {:?} {unreadable:?}",
        node.name,
        node.created.map(jiff::Timestamp::as_second),
        node.chassis_id,
    ));
    u128::from_be_bytes(first_bytes(digest))
}

fn subnet_digest(node: &str, subnet: IpNet) -> u128 {
    let mut digest = Sha256::new();
    digest.update(node);
    digest.update([0]);
    digest.update(subnet.to_string());
    u128::from_be_bytes(first_bytes(digest))
}

fn first_bytes<const N: usize>(digest: Sha256) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&digest.finalize()[..N]);
    first
}

#[cfg(test)]
mod tests;
