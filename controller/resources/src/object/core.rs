//! Objects of the core group, version `v1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApiVersion, KindName, Object, ObjectMeta};

macro_rules! core_object {
    ($type:ident, $plural:literal, $namespaced:literal) => {
        impl Object for $type {
            const GROUP: &'static str = "";
            const VERSION: &'static str = "v1";
            const KIND: &'static str = stringify!($type);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// A namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Namespace {
    /// `apiVersion`.
    #[serde(rename = "apiVersion")]
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NamespaceSpec>,
    /// Status, which is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

/// Specification of a namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// Finalizers of the namespace's contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
}

core_object!(Namespace, "namespaces", false);

/// A node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Node {
    /// `apiVersion`.
    #[serde(rename = "apiVersion")]
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata: annotations have what OVN-Kubernetes knows of the node.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeSpec>,
    /// Status, which is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

/// Specification of a node, which is not read. Its fields are declared, because undeclared fields
/// are refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    config_source: Option<Value>,
    #[serde(rename = "externalID", skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(rename = "podCIDR", skip_serializing_if = "Option::is_none")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", skip_serializing_if = "Option::is_none")]
    pod_cidrs: Option<Vec<String>>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unschedulable: Option<bool>,
}

core_object!(Node, "nodes", false);

/// A service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Service {
    /// `apiVersion`.
    #[serde(rename = "apiVersion")]
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceSpec>,
    /// Status: addresses of the load balancer outside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

/// Specification of a service. Fields that are not read are declared, because undeclared fields are
/// refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    #[serde(rename = "allocateLoadBalancerNodePorts", skip_serializing_if = "Option::is_none")]
    allocate_node_ports: Option<bool>,
    /// Cluster IP; `None` as a text for a headless service.
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<String>,
    /// Cluster IPs, one of each IP family; the first one is [`cluster_ip`](Self::cluster_ip).
    #[serde(rename = "clusterIPs", skip_serializing_if = "Option::is_none")]
    pub cluster_ips: Option<Vec<String>>,
    /// Addresses outside of the cluster that lead to the service.
    #[serde(rename = "externalIPs", skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_name: Option<String>,
    /// `Cluster` or `Local`: endpoints of node ports and external addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check_node_port: Option<i32>,
    /// `Cluster` or `Local`: endpoints of cluster IPs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_families: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_family_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    load_balancer_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_balancer_source_ranges: Option<Vec<String>>,
    /// Ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<ServicePort>>,
    /// `Some(true)`: endpoints count whatever their conditions are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_not_ready_addresses: Option<bool>,
    /// Labels of the service's pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// `None` as a text, or `ClientIP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<String>,
    /// Time of the affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_distribution: Option<String>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`; `None`: `ClusterIP`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// Settings of a service's session affinity.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SessionAffinityConfig {
    /// Settings of affinity `ClientIP`.
    #[serde(rename = "clientIP", skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIpConfig>,
}

/// Settings of session affinity `ClientIP`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Time in seconds; `None`: three hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
    /// Name; `None`: the service has only one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Port of the nodes' addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// Port of cluster IPs.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Number, or name of a container's port, of the pods; `None`: as `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<Value>,
}

core_object!(Service, "services", true);

/// A config map.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Entries.
    pub data: Option<BTreeMap<String, String>>,
    #[serde(rename = "binaryData", skip_serializing_if = "Option::is_none")]
    binary_data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    immutable: Option<bool>,
}

core_object!(ConfigMap, "configmaps", true);
