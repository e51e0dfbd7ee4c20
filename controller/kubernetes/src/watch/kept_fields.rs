//! Fields that are kept of watched objects.

use std::collections::BTreeMap;
use std::mem;

use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{Namespace, Node, ObjectMeta, Service};
use serde::Deserialize as _;

use crate::api::tolerant_object::UndecodableObject;

/// Keeps an object as it is.
pub(crate) fn keep_all<K>(_: &mut K) {}

/// Keeps the labels of a namespace.
pub(crate) fn keep_labels(namespace: &mut Namespace) {
    let meta = mem::take(&mut namespace.metadata);
    namespace.metadata =
        ObjectMeta { name: meta.name, labels: meta.labels, ..ObjectMeta::default() };
}

/// Removes the parts of a node that no controller reads.
pub(crate) fn without_node_details(node: &mut Node) {
    node.spec = None;
    node.status = None;
}

/// Keeps the cluster IPs, the ports and the labels of a service.
pub(crate) fn keep_cluster_ips(service: &mut Service) {
    let meta = mem::take(&mut service.metadata);
    service.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        labels: meta.labels,
        ..ObjectMeta::default()
    };
    service.status = None;
}

/// Keeps everything of a ClusterNetworkConnect but the annotations of others.
pub(crate) fn keep_connect(connect: &mut ClusterNetworkConnect) {
    connect.metadata = kept_meta(mem::take(&mut connect.metadata));
}

/// Keeps everything of a ClusterNetworkConnect but the status and the annotations of others.
pub(crate) fn keep_connect_spec(connect: &mut ClusterNetworkConnect) {
    keep_connect(connect);
    connect.status = None;
}

fn kept_meta(meta: ObjectMeta) -> ObjectMeta {
    let annotations = [ROUTER_TUNNEL_KEY, ConnectSubnetMap::ANNOTATION];
    ObjectMeta {
        name: meta.name,
        uid: meta.uid,
        creation_timestamp: meta.creation_timestamp,
        generation: meta.generation,
        resource_version: meta.resource_version,
        annotations: retain_annotations(meta.annotations, &annotations),
        ..ObjectMeta::default()
    }
}

/// Inserts a ClusterNetworkConnect that cannot be decoded, with its metadata, its status and the
/// last specification that could. Returns `true` if there is one.
///
/// The former conditions are kept, because their times must not change.
pub(crate) fn stand_in(inventory: &mut Inventory, object: &UndecodableObject) -> bool {
    let connects = &mut inventory.cluster_network_connects;
    let former = connects.get(&ObjectKey::of(&object.metadata));
    let former = former.filter(|former| former.object.metadata.uid == object.metadata.uid);
    let spec = former.map(|former| former.object.spec.clone());
    let has_former = spec.is_some();
    let mut connect = ClusterNetworkConnect::new("", spec.unwrap_or_default());
    connect.metadata = kept_meta(object.metadata.clone());
    connect.status = ClusterNetworkConnectStatus::deserialize(&object.status).ok();
    connects.insert(Sourced {
        position: created_second(&connect.metadata),
        object: connect,
        origin: Origin::Cluster,
    });
    has_former
}

/// Position of an object of an API server: its second of creation. Objects of the same second are in
/// the order of their keys.
pub(crate) fn created_second(meta: &ObjectMeta) -> u64 {
    let created = meta.creation_timestamp.as_ref();
    let second = created.map_or(0, |time| time.0.as_second());
    second.try_into().unwrap_or(0)
}

fn retain_annotations(
    annotations: Option<BTreeMap<String, String>>,
    keys: &[&str],
) -> Option<BTreeMap<String, String>> {
    let mut annotations = annotations?;
    annotations.retain(|key, _| keys.contains(&key.as_str()));
    (!annotations.is_empty()).then_some(annotations)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::tolerant_object::TolerantObject;

    #[test]
    fn a_connect_that_cannot_be_decoded_keeps_its_last_specification() {
        let object = |uid: &str, version: &str, selectors: serde_json::Value| {
            json!({
                "metadata": {
                    "name": "c", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
                    "resourceVersion": version,
                    "annotations": {ROUTER_TUNNEL_KEY: "16715779", "other": "x"},
                },
                "spec": {
                    "networkSelectors": selectors, "connectSubnets": [],
                    "connectivity": ["PodNetwork"],
                },
            })
        };
        let wrong = |uid: &str| {
            let object = object(uid, "2", json!("all"));
            TolerantObject::<ClusterNetworkConnect>::of(object).0.unwrap_err()
        };
        let mut inventory = Inventory::default();
        let key = ObjectKey::cluster("c");
        assert!(!stand_in(&mut inventory, &wrong("u")));
        let found = inventory.cluster_network_connects.get(&key).unwrap();
        assert!(found.object.spec.connectivity.is_empty() && found.position > 0);
        assert_eq!(found.object.metadata.annotations.as_ref().unwrap().len(), 1);

        let mut good: ClusterNetworkConnect =
            serde_json::from_value(object("u", "1", json!([]))).unwrap();
        keep_connect(&mut good);
        inventory.cluster_network_connects.insert(Sourced {
            object: good,
            origin: Origin::Cluster,
            position: 0,
        });
        assert!(stand_in(&mut inventory, &wrong("u")));
        let found = inventory.cluster_network_connects.get(&key).unwrap();
        assert_eq!(found.object.spec.connectivity.len(), 1);
        let version = found.object.metadata.resource_version.as_deref();
        assert_eq!(version, Some("2"));
        // A later object of the name.
        assert!(!stand_in(&mut inventory, &wrong("v")));
    }
}
