//! External addresses.

use std::net::IpAddr;
use std::sync::Arc;

use crate::FieldProblem;

/// Kind of an external address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EipKind {
    /// Address of a router's port, also usable for translation.
    RouterPort,
    /// Address for translation.
    Nat,
    /// Address of a node's port.
    NodePort,
}

impl EipKind {
    /// Word of the field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RouterPort => "lrp",
            Self::Nat => "nat",
            Self::NodePort => "lsp",
        }
    }

    /// Kind of a word of the field `type`. `None`: there is no such word.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "lrp" => Self::RouterPort,
            "" | "nat" => Self::Nat,
            "lsp" => Self::NodePort,
            _ => return None,
        })
    }
}

/// External address, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Eip {
    /// Name of the object.
    pub name: Arc<str>,
    /// Name of the external subnet.
    pub subnet: Arc<str>,
    /// Kind.
    pub kind: EipKind,
    /// Wished addresses, at most one of each family.
    pub wishes: Vec<IpAddr>,
    /// Wished MAC address. `None`: any.
    pub mac: Option<String>,
    /// Allocated addresses, one of each family of the subnet. Empty: none yet.
    pub addresses: Vec<IpAddr>,
    /// Reason why the address cannot be used. `None`: it can.
    pub problem: Option<FieldProblem>,
}
