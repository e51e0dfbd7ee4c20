//! EgressFirewalls of OVN-Kubernetes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApiVersion, KindName, LabelSelector, Object, ObjectMeta};

/// Destinations that the pods of a namespace reach.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EgressFirewall {
    /// `apiVersion`.
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: EgressFirewallSpec,
    /// Status, which nothing here reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

impl Object for EgressFirewall {
    const GROUP: &'static str = "k8s.ovn.org";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EgressFirewall";
    const PLURAL: &'static str = "egressfirewalls";
    const NAMESPACED: bool = true;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
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
