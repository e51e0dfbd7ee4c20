//! Policies of administrators, of the Kubernetes group `policy.networking.k8s.io`.

use serde::{Deserialize, Serialize};

use super::policy::policy_object;
use super::{Condition, LabelSelector};

policy_object!(
    /// Rules that decide before NetworkPolicies. The status has a condition for each zone.
    AdminNetworkPolicy, AdminPolicySpec, status: AdminPolicyStatus;
    "policy.networking.k8s.io", "v1alpha1", "adminnetworkpolicies", namespaced: false
);
policy_object!(
    /// Rules that decide what NetworkPolicies do not. The status has a condition for each zone.
    BaselineAdminNetworkPolicy, AdminPolicySpec, status: AdminPolicyStatus;
    "policy.networking.k8s.io", "v1alpha1", "baselineadminnetworkpolicies", namespaced: false
);

/// Specification of a policy of an administrator.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminPolicySpec {
    /// Priority among AdminNetworkPolicies, of which the smallest decides first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Pods that the policy is about.
    pub subject: AdminPolicyPeer,
    /// Rules for packets to the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<AdminPolicyRule>,
    /// Rules for packets from the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<AdminPolicyRule>,
}

/// Rule: `from` of ingress, `to` of egress.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminPolicyRule {
    /// Name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `Allow`, `Deny`, or in an AdminNetworkPolicy `Pass`.
    pub action: String,
    /// Sources of ingress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<AdminPolicyPeer>,
    /// Destinations of egress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AdminPolicyPeer>,
    /// Ports of the destinations. `None`: all packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<AdminPolicyPort>>,
}

/// Pods, or in egress rules nodes and addresses. One of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdminPolicyPeer {
    /// All pods of namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// Some pods of namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPods>,
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<LabelSelector>,
    /// Subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Names of domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domain_names: Vec<String>,
}

/// Pods by labels of both.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespacedPods {
    /// Labels of the namespaces.
    pub namespace_selector: LabelSelector,
    /// Labels of the pods.
    pub pod_selector: LabelSelector,
}

/// Port of a rule. One of the fields is set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdminPolicyPort {
    /// A number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_number: Option<AdminPortNumber>,
    /// Name of a container port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_port: Option<String>,
    /// Several numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range: Option<AdminPortRange>,
}

/// A port number of a protocol.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminPortNumber {
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Number.
    pub port: i64,
}

/// Port numbers of a protocol.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminPortRange {
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// First number.
    pub start: i64,
    /// Last number.
    pub end: i64,
}

/// Status of a policy of an administrator.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct AdminPolicyStatus {
    /// A condition for each zone.
    pub conditions: Vec<Condition>,
}
