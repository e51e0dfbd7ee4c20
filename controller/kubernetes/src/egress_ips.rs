//! `EgressIP`s: through which nodes the traffic of namespaces leaves the cluster, so where their networks are rendered, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_resources::custom_resource;
use patchbay_resources::object::LabelSelector;
use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use serde::{Deserialize, Serialize};

use super::received::Received;
use super::store::Objects;
use patchbay_resources::selector;

custom_resource! {
    /// An egress IP, a resource of OVN-Kubernetes.
    #[allow(clippy::upper_case_acronyms)]
    EgressIP, EgressIpSpec, status: EgressIpStatus;
    "k8s.ovn.org", "v1", "egressips", namespaced: false
}

/// What is read of an `EgressIP`'s `spec` (group `k8s.ovn.org`, version `v1`). The resource is OVN-Kubernetes'.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EgressIpSpec {
    /// The namespaces whose traffic it is for.
    namespace_selector: LabelSelector,
}

/// What is read of its `status`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct EgressIpStatus {
    #[serde(default)]
    items: Vec<EgressIpItem>,
}

/// One of its addresses.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct EgressIpItem {
    /// The node that has the address.
    #[serde(default)]
    node: String,
}

/// What is kept of an `EgressIP`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenEgressIp {
    namespaces: LabelSelector,
    nodes: BTreeSet<String>,
}

/// An `EgressIP`: which namespaces, and which nodes. What cannot be understood is told, and as if it were not there.
pub(super) fn egress_ip(object: Received<EgressIP>) -> Option<Arc<SeenEgressIp>> {
    let object = match object.0 {
        Ok(object) => object,
        Err(invalid) => {
            let (name, error) = (invalid.metadata.name, invalid.error);
            tracing::warn!(name, error, "cannot read an EgressIP");
            return None;
        }
    };
    let items = object.status.unwrap_or_default().items.into_iter();
    let nodes = items.map(|item| item.node).filter(|node| !node.is_empty());
    Some(Arc::new(SeenEgressIp {
        namespaces: object.spec.namespace_selector,
        nodes: nodes.collect(),
    }))
}

/// For each namespace the nodes that have an egress IP for it, kept up to date. To ask each selector about each namespace
/// takes long in large clusters, where pods come and go all the time.
#[derive(Debug, Default)]
pub(super) struct EgressNodes {
    ips: Objects<Option<Arc<SeenEgressIp>>>,
    namespaces: Objects<Arc<Namespace>>,
    nodes: BTreeMap<String, BTreeSet<String>>,
}

impl EgressNodes {
    /// Brings them up to date. Returns whether they may have changed.
    pub(super) fn update(
        &mut self,
        ips: Objects<Option<Arc<SeenEgressIp>>>,
        namespaces: &Objects<Arc<Namespace>>,
    ) -> bool {
        if ips.ptr_eq(&self.ips) && namespaces.ptr_eq(&self.namespaces) {
            return false;
        }
        (self.ips, self.namespaces) = (ips, namespaces.clone());
        self.nodes.clear();
        for ip in self.ips.values().flatten() {
            // A selector that is wrong selects nothing.
            let Ok(selector) = selector::parse("", &ip.namespaces) else {
                continue;
            };
            let selected = self.namespaces.iter();
            for (key, _) in selected.filter(|(_, one)| selector.matches(one.labels())) {
                let nodes = self.nodes.entry(key.name.clone()).or_default();
                nodes.extend(ip.nodes.iter().cloned());
            }
        }
        true
    }

    /// The nodes of each namespace.
    pub(super) fn nodes(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use patchbay_resources::manifests::ObjectKey;

    fn ip(namespaces: &serde_json::Value, nodes: &[&str]) -> Option<Arc<SeenEgressIp>> {
        let items = nodes
            .iter()
            .map(|node| json!({"node": node, "egressIP": "172.18.0.33"}));
        let items: Vec<_> = items.collect();
        let object = json!({
            "metadata": {"name": "e"},
            "spec": {"egressIPs": ["172.18.0.33"], "namespaceSelector": namespaces, "podSelector": {}},
            "status": {"items": items},
        });
        egress_ip(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn nodes_are_those_of_selected_namespaces() {
        let namespace = |name: &str| {
            let object = json!({"metadata": {"name": name, "labels": {"team": name}}});
            let object: Namespace = serde_json::from_value(object).unwrap();
            (ObjectKey::cluster(name), Arc::new(object))
        };
        let namespaces: Objects<_> = ["red", "blue"].map(namespace).into_iter().collect();
        let team = |name: &str| json!({"matchLabels": {"team": name}});
        let wrong = json!({"matchExpressions": [{"key": "team", "operator": "Near"}]});
        let ips = [
            ip(&team("red"), &["n1", "n2"]),
            ip(&team("red"), &["n3", ""]),
            ip(&json!({}), &["n4"]),
            ip(&team("green"), &["n5"]),
            ip(&wrong, &["n6"]),
            // Unlike an empty selector, one that is not there selects nothing.
            ip(&json!(null), &["n7"]),
        ];
        let ips = ips.into_iter().enumerate();
        let ips: Objects<_> = ips
            .map(|(index, ip)| (ObjectKey::cluster(index.to_string()), ip))
            .collect();
        let mut nodes = EgressNodes::default();
        assert!(nodes.update(ips.clone(), &namespaces));
        assert_eq!(
            json!(nodes.nodes()),
            json!({"red": ["n1", "n2", "n3", "n4"], "blue": ["n4"]})
        );
        assert!(!nodes.update(ips, &namespaces));
        assert!(nodes.update(Objects::new(), &namespaces));
        assert!(nodes.nodes().is_empty());
    }
}
