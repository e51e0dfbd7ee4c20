//! Objects of `MetalLB` (`metallb.io`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::custom_resource;
use crate::object::LabelSelector;

custom_resource! {
    /// Addresses for services of type `LoadBalancer`.
    #[derive(Default)]
    IPAddressPool, #[serde(default)] IpAddressPoolSpec, status: Value;
    "metallb.io", "v1beta1", "ipaddresspools", namespaced: true
}

custom_resource! {
    /// Announcement of pools by ARP and NDP.
    #[derive(Default)]
    L2Advertisement, #[serde(default)] PoolAdvertisementSpec, status: Value;
    "metallb.io", "v1beta1", "l2advertisements", namespaced: true
}

custom_resource! {
    /// Announcement of pools by BGP.
    #[derive(Default)]
    BGPAdvertisement, #[serde(default)] PoolAdvertisementSpec, status: Value;
    "metallb.io", "v1beta1", "bgpadvertisements", namespaced: true
}

custom_resource! {
    /// Router that announcements by BGP are sent to.
    #[derive(Default)]
    BGPPeer, #[serde(default)] BgpPeerSpec, status: Value;
    "metallb.io", "v1beta2", "bgppeers", namespaced: true
}

/// Specification of an [`IPAddressPool`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct IpAddressPoolSpec {
    /// CIDRs, and ranges `a-b`.
    pub addresses: Vec<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Specification of an [`L2Advertisement`] or a [`BGPAdvertisement`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolAdvertisementSpec {
    /// Names of pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_address_pools: Vec<String>,
    /// Selectors of pools. Without names and selectors, all pools are announced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_address_pool_selectors: Vec<LabelSelector>,
    /// Interfaces of an announcement by ARP and NDP. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Names of the peers of an announcement by BGP. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Specification of a [`BGPPeer`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct BgpPeerSpec {
    /// All fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
