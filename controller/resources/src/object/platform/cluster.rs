//! Objects of Kubernetes that show how Kube-OVN runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::custom_resource;

custom_resource! {
    /// Ranges of the API server's cluster IPs.
    #[derive(Default)]
    ServiceCIDR, #[serde(default)] ServiceCidrSpec, status: Value;
    "networking.k8s.io", "v1", "servicecidrs", namespaced: false
}

custom_resource! {
    /// Lease of a controller.
    #[derive(Default)]
    Lease, #[serde(default)] LeaseSpec;
    "coordination.k8s.io", "v1", "leases", namespaced: true
}

custom_resource! {
    /// Deployment of a controller.
    #[derive(Default)]
    Deployment, #[serde(default)] DeploymentSpec, status: Value;
    "apps", "v1", "deployments", namespaced: true
}

/// Specification of a [`ServiceCIDR`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// Ranges, at most one of each family.
    pub cidrs: Vec<String>,
}

/// Specification of a [`Lease`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// Holder. `None` or empty: the lease is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Specification of a [`Deployment`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// Template of the pods.
    pub template: Value,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Deployment {
    /// Arguments of the containers.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        let containers = self
            .spec
            .template
            .pointer("/spec/containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        containers
            .flat_map(|container| ["command", "args"].map(|field| container.get(field)))
            .flatten()
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
    }
}
