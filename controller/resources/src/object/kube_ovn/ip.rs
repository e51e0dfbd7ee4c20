//! Records of allocated addresses.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

custom_resource! {
    /// Record of the addresses of one port.
    #[derive(Default)]
    IP, #[serde(default)] IpSpec;
    "kubeovn.io", "v1", "ips", namespaced: false
}

/// Specification of an [`IP`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IpSpec {
    /// Name of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// Further subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach_subnets: Vec<String>,
    /// Name of the pod's node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Both addresses, with a comma between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_address: String,
    /// IPv4 address.
    #[serde(rename = "v4IpAddress", skip_serializing_if = "String::is_empty")]
    pub v4_ip_address: String,
    /// IPv6 address.
    #[serde(rename = "v6IpAddress", skip_serializing_if = "String::is_empty")]
    pub v6_ip_address: String,
    /// Further addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach_ips: Vec<String>,
    /// MAC address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// Further MAC addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach_macs: Vec<String>,
    /// Identity of the pod's container.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Kind of the pod's controller, if the address outlives the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_type: String,
}
