//! External addresses.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::KubeOvnCondition;

custom_resource! {
    /// Address of an external subnet.
    #[derive(Default)]
    OvnEip, #[serde(default)] OvnEipSpec, status: OvnEipStatus;
    "kubeovn.io", "v1", "ovn-eips", namespaced: false
}

/// Specification of an [`OvnEip`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnEipSpec {
    /// Name of the external subnet. Empty: the default one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub external_subnet: String,
    /// Wished IPv4 address. Empty: any.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// Wished IPv6 address. Empty: any.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// Wished MAC address. Empty: any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// `lrp` (router port), `nat` or `lsp` (port of a node). Empty: `nat`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
}

/// Status of an [`OvnEip`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnEipStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// Type of the address, as in the specification.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Uses: `dnat`, `fip`, `snat`, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nat: String,
    /// `true` if the address can be used.
    pub ready: bool,
    /// IPv4 address.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// MAC address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
}
