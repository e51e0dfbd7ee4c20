//! RouteAdvertisements of OVN-Kubernetes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::custom_resource;

use super::{Condition, LabelSelector};

custom_resource! {
    /// Networks that nodes announce to routers outside of the cluster. The cluster manager of
    /// OVN-Kubernetes writes the status.
    #[derive(Default)]
    RouteAdvertisements, #[serde(default)] RouteAdvertisementsSpec, status: RouteAdvertisementsStatus;
    "k8s.ovn.org", "v1", "routeadvertisements", namespaced: false
}

/// Specification of [`RouteAdvertisements`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteAdvertisementsSpec {
    /// `PodNetwork`, `EgressIP`.
    pub advertisements: Vec<String>,
    /// Nodes that announce the networks.
    pub node_selector: LabelSelector,
    /// The networks. Attachment definitions name the objects that select them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_selectors: Vec<Value>,
    /// Configurations of the routing daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frr_configuration_selector: Option<LabelSelector>,
    /// Routing domain of the announcements.
    #[serde(rename = "targetVRF", skip_serializing_if = "String::is_empty")]
    pub target_vrf: String,
}

/// Status of [`RouteAdvertisements`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteAdvertisementsStatus {
    /// Summary.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Conditions: `Accepted`.
    pub conditions: Vec<Condition>,
}
