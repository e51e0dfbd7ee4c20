//! Manifests of files, and the rows that follow in the databases of zones.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod bad_input;
mod chassis;
mod claims;
mod dynamic_allocation;
mod equal_keys;
mod ignored_objects;
mod lifetimes;
mod new_capability;
mod new_ports;
mod node_addresses;
mod refused_objects;
mod rejected_rows;
mod services;
mod tenant_faults;

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
