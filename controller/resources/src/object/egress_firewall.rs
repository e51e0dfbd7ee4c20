//! EgressFirewalls of OVN-Kubernetes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::custom_resource;

use super::LabelSelector;

custom_resource! {
    /// Destinations that the pods of a namespace reach. The status is not read.
    #[derive(Default)]
    EgressFirewall, EgressFirewallSpec, status: Value;
    "k8s.ovn.org", "v1", "egressfirewalls", namespaced: true
}

/// Specification of an [`EgressFirewall`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressFirewallSpec {
    /// Rules, of which the first one that matches decides.
    pub egress: Vec<EgressFirewallRule>,
}

/// Rule of an [`EgressFirewall`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressFirewallRule {
    /// `Allow` or `Deny`.
    #[serde(rename = "type")]
    pub action: String,
    /// Ports of the destinations. Empty: all packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EgressFirewallPort>,
    /// Destinations.
    pub to: EgressFirewallDestination,
}

/// Port of an [`EgressFirewallRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressFirewallPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Number. 0: all.
    pub port: i64,
}

/// Destinations of an [`EgressFirewallRule`]: one of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EgressFirewallDestination {
    /// Subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cidr_selector: String,
    /// DNS name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dns_name: String,
    /// Labels of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
}
