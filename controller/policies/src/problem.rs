//! Reasons why policies do not apply as their objects say.

use std::fmt;
use std::sync::Arc;

use patchbay_model::{ACL_LOGGING, NadKey, POLICY_FOR, PolicyFieldProblem, PolicyKey};
use thiserror::Error;

/// Reason why an object does not apply as it says. `Display` names the object and the field.
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
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            PolicySubject::Policy(key) => write!(f, "{key}: {}", self.reason),
            PolicySubject::Namespace(name) => write!(f, "Namespace {name}: {}", self.reason),
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
    /// A rule selects peers by labels in a network that does not manage addresses.
    #[error(
        "spec.{field}: network {network} does not manage addresses, so peers are selected by \
         ipBlock only"
    )]
    NoAddresses {
        /// Path of the rule below `spec`.
        field: String,
        /// The network.
        network: Arc<str>,
    },
    /// An egress rule names a port of peers that are not selected by labels.
    #[error(
        "spec.{field}.ports: port {name:?} is that of a pod, so it needs a peer with podSelector \
         or namespaceSelector"
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
}
