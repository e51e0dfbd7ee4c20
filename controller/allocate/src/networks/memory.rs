//! Positions of allocators, which make a released number free for as long as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;

use patchbay_model::{DatapathKey, NetworkId, NodeId};
use patchbay_resources::manifests::ObjectKey;

use super::evpn::FabricIds;
use super::node_subnets::SubnetOwners;
use crate::cursor::Cursor;
use crate::router_key_cursor::RouterKeyCursor;

/// Positions of allocators since the start of the cluster manager. What is allocated is in the
/// objects; after a restart, the lowest free numbers are next.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub(super) network_ids: Cursor,
    /// Since when networks have no users on nodes that have their subnets, with dynamic allocation.
    pub(super) unused_since: BTreeMap<(String, String), Timestamp>,
    /// Ids and keys of networks at the end of the last pass.
    pub(super) networks: BTreeMap<String, NetworkNumbers>,
    /// Networks that have left all their namespaces in this pass.
    pub(super) left: BTreeSet<String>,
    /// Networks whose definitions are refused in this pass.
    pub(super) refused: BTreeSet<String>,
    /// Definitions of primary networks at the end of the last pass, by namespace.
    pub(super) primary: BTreeMap<String, ObjectKey>,
    pub(super) router_keys: RouterKeyCursor,
    pub(super) node_ids: Cursor,
    /// Ids of nodes at the end of the last pass, by name.
    pub(super) node_numbers: BTreeMap<String, NodeId>,
    /// Positions in the ranges of layer3 networks.
    pub(super) node_subnets: BTreeMap<(String, IpNet), u64>,
    /// Nodes of the subnets of layer3 networks at the end of the last pass, by network.
    pub(super) node_subnet_owners: BTreeMap<String, SubnetOwners>,
    /// VLAN ids and VNIs of networks on a fabric.
    pub(super) fabric_ids: FabricIds,
    /// Allocators of networks whose addresses are given for the whole cluster.
    pub(super) pods: BTreeMap<String, PodMemory>,
}

impl Memory {
    /// Forgets a network that is gone.
    pub(super) fn forget(&mut self, network: &str) {
        self.networks.remove(network);
        self.pods.remove(network);
        self.node_subnets.retain(|(of, _), _| of != network);
    }
}

/// Numbers of one network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NetworkNumbers {
    pub(super) id: NetworkId,
    /// Tunnel keys; empty for networks whose keys follow from their ids.
    pub(super) keys: Vec<DatapathKey>,
}

/// Positions of the allocators of one network, and pods that get no addresses at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct PodMemory {
    pub(super) tunnel_ids: Cursor,
    /// Tunnel ids at the end of the last pass, by attachment and pod.
    pub(super) tunnel_owners: BTreeMap<String, u16>,
    /// Tunnel ids of the network's own ports that pods had when the allocators started. They are free
    /// for others after these pods.
    pub(super) early_tunnel_ids: BTreeSet<u16>,
    /// Distance from the start of each subnet.
    pub(super) positions: BTreeMap<IpNet, u64>,
    /// Addresses that were taken at the end of the last pass.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// MAC addresses that were taken at the end of the last pass.
    pub(super) macs: BTreeSet<String>,
    /// Attempts by pod and attachment. Nothing has become free since.
    pub(super) failed: BTreeMap<String, FailedAttempt>,
}

/// Attempt to give a pod addresses that has failed.
#[derive(Clone, Debug)]
pub(super) struct FailedAttempt {
    /// What was asked for.
    pub(super) fingerprint: String,
    /// The warning about the pod.
    pub(super) message: String,
}
