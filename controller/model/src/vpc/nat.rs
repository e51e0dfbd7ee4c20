//! Rules about external addresses.

use std::fmt;
use std::sync::Arc;

use crate::Protocol;

/// Kind of a rule. The kinds are evaluated in this order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NatKind {
    /// `OvnSnatRule`.
    Snat,
    /// `OvnFip`.
    Fip,
    /// `OvnDnatRule`.
    Dnat,
}

impl NatKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Snat, Self::Fip, Self::Dnat];

    /// Kind of the objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snat => "OvnSnatRule",
            Self::Fip => "OvnFip",
            Self::Dnat => "OvnDnatRule",
        }
    }

    /// Word for the kind in the status of an external address.
    pub fn usage(self) -> &'static str {
        match self {
            Self::Snat => "snat",
            Self::Fip => "fip",
            Self::Dnat => "dnat",
        }
    }
}

/// Kind and name of a rule.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NatKey {
    /// Kind.
    pub kind: NatKind,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for NatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// Inner addresses of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NatTarget {
    /// All addresses of a subnet.
    Subnet(Arc<str>),
    /// Addresses of the port with this name.
    Port(Arc<str>),
    /// The virtual address with this name.
    VirtualIp(Arc<str>),
    /// Addresses in a VPC, by family.
    Addresses {
        /// The VPC.
        vpc: Arc<str>,
        /// IPv4 address or range.
        v4: Option<String>,
        /// IPv6 address or range.
        v6: Option<String>,
    },
}

/// Port of an external address that leads to a port of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForwardedPort {
    /// Protocol.
    pub protocol: Protocol,
    /// Port of the external address.
    pub external: u16,
    /// Port of the machine.
    pub internal: u16,
}

/// Rule about an external address, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NatRule {
    /// Kind and name.
    pub key: NatKey,
    /// Name of the external address.
    pub eip: Arc<str>,
    /// Inner addresses.
    pub target: NatTarget,
    /// Forwarded port of an `OvnDnatRule`.
    pub port: Option<ForwardedPort>,
    /// `true`: an `OvnFip` is translated on the machine's node.
    pub is_distributed: bool,
    /// Position among the objects: of two rules that exclude each other, the first one is in effect.
    pub position: u64,
}
