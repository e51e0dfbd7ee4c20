//! Provider keys: which attachment definition leads to a subnet.

use std::fmt;

/// Provider of the subnets of pods that no attachment definition names.
const DEFAULT_PROVIDER: &str = "ovn";

/// Provider of a subnet.
///
/// ```
/// use patchbay_model::vpc::{AttachmentProvider, SubnetProvider};
///
/// assert_eq!(SubnetProvider::parse(""), SubnetProvider::Default);
/// let provider = AttachmentProvider::new("alpha", "net");
/// assert_eq!(SubnetProvider::parse("net.alpha.ovn"), SubnetProvider::Attachment(provider));
/// assert_eq!(SubnetProvider::parse("a.b.alpha.ovn"), SubnetProvider::Foreign);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SubnetProvider {
    /// Pods' own interfaces (`ovn`, or empty).
    Default,
    /// Interfaces of an attachment definition.
    Attachment(AttachmentProvider),
    /// Another program. OVN has nothing of the subnet.
    Foreign,
}

impl SubnetProvider {
    /// Reads the field `provider` of a subnet as Kube-OVN does.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() || text == DEFAULT_PROVIDER {
            return Self::Default;
        }
        let mut fields = text.split('.');
        match [(); 4].map(|()| fields.next()) {
            [Some(name), Some(namespace), Some(DEFAULT_PROVIDER), None] => {
                Self::Attachment(AttachmentProvider::new(namespace, name))
            }
            _ => Self::Foreign,
        }
    }

    /// Name of the port of a machine in a subnet with this provider.
    pub fn port_name(&self, machine: &str, namespace: &str) -> String {
        match self {
            Self::Attachment(provider) => format!("{machine}.{namespace}.{provider}"),
            Self::Default | Self::Foreign => format!("{machine}.{namespace}"),
        }
    }

    /// `true` if OVN serves the subnet.
    pub fn is_of_ovn(&self) -> bool {
        *self != Self::Foreign
    }
}

/// Provider of an attachment definition: `<name>.<namespace>.ovn`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AttachmentProvider {
    /// Namespace of the attachment definition.
    pub namespace: String,
    /// Name of the attachment definition.
    pub name: String,
}

impl AttachmentProvider {
    /// Provider of the attachment definition with this name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for AttachmentProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{DEFAULT_PROVIDER}", self.name, self.namespace)
    }
}
