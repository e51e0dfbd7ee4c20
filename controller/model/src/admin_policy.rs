//! AdminNetworkPolicies and the BaselineAdminNetworkPolicy.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use thiserror::Error;

use super::label_selector::Selector;
use super::policy::{PolicyFieldProblem, PolicyPort};

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

impl fmt::Display for AdminPolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admin => "AdminNetworkPolicy",
            Self::Baseline => "BaselineAdminNetworkPolicy",
        })
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
    pub problems: Vec<AdminPolicyProblem>,
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

/// Field of a policy of an administrator that cannot be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AdminPolicyProblem {
    /// A selector, port, protocol or CIDR cannot be used.
    #[error(transparent)]
    Field(#[from] PolicyFieldProblem),
    /// The priority is out of range.
    #[error(
        "spec.priority: {0} is not in 0..={MAX_ADMIN_PRIORITY}, for which there are priorities of \
         ACLs"
    )]
    Priority(i64),
    /// The action of a rule is unknown.
    #[error("{field}: {text:?} is none of {expected}")]
    Action {
        /// Path of the field.
        field: String,
        /// The text.
        text: String,
        /// The actions of the kind.
        expected: &'static str,
    },
    /// A field has none or several of its alternatives.
    #[error("{field}: exactly one of {expected} is required")]
    Alternative {
        /// Path of the field.
        field: String,
        /// The alternatives.
        expected: &'static str,
    },
    /// A peer is named by domain.
    #[error("{field}: domain names are not resolved; use networks")]
    DomainNames {
        /// Path of the field.
        field: String,
    },
    /// A direction has more rules than there are priorities.
    #[error("{field}: {count} rules, but at most {MAX_ADMIN_RULES} have priorities")]
    TooManyRules {
        /// Path of the rules.
        field: &'static str,
        /// Number of rules.
        count: usize,
    },
    /// A BaselineAdminNetworkPolicy has another name than [`BASELINE_POLICY`].
    #[error("metadata.name: the one BaselineAdminNetworkPolicy is named {BASELINE_POLICY:?}")]
    Name,
}
