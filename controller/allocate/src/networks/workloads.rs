//! Objects that use networks.

use std::collections::BTreeMap;

use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object, Pod};
use serde_json::{Map, Value};

/// Annotation of a pod: its addresses in every network, a JSON object by attachment definition.
pub const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// Objects that use networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads {
    /// Pods.
    pub pods: BTreeMap<ObjectKey, Pod>,
}

impl Workloads {
    /// Pods that use an attachment definition in their own namespace, as `<namespace>/<name>`.
    /// Completed pods are among them.
    pub(super) fn users_of(&self, nad: &ObjectKey) -> Vec<String> {
        let first = ObjectKey {
            namespace: nad.namespace.clone(),
            name: String::new(),
        };
        let of_namespace = self
            .pods
            .range(&first..)
            .take_while(|(key, _)| key.namespace == nad.namespace);
        let nad = nad.to_string();
        let users = of_namespace.filter(|(_, pod)| {
            let text = pod.annotations().get(POD_NETWORKS);
            let networks =
                text.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
            networks.is_some_and(|networks| networks.contains_key(&nad))
        });
        users.map(|(key, _)| key.to_string()).collect()
    }
}
