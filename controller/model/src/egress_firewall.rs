//! EgressFirewalls.

use std::sync::Arc;

use ipnet::IpNet;

use super::label_selector::Selector;
use super::object_problem::FieldProblem;
use super::service::Protocol;

/// Name of the one EgressFirewall of a namespace.
pub const EGRESS_FIREWALL: &str = "default";

/// Destinations outside of their network that the pods of a namespace may reach.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EgressFirewall {
    /// The namespace.
    pub namespace: Arc<str>,
    /// Resource version of the object. `None`: the object is not from an API server.
    pub version: Option<Arc<str>>,
    /// Rules, of which the first one that matches decides.
    pub rules: Vec<FirewallRule>,
    /// Fields that cannot be used. If there is one, no rule is applied.
    pub problems: Vec<FieldProblem>,
}

/// Rule of an [`EgressFirewall`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FirewallRule {
    /// Action on the packets.
    pub action: FirewallAction,
    /// Destinations.
    pub destination: FirewallDestination,
    /// Ports of the destinations. Empty: all packets.
    pub ports: Vec<FirewallPort>,
}

/// Action of a rule on packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FirewallAction {
    /// The packets pass.
    Allow,
    /// The packets are dropped.
    Deny,
}

/// Destinations of a [`FirewallRule`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FirewallDestination {
    /// Addresses of a subnet.
    Cidr {
        /// The subnet.
        cidr: IpNet,
        /// The subnet as the object has it, which matches repeat.
        text: String,
    },
    /// Addresses of nodes with labels.
    Nodes(Selector),
    /// Addresses of a DNS name.
    Name(String),
}

/// Ports of a [`FirewallRule`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FirewallPort {
    /// Protocol.
    pub protocol: Protocol,
    /// Port number. `None`: all.
    pub port: Option<u16>,
}
