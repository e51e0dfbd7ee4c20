//! Rows of each kind of object.

mod acl;
pub(super) mod balancer;
mod dhcp;
pub(super) mod group;
pub(super) mod ip_pool;
pub(super) mod nat;
pub(super) mod port;
pub(super) mod router;
pub(super) mod subnet;

use std::collections::BTreeMap;

use patchbay_model::vpc::KUBE_OVN_VENDOR;

use super::part::{OWNER, Part};

/// External ids of every row, and these further ones.
fn ids<const N: usize>(part: &Part, more: [(&str, &str); N]) -> BTreeMap<String, String> {
    let owner = part.owner();
    let all = [("vendor", KUBE_OVN_VENDOR), (OWNER, owner.as_str())];
    map(all.into_iter().chain(more))
}

/// A map of texts.
fn map<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let entries = entries.into_iter();
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Name of a router's port: that of the VPC, and that of the subnet or the other VPC.
fn router_port(vpc: &str, other: &str) -> String {
    format!("{vpc}-{other}")
}

/// Name of a switch's port towards the router of a VPC.
fn router_side(subnet: &str, vpc: &str) -> String {
    format!("{subnet}-{vpc}")
}
