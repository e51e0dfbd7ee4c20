//! Compact storage of pods, of which a zone without networks needs the node and requested networks.
//!
//! An object takes about a kilobyte, and a cluster has 150,000 of them. The inventory has those that
//! may use a connected network.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use patchbay_model::NETWORK_SELECTIONS;
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{ObjectMeta, Pod, PodSpec};

use crate::watch::watched::{AnyObject, ConnectedParts, WatchedObject};
use crate::write::write_outcome::Written;

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq)]
struct PackedPod {
    /// Node; empty: the pod is not scheduled, on the host network, or finished.
    node: Arc<str>,
    /// Annotation with the networks that the pod requests.
    selections: Option<Box<str>>,
}

/// Packs pods. Those of a node share its name.
pub(crate) fn pods_packer() -> impl Fn(Sourced<Pod>) -> WatchedObject {
    let names = RefCell::new(HashSet::<Arc<str>>::new());
    move |sourced| {
        let pod = sourced.object;
        let phase = pod.status.and_then(|status| status.phase);
        let is_over = phase.is_some_and(|phase| matches!(&*phase, "Succeeded" | "Failed"));
        let node = pod
            .spec
            .filter(|spec| spec.host_network != Some(true) && !is_over)
            .and_then(|spec| spec.node_name)
            .unwrap_or_default();
        let mut annotations = pod.metadata.annotations.unwrap_or_default();
        let mut names = names.borrow_mut();
        let name = names.get(&*node).cloned();
        let node = name.unwrap_or_else(|| node.into());
        names.insert(node.clone());
        WatchedObject::packed(PackedPod {
            node,
            selections: annotations.remove(NETWORK_SELECTIONS).map(String::into_boxed_str),
        })
    }
}

impl PackedPod {
    fn unpack(&self, key: &ObjectKey) -> Sourced<Pod> {
        let mut spec = PodSpec::default();
        spec.node_name = Some(self.node.to_string());
        let selections = self.selections.as_deref();
        Sourced {
            object: Pod {
                metadata: ObjectMeta {
                    name: Some(key.name.clone()),
                    namespace: key.namespace.clone(),
                    annotations: selections
                        .map(|text| [(NETWORK_SELECTIONS.to_owned(), text.to_owned())].into()),
                    ..ObjectMeta::default()
                },
                spec: Some(spec),
                ..Pod::default()
            },
            origin: Origin::Cluster,
            position: 0,
        }
    }
}

impl AnyObject for PackedPod {
    fn meta(&self) -> Option<&ObjectMeta> {
        None
    }

    fn insert_into(
        self: Arc<Self>,
        key: &ObjectKey,
        inventory: &mut Inventory,
        connected: &ConnectedParts,
    ) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let may_use = self.selections.is_some() || connected.namespaces.contains(namespace);
        if may_use && !self.node.is_empty() {
            inventory.pods.insert(self.unpack(key));
        } else {
            inventory.pods.remove(key);
        }
    }

    fn after(&self, _: &Written) -> Arc<dyn AnyObject> {
        // Pods are packed only if they are not written.
        Arc::new(self.clone())
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `true` if a pod of namespace `blue` with this specification is in the inventory.
    fn is_inserted(spec: &serde_json::Value, annotations: &serde_json::Value, of: &str) -> bool {
        let object = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "blue", "annotations": annotations},
            "spec": spec,
        }));
        let pod = Sourced { object: object.unwrap(), origin: Origin::Cluster, position: 0 };
        let connected =
            ConnectedParts { namespaces: [of.to_owned()].into(), ..ConnectedParts::default() };
        let (key, mut inventory) = (ObjectKey::namespaced("blue", "a"), Inventory::default());
        pods_packer()(pod).insert_with(&key, &mut inventory, &connected);
        let found = inventory.pods.get(&key);
        let node = |pod: &Sourced<Pod>| pod.object.spec.as_ref().unwrap().node_name.clone();
        assert!(found.is_none_or(|pod| node(pod).as_deref() == Some("n1")));
        found.is_some()
    }

    #[test]
    fn pods_that_may_use_a_connected_network_are_in_the_inventory() {
        let (wired, none) = (json!({"nodeName": "n1", "containers": []}), json!({}));
        assert!(is_inserted(&wired, &none, "blue"));
        assert!(!is_inserted(&wired, &none, "red"));
        assert!(is_inserted(&wired, &json!({NETWORK_SELECTIONS: "x"}), "red"));
        assert!(!is_inserted(&json!({"containers": []}), &none, "blue"));
        let on_host = json!({"nodeName": "n1", "hostNetwork": true, "containers": []});
        assert!(!is_inserted(&on_host, &none, "blue"));
    }
}
