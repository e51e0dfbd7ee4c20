//! `EgressIP`s: the nodes through which the traffic of namespaces leaves the cluster. The
//! namespaces' networks are rendered on these nodes, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use patchbay_resources::object::{EgressIP, LabelSelector};
use patchbay_resources::selector;

use super::tolerant_object::TolerantObject;

/// An `EgressIP` as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedEgressIp {
    namespaces: LabelSelector,
    nodes: BTreeSet<String>,
}

/// Projects an `EgressIP` to its namespaces and nodes. One that cannot be decoded is logged and
/// ignored.
pub(super) fn project_egress_ip(object: TolerantObject<EgressIP>) -> Option<Arc<WatchedEgressIp>> {
    let object = match object.0 {
        Ok(object) => object,
        Err(invalid) => {
            let (name, error) = (invalid.metadata.name, invalid.error);
            tracing::warn!(name, error, "ignoring an EgressIP that cannot be decoded");
            return None;
        }
    };
    let items = object.status.unwrap_or_default().items.into_iter();
    let nodes = items.map(|item| item.node).filter(|node| !node.is_empty());
    Some(Arc::new(WatchedEgressIp {
        namespaces: object.spec.namespace_selector,
        nodes: nodes.collect(),
    }))
}

/// Nodes of the egress IPs of each namespace.
///
/// The result is cached, because matching each selector with each namespace takes long in large
/// clusters, where pods change all the time.
#[derive(Debug, Default)]
pub(super) struct EgressNodes {
    ips: OrdMap<ObjectKey, Option<Arc<WatchedEgressIp>>>,
    namespaces: OrdMap<ObjectKey, Arc<Namespace>>,
    nodes: BTreeMap<String, BTreeSet<String>>,
}

impl EgressNodes {
    /// Updates the nodes. Returns `true` if they may have changed.
    pub(super) fn update(
        &mut self,
        ips: OrdMap<ObjectKey, Option<Arc<WatchedEgressIp>>>,
        namespaces: &OrdMap<ObjectKey, Arc<Namespace>>,
    ) -> bool {
        if ips.ptr_eq(&self.ips) && namespaces.ptr_eq(&self.namespaces) {
            return false;
        }
        (self.ips, self.namespaces) = (ips, namespaces.clone());
        self.nodes.clear();
        for ip in self.ips.values().flatten() {
            // An invalid selector selects nothing.
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

    fn ip(namespaces: &serde_json::Value, nodes: &[&str]) -> Option<Arc<WatchedEgressIp>> {
        let items = nodes
            .iter()
            .map(|node| json!({"node": node, "egressIP": "172.18.0.33"}));
        let items: Vec<_> = items.collect();
        let object = json!({
            "metadata": {"name": "e"},
            "spec": {"egressIPs": ["172.18.0.33"], "namespaceSelector": namespaces, "podSelector": {}},
            "status": {"items": items},
        });
        project_egress_ip(TolerantObject::of(object))
    }

    #[test]
    fn each_selected_namespace_has_the_nodes_of_its_egress_ips() {
        let namespace = |name: &str| {
            let object = json!({"metadata": {"name": name, "labels": {"team": name}}});
            let object: Namespace = serde_json::from_value(object).unwrap();
            (ObjectKey::cluster(name), Arc::new(object))
        };
        let namespaces: OrdMap<ObjectKey, _> = ["red", "blue"].map(namespace).into_iter().collect();
        let team = |name: &str| json!({"matchLabels": {"team": name}});
        let wrong = json!({"matchExpressions": [{"key": "team", "operator": "Near"}]});
        let ips = [
            ip(&team("red"), &["n1", "n2"]),
            ip(&team("red"), &["n3", ""]),
            ip(&json!({}), &["n4"]),
            ip(&team("green"), &["n5"]),
            ip(&wrong, &["n6"]),
            // A missing selector selects nothing, unlike an empty one.
            ip(&json!(null), &["n7"]),
        ];
        let ips = ips.into_iter().enumerate();
        let ips: OrdMap<ObjectKey, _> = ips
            .map(|(index, ip)| (ObjectKey::cluster(index.to_string()), ip))
            .collect();
        let mut nodes = EgressNodes::default();
        assert!(nodes.update(ips.clone(), &namespaces));
        assert_eq!(
            json!(nodes.nodes()),
            json!({"red": ["n1", "n2", "n3", "n4"], "blue": ["n4"]})
        );
        assert!(!nodes.update(ips, &namespaces));
        assert!(nodes.update(OrdMap::new(), &namespaces));
        assert!(nodes.nodes().is_empty());
    }
}
