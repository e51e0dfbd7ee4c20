//! Objects of the documentation's example.

use std::path::PathBuf;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use patchbay_allocate::networks::resolve;
use patchbay_model::ClusterSettings;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;

use super::{CONNECT, LABEL};
use crate::stored::{ClusterNetworkConnect, converted};

/// The example's ClusterNetworkConnect.
pub(crate) fn connect() -> ClusterNetworkConnect {
    let mut stdin: &[u8] = &[];
    let inventory = read_manifests(&[example_file("3-connect.yaml")], &mut stdin).unwrap();
    converted(inventory.cluster_network_connects.named(CONNECT).unwrap())
}

pub(super) fn example() -> Inventory {
    let files = ["1-cluster.yaml", "2-networks.yaml"].map(example_file);
    let mut stdin: &[u8] = &[];
    let mut inventory = read_manifests(&files, &mut stdin).unwrap();
    let now = Time(Timestamp::UNIX_EPOCH);
    resolve(&mut inventory, &ClusterSettings::default(), &now).unwrap();
    inventory
}

fn example_file(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("../../examples/blue-green").join(name)
}

/// The object as a test creates it.
pub(super) fn labelled<K: Resource + Clone>(object: &K) -> K {
    let mut object = object.clone();
    object.labels_mut().insert(LABEL.to_owned(), String::new());
    let meta = object.meta_mut();
    meta.uid = None;
    meta.resource_version = None;
    // The controllers that would remove finalizers do not run.
    meta.finalizers = None;
    object
}
