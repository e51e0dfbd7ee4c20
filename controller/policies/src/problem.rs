//! Reasons why policies do not apply as their objects specify.

use std::fmt;
use std::sync::Arc;

use patchbay_model::{
    ACL_LOGGING, AdminPolicyKey, AdminPolicyProblem, EGRESS_FIREWALL, Feature, FirewallProblem,
    HOST_CIDRS, NadKey, POLICY_FOR, PolicyFieldProblem, PolicyKey,
};
use thiserror::Error;

/// Reason why an object does not apply as it specifies. `Display` names the object and the field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyProblem {
    /// The object.
    pub subject: PolicySubject,
    /// The reason.
    pub reason: PolicyProblemReason,
}

/// Object with a problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicySubject {
    /// A policy.
    Policy(PolicyKey),
    /// A namespace.
    Namespace(Arc<str>),
    /// The EgressFirewall of a namespace.
    Firewall(Arc<str>),
    /// A policy of an administrator.
    Admin(AdminPolicyKey),
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            PolicySubject::Policy(key) => write!(f, "{key}: {}", self.reason),
            PolicySubject::Admin(key) => write!(f, "{key}: {}", self.reason),
            PolicySubject::Namespace(name) => write!(f, "Namespace {name}: {}", self.reason),
            PolicySubject::Firewall(namespace) => write!(
                f,
                "EgressFirewall {namespace}/{EGRESS_FIREWALL}: {}",
                self.reason
            ),
        }
    }
}

/// Reason of a [`PolicyProblem`].
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PolicyProblemReason {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] PolicyFieldProblem),
    /// A MultiNetworkPolicy names a definition without a network.
    #[error("metadata.annotations[{POLICY_FOR}]: NetworkAttachmentDefinition {0} has no network")]
    NoNetwork(NadKey),
    /// A MultiNetworkPolicy names a definition of a primary network.
    #[error(
        "metadata.annotations[{POLICY_FOR}]: the network of NetworkAttachmentDefinition {0} is \
         primary, so NetworkPolicies apply to it"
    )]
    PrimaryNetwork(NadKey),
    /// A policy selects peers by labels in a network that does not manage addresses.
    #[error(
        "spec: network {0} does not manage addresses, so peers are selected by ipBlock only; the \
         policy does not apply there"
    )]
    NoAddresses(Arc<str>),
    /// An egress rule names a port of peers by address, or in a network without addresses.
    #[error(
        "spec.{field}.ports: port {name:?} is that of a pod, so it allows nothing to peers with \
         ipBlock and in networks without addresses"
    )]
    NamedPort {
        /// Path of the rule below `spec`.
        field: String,
        /// Name of the port.
        name: String,
    },
    /// The severities of a namespace's ACLs cannot be read.
    #[error("metadata.annotations[{ACL_LOGGING}]: {0}")]
    Logging(String),
    /// A field of an EgressFirewall cannot be used, so none of its rules applies.
    #[error("{0}; no rule applies")]
    Firewall(FirewallProblem),
    /// A rule of an EgressFirewall names destinations that are not looked up.
    #[error(
        "spec.egress[{index}].to.dnsName: {name:?} is not resolved, so the rule does not apply; \
         use cidrSelector"
    )]
    DnsName {
        /// Position of the rule.
        index: usize,
        /// The DNS name.
        name: String,
    },
    /// An EgressFirewall has more rules than there are priorities.
    #[error("spec.egress: {count} rules, but at most {limit} have priorities; no rule applies")]
    TooManyRules {
        /// Number of rules.
        count: usize,
        /// Largest number of rules.
        limit: usize,
    },
    /// A field of an administrator's policy cannot be used, so its rows stay as they are.
    #[error("{0}; rows of the policy stay as they are")]
    Admin(AdminPolicyProblem),
    /// The severities of the ACLs of an administrator's policy cannot be read. As in
    /// OVN-Kubernetes, its rows stay as they are.
    #[error("metadata.annotations[{ACL_LOGGING}]: {0}; rows of the policy stay as they are")]
    AdminLogging(String),
    /// A rule selects a node whose addresses cannot be read. As in OVN-Kubernetes, the rows of the
    /// firewall or the administrator's policy stay as they are.
    #[error(
        "spec.{field}: selects node {node}, whose annotation {HOST_CIDRS} cannot be read; rows \
         stay as they are"
    )]
    UnreadNode {
        /// Path of the rule's peers below `spec`.
        field: String,
        /// Name of the first such node.
        node: Arc<str>,
    },
    /// Two policies of administrators have the same priority.
    #[error(
        "spec.priority: {priority} is that of AdminNetworkPolicy {other}, too, so it is undefined \
         whose rule decides where both match"
    )]
    EqualPriority {
        /// The priority.
        priority: i64,
        /// Name of the other policy.
        other: Arc<str>,
    },
    /// The database has no tiers of ACLs.
    #[error("the Northbound database has no tiers of ACLs (OVN before 23.06), so no rule applies")]
    NoTiers,
    /// The object's feature is off.
    #[error("feature {0} is off, so the object has no effect; see --enable")]
    FeatureOff(Feature),
}
