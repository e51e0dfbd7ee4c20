//! Virtual addresses, and pools of addresses.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::custom_resource;

use super::KubeOvnCondition;

custom_resource! {
    /// Address that moves between machines.
    #[derive(Default)]
    Vip, #[serde(default)] VipSpec, status: VipStatus;
    "kubeovn.io", "v1", "vips", namespaced: false
}

custom_resource! {
    /// Pool of addresses of a subnet.
    #[derive(Default)]
    IPPool, #[serde(default)] IpPoolSpec, status: IpPoolStatus;
    "kubeovn.io", "v1", "ippools", namespaced: false
}

/// Specification of a [`Vip`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VipSpec {
    /// Namespace of the machines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// `switch_lb_vip` or `kube_host_vm_vip`. Empty: an address of machines.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Wished IPv4 address. Empty: any.
    #[serde(rename = "v4ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// Wished IPv6 address. Empty: any.
    #[serde(rename = "v6ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// Wished MAC address. Empty: any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// Labels of the machines: `key:value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selector: Vec<String>,
    /// Further subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach_subnets: Vec<String>,
}

/// Status of a [`Vip`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VipStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// Type, as in the specification.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// IPv4 address.
    #[serde(rename = "v4ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address.
    #[serde(rename = "v6ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// MAC address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Labels of the machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selector: Vec<String>,
}

/// Specification of an [`IPPool`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// Name of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// Namespaces whose pods get addresses of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Addresses, ranges `a..b`, and CIDRs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// `true`: an address set with the addresses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_address_set: bool,
}

/// Status of an [`IPPool`]. Numbers of IPv6 addresses may exceed 64 bits.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct IpPoolStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// Number of free IPv4 addresses.
    #[serde(rename = "v4AvailableIPs", skip_serializing_if = "Option::is_none")]
    pub v4_available_ips: Option<Number>,
    /// Free IPv4 addresses.
    #[serde(rename = "v4AvailableIPRange", skip_serializing_if = "String::is_empty")]
    pub v4_available_ip_range: String,
    /// Number of used IPv4 addresses.
    #[serde(rename = "v4UsingIPs", skip_serializing_if = "Option::is_none")]
    pub v4_using_ips: Option<Number>,
    /// Used IPv4 addresses.
    #[serde(rename = "v4UsingIPRange", skip_serializing_if = "String::is_empty")]
    pub v4_using_ip_range: String,
    /// Number of free IPv6 addresses.
    #[serde(rename = "v6AvailableIPs", skip_serializing_if = "Option::is_none")]
    pub v6_available_ips: Option<Number>,
    /// Free IPv6 addresses.
    #[serde(rename = "v6AvailableIPRange", skip_serializing_if = "String::is_empty")]
    pub v6_available_ip_range: String,
    /// Number of used IPv6 addresses.
    #[serde(rename = "v6UsingIPs", skip_serializing_if = "Option::is_none")]
    pub v6_using_ips: Option<Number>,
    /// Used IPv6 addresses.
    #[serde(rename = "v6UsingIPRange", skip_serializing_if = "String::is_empty")]
    pub v6_using_ip_range: String,
}
