//! VTEPs of OVN-Kubernetes.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::Condition;

custom_resource! {
    /// Ends of VXLAN tunnels on the nodes, for networks with transport `EVPN`. The cluster manager
    /// of OVN-Kubernetes writes the status.
    #[derive(Default)]
    VTEP, VtepSpec, status: VtepStatus;
    "k8s.ovn.org", "v1", "vteps", namespaced: false
}

/// Specification of [`VTEP`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VtepSpec {
    /// Ranges of the addresses.
    pub cidrs: Vec<String>,
    /// `Managed`, `Unmanaged`: whether OVN-Kubernetes gives the nodes their addresses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

/// Status of [`VTEP`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct VtepStatus {
    /// Conditions: `Accepted`.
    pub conditions: Vec<Condition>,
}
