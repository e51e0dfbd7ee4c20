//! `IPAMClaim`: addresses that outlive the pods that use them.

use crate::custom_resource;
use crate::object::Condition;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

custom_resource! {
    /// Addresses that exist longer than the pods that use them.
    #[derive(Default)]
    IPAMClaim, IpamClaimSpec, status: IpamClaimStatus;
    "k8s.cni.cncf.io", "v1alpha1", "ipamclaims", namespaced: true
}

/// The `spec` of an [`IPAMClaim`] (group `k8s.cni.cncf.io`, version `v1alpha1`).
///
/// The definition of this resource belongs to the network plumbing group; the one derived here is for clusters
/// without it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IpamClaimSpec {
    /// Name of the network that the addresses belong to.
    pub network: String,
    /// Name of the pod's interface.
    pub interface: String,
}

/// The `status` of an [`IPAMClaim`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct IpamClaimStatus {
    /// Addresses, each with the prefix length of its range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Pod that uses the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_pod: Option<OwnerPod>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A pod in the namespace of its claim.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OwnerPod {
    /// Name of the pod.
    pub name: String,
}
