//! Objects of a scenario, as an API server keeps them.

use std::collections::BTreeMap;

use patchbay_model::{
    AdminPolicy, DEFAULT_NETWORK_KEY, EgressFirewall, EgressIp, NodeObject, POD_NETWORKS, PodKey,
    Policy, RouteAdvertisement,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    self, AdminNetworkPolicy, BaselineAdminNetworkPolicy, EndpointSlice, MultiNetworkPolicy,
    Namespace, NetworkPolicy, Object as _, Pod, RouteAdvertisements, Service,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Kind, namespace and name of an object.
pub(super) type ObjectId = (String, String, String);

/// Objects by kind, namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Objects(BTreeMap<ObjectId, Value>);

/// Name, labels and annotations of a node.
pub(super) struct AnnotatedNode {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Objects {
    pub(crate) fn put(&mut self, object: Value) -> Result<(), String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").ok_or("an object without kind")?.to_owned();
        let name = text("/metadata/name").ok_or("an object without name")?;
        let namespace = text("/metadata/namespace").unwrap_or_default();
        let key = (kind, namespace.to_owned(), name.to_owned());
        self.0.insert(key, object);
        Ok(())
    }

    pub(super) fn patch(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), String> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let object = self.0.get_mut(&key);
        merge(object.ok_or_else(|| format!("no {key:?}"))?, patch);
        Ok(())
    }

    pub(super) fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> Result<(), String> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let removed = self.0.remove(&key);
        removed.map(|_| ()).ok_or_else(|| format!("no {key:?}"))
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let objects = self.0.iter().filter(move |((of, ..), _)| of == kind);
        objects.map(|(_, object)| object)
    }

    fn typed<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<T>, String> {
        let objects = self.of_kind(kind).map(|object| {
            let object = serde_json::from_value(object.clone());
            object.map_err(|error| format!("{kind}: {error}"))
        });
        objects.collect()
    }

    pub(super) fn definitions(&self) -> Result<Vec<NetworkAttachmentDefinition>, String> {
        self.typed("NetworkAttachmentDefinition")
    }

    pub(super) fn namespaces(&self) -> Result<Vec<Namespace>, String> {
        self.typed("Namespace")
    }

    pub(super) fn services(&self) -> Result<Vec<Service>, String> {
        self.typed("Service")
    }

    pub(super) fn slices(&self) -> Result<Vec<EndpointSlice>, String> {
        self.typed("EndpointSlice")
    }

    pub(crate) fn pods(&self) -> Result<Vec<Pod>, String> {
        self.typed("Pod")
    }

    pub(super) fn policies(&self) -> Result<Vec<Policy>, String> {
        let policies = self.typed::<NetworkPolicy>("NetworkPolicy")?;
        let others = self.typed::<MultiNetworkPolicy>("MultiNetworkPolicy")?;
        let policies = policies.iter().map(conversion::network_policy);
        Ok(policies.chain(others.iter().map(conversion::multi_network_policy)).collect())
    }

    pub(super) fn admin_policies(&self) -> Result<Vec<AdminPolicy>, String> {
        let policies = self.typed::<AdminNetworkPolicy>("AdminNetworkPolicy")?;
        let policies = policies.iter().map(conversion::admin_network_policy);
        let baselines = self.typed::<BaselineAdminNetworkPolicy>("BaselineAdminNetworkPolicy")?;
        let baselines = baselines.iter().map(conversion::baseline_admin_network_policy);
        Ok(policies.chain(baselines).collect())
    }

    /// EgressFirewalls. The recorded API server does not count versions: objects have the same one,
    /// unless they have their own.
    pub(super) fn firewalls(&self) -> Result<Vec<EgressFirewall>, String> {
        let firewalls = self.typed::<object::EgressFirewall>("EgressFirewall")?;
        let firewalls = firewalls.iter().map(|object| {
            let firewall = conversion::egress_firewall(object);
            let version = firewall.version.clone().unwrap_or_default();
            EgressFirewall { version: Some(version), ..firewall }
        });
        Ok(firewalls.collect())
    }

    pub(super) fn advertisements(&self) -> Result<Vec<RouteAdvertisement>, String> {
        let objects = self.typed::<RouteAdvertisements>("RouteAdvertisements")?;
        let objects = objects.iter().map(conversion::route_advertisement);
        Ok(objects.collect())
    }

    pub(super) fn connects(&self) -> Result<Vec<ClusterNetworkConnect>, String> {
        self.typed("ClusterNetworkConnect")
    }

    pub(super) fn egress_ips(&self) -> Result<Vec<EgressIp>, String> {
        let objects = self.typed::<object::EgressIP>("EgressIP")?;
        Ok(objects.iter().map(conversion::egress_ip).collect())
    }

    /// Sets an annotation of a pod, as a controller does.
    pub(super) fn annotate_pod(
        &mut self,
        pod: &PodKey,
        key: &str,
        value: &str,
    ) -> Result<(), String> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.patch("Pod", &pod.namespace, &pod.name, &patch)
    }

    /// Addresses of all pods that have some, but for those in the default network.
    pub(super) fn pod_networks(&self) -> Result<BTreeMap<String, Value>, String> {
        let networks = self.pods()?.into_iter().filter_map(|pod| {
            let text = pod.annotations().get(POD_NETWORKS)?;
            let mut networks: Value = serde_json::from_str(text).ok()?;
            let key = format!("{}/{}", pod.namespace()?, pod.name_any());
            networks.as_object_mut()?.remove(DEFAULT_NETWORK_KEY);
            Some((key, networks)).filter(|(_, networks)| *networks != json!({}))
        });
        Ok(networks.collect())
    }

    pub(super) fn nodes(&self) -> Result<Vec<AnnotatedNode>, String> {
        let nodes = self.of_kind("Node").map(|node| {
            let texts = |pointer: &str| {
                let texts: Result<Option<_>, _> =
                    serde_json::from_value(node.pointer(pointer).cloned().unwrap_or_default());
                texts.map_err(|error| format!("Node: {error}"))
            };
            let annotations = texts("/metadata/annotations")?;
            Ok(AnnotatedNode {
                name: node["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                labels: texts("/metadata/labels")?.unwrap_or_default(),
                annotations: annotations.unwrap_or_default(),
            })
        });
        nodes.collect()
    }
}

pub(super) fn node_objects(nodes: &[AnnotatedNode]) -> Vec<NodeObject<'_>> {
    let nodes = nodes.iter().map(|node| NodeObject {
        name: &node.name,
        created: None,
        labels: Some(&node.labels),
        annotations: Some(&node.annotations),
    });
    nodes.collect()
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
