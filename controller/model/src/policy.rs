//! NetworkPolicies and MultiNetworkPolicies.

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use super::label_selector::Selector;
use super::networks::NadKey;
use super::object_kind;
use super::object_problem::FieldProblem;
use super::service::Protocol;

/// Annotation of a MultiNetworkPolicy: attachment definitions of its networks, comma-separated.
pub const POLICY_FOR: &str = "k8s.v1.cni.cncf.io/policy-for";
/// Annotation of a namespace: severities with which ACLs of its policies are logged, as JSON.
pub const ACL_LOGGING: &str = "k8s.ovn.org/acl-logging";
/// Annotation of a namespace: `true` if its pods may exchange multicast packets.
pub const MULTICAST_ENABLED: &str = "k8s.ovn.org/multicast-enabled";

/// Kind of a policy.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PolicyKind {
    /// NetworkPolicy: applies to the primary network of its namespace.
    NetworkPolicy,
    /// MultiNetworkPolicy: applies to the secondary networks that it names.
    MultiNetworkPolicy,
}

impl PolicyKind {
    /// Name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NetworkPolicy => object_kind::NETWORK_POLICY,
            Self::MultiNetworkPolicy => object_kind::MULTI_NETWORK_POLICY,
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kind, namespace and name of a policy. `Display` prints `<kind> <namespace>/<name>`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PolicyKey {
    /// Kind.
    pub kind: PolicyKind,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Direction of packets, as their pods see it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PolicyDirection {
    /// To the pods.
    Ingress,
    /// From the pods.
    Egress,
}

impl PolicyDirection {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Ingress, Self::Egress];
}

impl fmt::Display for PolicyDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "Ingress",
            Self::Egress => "Egress",
        })
    }
}

/// Policy of a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Kind, namespace and name.
    pub key: PolicyKey,
    /// Attachment definitions of the networks of a MultiNetworkPolicy.
    pub definitions: Vec<NadKey>,
    /// Pods of the namespace that the policy isolates. `None`: the selector cannot be read, and no
    /// pod is selected.
    pub pods: Option<Selector>,
    /// Rules for packets to the pods. `None`: the policy types leave ingress out, so the policy is
    /// not about these packets.
    pub ingress: Option<Vec<PolicyRule>>,
    /// Rules for packets from the pods. `None`: the policy types leave egress out.
    pub egress: Option<Vec<PolicyRule>>,
    /// Fields that cannot be used. They allow nothing; the rest of the policy is used.
    pub problems: Vec<FieldProblem>,
}

impl Policy {
    /// Rules of a direction. Empty: none, or the policy is not about the direction.
    pub fn rules(&self, direction: PolicyDirection) -> &[PolicyRule] {
        self.of_direction(direction).unwrap_or_default()
    }

    /// Returns `true` if the policy isolates its pods in a direction.
    pub fn isolates(&self, direction: PolicyDirection) -> bool {
        self.of_direction(direction).is_some()
    }

    fn of_direction(&self, direction: PolicyDirection) -> Option<&[PolicyRule]> {
        match direction {
            PolicyDirection::Ingress => self.ingress.as_deref(),
            PolicyDirection::Egress => self.egress.as_deref(),
        }
    }

    /// Returns `true` if a rule selects peers by labels.
    pub fn has_pod_peers(&self) -> bool {
        let directions = PolicyDirection::BOTH.into_iter();
        let rules = directions.flat_map(|direction| self.rules(direction));
        let mut peers = rules.filter_map(|rule| rule.peers.as_ref());
        peers.any(|peers| !peers.pods.is_empty())
    }
}

/// Rule of a policy: peers and ports that it allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyRule {
    /// Peers. `None`: all.
    pub peers: Option<PolicyPeers>,
    /// Ports of the receiving side. `None`: all packets.
    pub ports: Option<Vec<PolicyPort>>,
}

impl PolicyRule {
    /// Names of ports.
    pub fn named_ports(&self) -> impl Iterator<Item = &str> {
        let ports = self.ports.iter().flatten();
        ports.filter_map(|port| match &port.numbers {
            PortNumbers::Name(name) => Some(name.as_str()),
            PortNumbers::All | PortNumbers::One(_) | PortNumbers::Range(..) => None,
        })
    }
}

/// Peers of a rule.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PolicyPeers {
    /// Peers by labels.
    pub pods: Vec<PodPeer>,
    /// Peers by address.
    pub blocks: Vec<IpBlock>,
}

/// Pods that are peers of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodPeer {
    /// Labels of namespaces. `None`: the namespace of the policy.
    pub namespaces: Option<Selector>,
    /// Labels of pods. `None`: all pods.
    pub pods: Option<Selector>,
}

/// Addresses that are peers of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IpBlock {
    /// The addresses.
    pub cidr: IpNet,
    /// Addresses of [`cidr`](Self::cidr) that are no peers.
    pub except: Vec<IpNet>,
}

/// Ports of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyPort {
    /// Protocol.
    pub protocol: Protocol,
    /// Numbers.
    pub numbers: PortNumbers,
}

/// Port numbers of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PortNumbers {
    /// All of the protocol.
    All,
    /// One number.
    One(u16),
    /// First and last number.
    Range(u16, u16),
    /// The number that the receiving pod gives a container port of this name.
    Name(String),
}
