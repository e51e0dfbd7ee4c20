//! Translation of addresses: rules about external addresses.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::KubeOvnCondition;

custom_resource! {
    /// Source address of connections that machines of a VPC open.
    #[derive(Default)]
    OvnSnatRule, #[serde(default)] OvnSnatRuleSpec, status: OvnSnatRuleStatus;
    "kubeovn.io", "v1", "ovn-snat-rules", namespaced: false
}

custom_resource! {
    /// Port of an external address that leads to a port of one machine.
    #[derive(Default)]
    OvnDnatRule, #[serde(default)] OvnDnatRuleSpec, status: OvnDnatRuleStatus;
    "kubeovn.io", "v1", "ovn-dnat-rules", namespaced: false
}

custom_resource! {
    /// Floating address: an external address of one machine.
    #[derive(Default)]
    OvnFip, #[serde(default)] OvnFipSpec, status: OvnFipStatus;
    "kubeovn.io", "v1", "ovn-fips", namespaced: false
}

/// Specification of an [`OvnSnatRule`]. The sources are those of the first field that is set of
/// `v4IpCidr` with `v6IpCidr`, `vpcSubnet` and `ipName`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnSnatRuleSpec {
    /// Name of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovn_eip: String,
    /// Name of a subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc_subnet: String,
    /// Name of an [`IP`](super::IP).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_name: String,
    /// Name of the VPC of the ranges.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// IPv4 range, or an address.
    #[serde(rename = "v4IpCidr", skip_serializing_if = "String::is_empty")]
    pub v4_ip_cidr: String,
    /// IPv6 range, or an address.
    #[serde(rename = "v6IpCidr", skip_serializing_if = "String::is_empty")]
    pub v6_ip_cidr: String,
}

/// Status of an [`OvnSnatRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnSnatRuleStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// `true` if the rule is in effect.
    pub ready: bool,
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// External IPv4 address.
    #[serde(rename = "v4Eip", skip_serializing_if = "String::is_empty")]
    pub v4_eip: String,
    /// External IPv6 address.
    #[serde(rename = "v6Eip", skip_serializing_if = "String::is_empty")]
    pub v6_eip: String,
    /// IPv4 sources.
    #[serde(rename = "v4IpCidr", skip_serializing_if = "String::is_empty")]
    pub v4_ip_cidr: String,
    /// IPv6 sources.
    #[serde(rename = "v6IpCidr", skip_serializing_if = "String::is_empty")]
    pub v6_ip_cidr: String,
}

/// Specification of an [`OvnDnatRule`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnDnatRuleSpec {
    /// Name of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovn_eip: String,
    /// `vip`: `ipName` is the name of a `Vip`. Else that of an [`IP`](super::IP).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_type: String,
    /// Name of the object with the machine's address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_name: String,
    /// Name of the VPC of the addresses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// IPv4 address of the machine.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address of the machine.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// `tcp` or `udp`, in letters of any case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Port of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub external_port: String,
    /// Port of the machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub internal_port: String,
}

/// Status of an [`OvnDnatRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnDnatRuleStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// `true` if the rule is in effect.
    pub ready: bool,
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// External IPv4 address.
    #[serde(rename = "v4Eip", skip_serializing_if = "String::is_empty")]
    pub v4_eip: String,
    /// External IPv6 address.
    #[serde(rename = "v6Eip", skip_serializing_if = "String::is_empty")]
    pub v6_eip: String,
    /// Port of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub external_port: String,
    /// IPv4 address of the machine.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address of the machine.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// Port of the machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub internal_port: String,
    /// `tcp` or `udp`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Name of the object with the machine's address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_name: String,
}

/// Specification of an [`OvnFip`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnFipSpec {
    /// Name of the external address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovn_eip: String,
    /// `vip`: `ipName` is the name of a `Vip`. Else that of an [`IP`](super::IP).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_type: String,
    /// Name of the object with the machine's address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_name: String,
    /// Name of the VPC of the addresses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// IPv4 address of the machine.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address of the machine.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// `distributed` (on the machine's node) or `centralized` (on the active gateway node).
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
}

/// Status of an [`OvnFip`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OvnFipStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<KubeOvnCondition>,
    /// `true` if the address is in effect.
    pub ready: bool,
    /// Name of the VPC.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpc: String,
    /// External IPv4 address.
    #[serde(rename = "v4Eip", skip_serializing_if = "String::is_empty")]
    pub v4_eip: String,
    /// External IPv6 address.
    #[serde(rename = "v6Eip", skip_serializing_if = "String::is_empty")]
    pub v6_eip: String,
    /// IPv4 address of the machine.
    #[serde(rename = "v4Ip", skip_serializing_if = "String::is_empty")]
    pub v4_ip: String,
    /// IPv6 address of the machine.
    #[serde(rename = "v6Ip", skip_serializing_if = "String::is_empty")]
    pub v6_ip: String,
    /// MAC address of the machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
}
