//! Digest of the nodes and networks from which the rows of a ClusterNetworkConnect follow.
//!
//! A zone's report contains the digest of what the zone has seen, and the leader compares it with
//! the digest of what it sees itself. Services, pods and egress IPs are not part of it, because the
//! leader does not watch them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use ipnet::IpNet;
use patchbay_model::{Network, Networks, OwnerKey, Topology};
use patchbay_resources::manifests::ObjectKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::node_subnets::NetworkNumbers;
use super::projections::WatchedNode;

/// The first 16 hexadecimal digits of a SHA-256.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct InputDigest(String);

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
#[derive(Debug, Default)]
pub(super) struct NodeDigests {
    nodes: OrdMap<ObjectKey, Arc<WatchedNode>>,
    /// Names, ids and chassis of the nodes.
    identities: DigestSum,
    /// Subnets of the nodes, by the number of the connected network.
    subnets: BTreeMap<u32, DigestSum>,
    /// Names of the connected networks.
    connected: BTreeSet<String>,
    numbers: NetworkNumbers,
}

impl NodeDigests {
    pub(super) fn new(numbers: NetworkNumbers) -> Self {
        Self {
            numbers,
            ..Self::default()
        }
    }

    /// Replaces the set of connected networks.
    pub(super) fn set_connected(&mut self, connected: BTreeSet<String>) {
        if connected.is_subset(&self.connected) {
            let kept = self.numbers.numbers_of(&connected);
            self.subnets.retain(|number, _| kept.contains_key(number));
            self.connected = connected;
            return;
        }
        let nodes = std::mem::take(&mut self.nodes);
        *self = Self {
            connected,
            ..Self::new(self.numbers.clone())
        };
        self.update(&nodes);
    }

    /// Replaces the nodes. Returns `true` if a digest has changed.
    pub(super) fn update(&mut self, nodes: &OrdMap<ObjectKey, Arc<WatchedNode>>) -> bool {
        let connected = self.numbers.numbers_of(&self.connected);
        let connected: BTreeSet<u32> = connected.into_keys().collect();
        let before = (self.identities, self.subnets.clone());
        let former = std::mem::replace(&mut self.nodes, nodes.clone());
        for change in former.diff(nodes) {
            let (old, new) = match change {
                DiffItem::Add(_, new) => (None, Some(new)),
                DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
                DiffItem::Remove(_, old) => (Some(old), None),
            };
            for (node, apply) in [
                (old, DigestSum::remove as fn(&mut DigestSum, u128)),
                (new, DigestSum::add),
            ] {
                if let Some(node) = node.filter(|node| !node.node.is_unmanaged) {
                    apply(&mut self.identities, identity_digest(node));
                    for (number, digest) in subnet_digests(node, &connected) {
                        apply(self.subnets.entry(number).or_default(), digest);
                    }
                }
            }
        }
        before != (self.identities, self.subnets.clone())
    }

    /// Digest of the nodes and of the networks with these owner keys.
    pub(super) fn digest_of(&self, owners: &[OwnerKey], networks: &Networks) -> InputDigest {
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
                let number = self.numbers.numbers_of([&network.name]).into_keys().next();
                let sum = number.and_then(|number| self.subnets.get(&number));
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

fn identity_digest(node: &WatchedNode) -> u128 {
    let unreadable = node
        .errors
        .iter()
        .map(|error| (error.annotation, &error.network));
    let unreadable: Vec<_> = unreadable.collect();
    let node = &node.node;
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

/// Digests of the node's subnets in the connected networks, by the network's number.
fn subnet_digests<'a>(
    node: &'a WatchedNode,
    connected: &'a BTreeSet<u32>,
) -> impl Iterator<Item = (u32, u128)> + 'a {
    let entries = node.subnets.entries();
    let entries = entries.filter(|(number, _)| connected.contains(number));
    entries.map(|(number, subnet): (u32, IpNet)| {
        let mut digest = Sha256::new();
        digest.update(&node.node.name);
        digest.update([0]);
        digest.update(subnet.to_string());
        (number, u128::from_be_bytes(first_bytes(digest)))
    })
}

fn first_bytes<const N: usize>(digest: Sha256) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&digest.finalize()[..N]);
    first
}

#[cfg(test)]
mod tests;
