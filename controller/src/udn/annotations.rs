//! Annotations that the cluster half reads and writes.

use std::collections::BTreeMap;

use ipnet::IpNet;
use kube::core::ObjectMeta;

/// Node: its addresses on transit switches, `{"ipv4": .., "ipv6": ..}`.
pub const NODE_TRANSIT_ADDRESSES: &str = "k8s.ovn.org/node-transit-switch-port-ifaddr";

/// The value of an annotation; empty counts as missing.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

/// A node's addresses on transit switches, IPv4 first, with the length of the range; none if it has no annotation.
pub(super) fn transit_addresses(meta: &ObjectMeta) -> Result<Vec<IpNet>, serde_json::Error> {
    let text = annotation(meta, NODE_TRANSIT_ADDRESSES).unwrap_or("{}");
    // The keys are `ipv4` and `ipv6`.
    let addresses: BTreeMap<String, IpNet> = serde_json::from_str(text)?;
    Ok(addresses.into_values().collect())
}

/// Sets an annotation.
pub(super) fn annotate(meta: &mut ObjectMeta, key: &str, value: impl Into<String>) {
    meta.annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.into());
}

/// The field path of an annotation.
pub(super) fn annotation_field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
