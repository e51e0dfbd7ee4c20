//! Allocators of one network between two passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cursor::Cursor;

/// Positions of the allocators of one network, and pods that get no addresses at the moment.
#[derive(Clone, Debug, Default)]
pub(in crate::networks) struct PodMemory {
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
