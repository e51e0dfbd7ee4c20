//! Policies of manifests, and the rows that follow in the databases of zones.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod admin_policies;
mod applied;
mod firewall;
mod namespace_groups;
mod policy_rules;

use jiff::Timestamp;
use patchbay_model::ClusterSettings;
use patchbay_reconcile::Cluster;
use patchbay_resources::object::Time;

/// The cluster of manifests.
fn cluster_of(manifests: &str, settings: ClusterSettings) -> Cluster {
    let now = Time(Timestamp::from_second(0).unwrap());
    let stdin = ["-".into()];
    Cluster::from_manifests(&stdin, &mut manifests.as_bytes(), None, settings, now).unwrap()
}
