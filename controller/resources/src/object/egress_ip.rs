//! EgressIPs of OVN-Kubernetes.

use serde::{Deserialize, Serialize};

use crate::custom_resource;

use super::LabelSelector;

custom_resource! {
    /// Addresses with which packets of chosen pods leave the cluster. The cluster manager of
    /// OVN-Kubernetes writes the status.
    #[derive(Default)]
    EgressIP, EgressIPSpec, status: EgressIPStatus;
    "k8s.ovn.org", "v1", "egressips", namespaced: false
}

/// Specification of an [`EgressIP`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressIPSpec {
    /// Requested addresses.
    #[serde(rename = "egressIPs")]
    pub egress_ips: Vec<String>,
    /// Namespaces of the pods.
    #[serde(rename = "namespaceSelector")]
    pub namespace_selector: LabelSelector,
    /// The pods. Empty: all.
    #[serde(rename = "podSelector")]
    pub pod_selector: LabelSelector,
}

/// Status of an [`EgressIP`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressIPStatus {
    /// Assigned addresses.
    pub items: Vec<EgressIPStatusItem>,
}

/// An assigned address.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EgressIPStatusItem {
    /// Name of the node.
    pub node: String,
    /// The address.
    #[serde(rename = "egressIP")]
    pub egress_ip: String,
}
