//! Names of networks.
//!
//! Kubernetes names have no `_`, so every name leads back to its object.

use crate::source::ObjectKey;

/// Name of the network of a UDN.
pub(super) fn udn_network(key: &ObjectKey) -> String {
    format!(
        "{}_{}",
        key.namespace.as_deref().unwrap_or_default(),
        key.name
    )
}

/// Name of the network of a CUDN.
pub(super) fn cudn_network(name: &str) -> String {
    format!("cluster_udn_{name}")
}
