//! Security groups.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

custom_resource! {
    /// Rules for packets from and to machines of a group.
    #[derive(Default)]
    SecurityGroup, #[serde(default)] SecurityGroupSpec, status: SecurityGroupStatus;
    "kubeovn.io", "v1", "security-groups", namespaced: false
}

/// Specification of a [`SecurityGroup`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityGroupSpec {
    /// Rules for packets to machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress_rules: Vec<SecurityGroupRule>,
    /// Rules for packets from machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress_rules: Vec<SecurityGroupRule>,
    /// `true`: machines of the group reach each other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_same_group_traffic: bool,
    /// Tier of the rules, 0 or 1. `None`: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<i64>,
}

/// A rule of a [`SecurityGroup`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityGroupRule {
    /// `ipv4` or `ipv6`.
    pub ip_version: String,
    /// `all`, `icmp`, `tcp` or `udp`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Priority, 1 to 16384.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// `address` or `securityGroup`.
    pub remote_type: String,
    /// Other side: address or range.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_address: String,
    /// Other side: name of a group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_security_group: String,
    /// First port of the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_min: Option<i64>,
    /// Last port of the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range_max: Option<i64>,
    /// This side: address or range.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub local_address: String,
    /// First port of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port_range_min: Option<i64>,
    /// Last port of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port_range_max: Option<i64>,
    /// `allow`, `drop` or `pass`.
    pub policy: String,
}

/// Status of a [`SecurityGroup`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityGroupStatus {
    /// Name of the port group.
    pub port_group: String,
    /// `true` if machines of the group reach each other.
    pub allow_same_group_traffic: bool,
    /// Digest of the rules for packets to machines.
    pub ingress_md5: String,
    /// Digest of the rules for packets from machines.
    pub egress_md5: String,
    /// `true` if the rules for packets to machines are in effect.
    pub ingress_last_sync_success: bool,
    /// `true` if the rules for packets from machines are in effect.
    pub egress_last_sync_success: bool,
}
