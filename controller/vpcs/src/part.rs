//! Parts: objects with the rows that follow from them.

use std::fmt;
use std::sync::Arc;

use patchbay_model::vpc::{BalancerKind, NatKey, NatKind};
use patchbay_rows::RowView;
use smol_str::{SmolStr, format_smolstr};

/// External id with kind and name of the object that a row follows from.
pub(super) const OWNER: &str = "owner";

/// An object with rows.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// `Vpc`.
    Vpc(Arc<str>),
    /// `Subnet`.
    Subnet(Arc<str>),
    /// `OvnEip` of a node.
    Eip(Arc<str>),
    /// Rule about an external address.
    Nat(NatKey),
    /// `RouterLBRule`.
    RouterRule(Arc<str>),
    /// `SecurityGroup`.
    Group(Arc<str>),
    /// `Vip`.
    VirtualIp(Arc<str>),
    /// `IPPool`.
    IpPool(Arc<str>),
    /// `IP` of a pod.
    Port(Arc<str>),
}

impl Part {
    /// Kind of the object.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Vpc(_) => "Vpc",
            Self::Subnet(_) => "Subnet",
            Self::Eip(_) => "OvnEip",
            Self::Nat(key) => key.kind.as_str(),
            Self::RouterRule(_) => BalancerKind::RouterRule.as_str(),
            Self::Group(_) => "SecurityGroup",
            Self::VirtualIp(_) => "Vip",
            Self::IpPool(_) => "IPPool",
            Self::Port(_) => "IP",
        }
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Vpc(name)
            | Self::Subnet(name)
            | Self::Eip(name)
            | Self::RouterRule(name)
            | Self::Group(name)
            | Self::VirtualIp(name)
            | Self::IpPool(name)
            | Self::Port(name) => name,
            Self::Nat(key) => &key.name,
        }
    }

    /// Value of [`OWNER`].
    pub(super) fn owner(&self) -> SmolStr {
        format_smolstr!("{}/{}", self.kind(), self.name())
    }

    /// The part that owns a row. `None`: no object does.
    pub(super) fn of_row(row: &RowView<'_>) -> Option<Self> {
        let (kind, name) = row.external_id(OWNER)?.split_once('/')?;
        let name: Arc<str> = name.into();
        Some(match kind {
            "Vpc" => Self::Vpc(name),
            "Subnet" => Self::Subnet(name),
            "OvnEip" => Self::Eip(name),
            "IP" => Self::Port(name),
            "IPPool" => Self::IpPool(name),
            "Vip" => Self::VirtualIp(name),
            "SecurityGroup" => Self::Group(name),
            "RouterLBRule" => Self::RouterRule(name),
            _ => {
                let mut kinds = NatKind::ALL.into_iter();
                let kind = kinds.find(|one| one.as_str() == kind)?;
                Self::Nat(NatKey { kind, name })
            }
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}
