//! AdminNetworkPolicies and the BaselineAdminNetworkPolicy.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use super::label_selector::Selector;
use super::object_kind;
use super::object_problem::FieldProblem;
use super::policy::PolicyPort;

/// Name of the one BaselineAdminNetworkPolicy of a cluster.
pub const BASELINE_POLICY: &str = "default";
/// Largest priority of an AdminNetworkPolicy for which OVN-Kubernetes has priorities of ACLs. The
/// API allows 1000.
pub const MAX_ADMIN_PRIORITY: i64 = 99;
/// Largest number of rules of each direction in a policy of an administrator.
pub const MAX_ADMIN_RULES: usize = 100;

/// Kind of a policy of an administrator.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum AdminPolicyKind {
    /// AdminNetworkPolicy: decides before NetworkPolicies.
    Admin,
    /// BaselineAdminNetworkPolicy: decides what NetworkPolicies do not.
    Baseline,
}

impl AdminPolicyKind {
    /// Name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => object_kind::ADMIN_NETWORK_POLICY,
            Self::Baseline => object_kind::BASELINE_ADMIN_NETWORK_POLICY,
        }
    }
}

impl fmt::Display for AdminPolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kind and name of a policy of an administrator. `Display` prints `<kind> <name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AdminPolicyKey {
    /// Kind.
    pub kind: AdminPolicyKind,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for AdminPolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Policy of an administrator, for pods of any namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminPolicy {
    /// Kind and name.
    pub key: AdminPolicyKey,
    /// Priority among AdminNetworkPolicies, at most [`MAX_ADMIN_PRIORITY`]. The smallest decides
    /// first.
    pub priority: i64,
    /// Pods that the policy is about.
    pub subject: PodScope,
    /// Rules for packets to the pods, of which the first one that matches decides.
    pub ingress: Vec<AdminRule>,
    /// Rules for packets from the pods, of which the first one that matches decides.
    pub egress: Vec<AdminRule>,
    /// Text of the annotation [`ACL_LOGGING`](super::ACL_LOGGING); empty: nothing is logged.
    pub logging: String,
    /// Fields that cannot be used. If there is one, no rule is applied.
    pub problems: Vec<FieldProblem>,
}

/// Pods by their labels and the labels of their namespaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodScope {
    /// Labels of the namespaces.
    pub namespaces: Selector,
    /// Labels of the pods.
    pub pods: Selector,
}

/// Rule of an [`AdminPolicy`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdminRule {
    /// Action on the packets.
    pub action: AdminAction,
    /// Peers by labels, in the order of the object.
    pub pods: Vec<PodScope>,
    /// Nodes that are peers.
    pub nodes: Vec<Selector>,
    /// Addresses that are peers.
    pub networks: Vec<IpNet>,
    /// Numbered ports of the receiving side.
    pub ports: Vec<PolicyPort>,
    /// Names of container ports of the receiving side. Without them and numbered ports the rule is
    /// about all packets.
    pub named_ports: BTreeSet<String>,
}

/// Action of a rule on packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdminAction {
    /// The packets pass.
    Allow,
    /// The packets are dropped.
    Deny,
    /// NetworkPolicies decide, then the BaselineAdminNetworkPolicy.
    Pass,
}
