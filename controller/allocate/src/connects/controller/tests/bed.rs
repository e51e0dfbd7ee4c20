//! Test cluster with a controller.

use std::collections::BTreeMap;

use jiff::Timestamp;
use patchbay_model::{ClusterSettings, ConnectSubnetMap, NadKey, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::{ClusterNetworkConnect, StatusType};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use patchbay_resources::object::Time;
use serde_json::{Value, json};

use crate::connects::{ACCEPTED, ClusterController, ClusterObjects};

/// All objects of a cluster, and a controller whose outcomes are written back to them.
pub(super) struct TestBed {
    pub(super) controller: ClusterController,
    pub(super) nads: BTreeMap<NadKey, NetworkAttachmentDefinition>,
    pub(super) namespaces: BTreeMap<String, Namespace>,
    pub(super) connects: BTreeMap<String, ClusterNetworkConnect>,
    clock: i64,
}

impl TestBed {
    pub(super) fn new() -> Self {
        Self {
            controller: ClusterController::new(settings()),
            nads: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            connects: BTreeMap::new(),
            clock: 0,
        }
    }

    /// A network of a ClusterUserDefinedNetwork with the label `tier: app`, in a namespace of its
    /// own.
    pub(super) fn network(&mut self, name: &str, id: i64, change: Value) -> &mut Self {
        let mut config = json!({
            "type": "ovn-k8s-cni-overlay", "name": format!("cluster_udn_{name}"), "topology": "layer3",
            "role": "primary", "subnets": format!("10.{}.0.0/16", id),
            "netAttachDefName": format!("{name}/{name}"),
        });
        merge(&mut config, change);
        let nad: NetworkAttachmentDefinition = serde_json::from_value(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": name, "namespace": name, "labels": {"tier": "app"},
                "annotations": {"k8s.ovn.org/network-id": id.to_string()},
                "ownerReferences": [{
                    "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": name, "uid": name,
                    "controller": true,
                }],
            },
            "spec": {"config": config.to_string()},
        }))
        .unwrap();
        let namespace = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"k8s.ovn.org/primary-user-defined-network": "", "team": name}},
        }))
        .unwrap();
        self.nads.insert(patchbay_resources::conversion::nad_key(&nad), nad);
        self.namespaces.insert(name.to_owned(), namespace);
        self
    }

    pub(super) fn nad(&mut self, name: &str) -> &mut NetworkAttachmentDefinition {
        self.nads.values_mut().find(|nad| nad.name_any() == name).unwrap()
    }

    pub(super) fn remove_network(&mut self, name: &str) -> &mut Self {
        self.nads.retain(|key, _| key.name != name);
        self
    }

    /// A connect of all networks with the label `tier: app`.
    pub(super) fn connect(&mut self, name: &str, subnets: &Value) -> &mut Self {
        let selector = json!({
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tier": "app"}}},
        });
        self.clock += 1;
        let object = serde_json::from_value(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": name, "uid": format!("uid-{}", self.clock), "generation": 1},
            "spec": {"networkSelectors": [selector], "connectSubnets": subnets, "connectivity": ["PodNetwork"]},
        }))
        .unwrap();
        self.connects.insert(name.to_owned(), object);
        self
    }

    /// Selects the primary networks of namespaces with this label instead.
    pub(super) fn select_namespaces(&mut self, connect: &str, labels: &Value) -> &mut Self {
        let selector = serde_json::from_value(json!({
            "networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": labels}},
        }))
        .unwrap();
        self.connects.get_mut(connect).unwrap().spec.network_selectors = vec![selector];
        self
    }

    pub(super) fn annotate(&mut self, connect: &str, key: &str, value: &str) -> &mut Self {
        let object = self.connects.get_mut(connect).unwrap();
        object.annotations_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn restart(&mut self) -> &mut Self {
        self.controller = ClusterController::new(settings());
        self
    }

    /// Reconciles, writes the outcomes and returns the warnings.
    pub(super) fn settle(&mut self) -> Vec<String> {
        self.clock += 1;
        let now = Time(Timestamp::from_second(self.clock).unwrap());
        let networks =
            patchbay_resources::conversion::networks(self.nads.values(), self.namespaces.values());
        let objects = ClusterObjects::new(
            &networks,
            self.nads.values(),
            self.namespaces.values(),
            self.connects.values(),
        );
        let report = self.controller.reconcile(&objects, &now);
        for outcome in report.outcomes {
            let object = self.connects.get_mut(&outcome.name).unwrap();
            for (key, value) in outcome.annotations() {
                object.annotations_mut().insert(key.to_owned(), value);
            }
            object.status = Some(outcome.status);
        }
        report.warnings.iter().map(ToString::to_string).collect()
    }

    pub(super) fn annotation(&self, connect: &str, key: &str) -> Option<&str> {
        self.connects[connect].annotations().get(key).map(String::as_str)
    }

    pub(super) fn key(&self, connect: &str) -> Option<&str> {
        self.annotation(connect, ROUTER_TUNNEL_KEY)
    }

    pub(super) fn subnets(&self, connect: &str) -> Option<&str> {
        self.annotation(connect, ConnectSubnetMap::ANNOTATION)
    }

    /// Message of the condition, after checking what every status must have.
    pub(super) fn message(&self, connect: &str) -> &str {
        let object = &self.connects[connect];
        let status = object.status.as_ref().unwrap();
        let [condition] = &status.conditions[..] else {
            panic!("{status:?}");
        };
        assert_eq!(condition.type_, ACCEPTED);
        assert_eq!(condition.observed_generation, object.metadata.generation);
        let succeeded = status.status == Some(StatusType::Success);
        assert_eq!(succeeded, condition.status == "True");
        &condition.message
    }
}

fn settings() -> ClusterSettings {
    ClusterSettings {
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterSettings::default()
    }
}

pub(super) fn range(cidr: &str, prefix: i32) -> Value {
    json!([{"cidr": cidr, "networkPrefix": prefix}])
}

fn merge(base: &mut Value, change: Value) {
    if let (Value::Object(base), Value::Object(change)) = (base, change) {
        base.extend(change);
    }
}

pub(super) const FINE: &str = "All validation checks passed successfully";
