//! EgressIPs of OVN-Kubernetes.

use serde::{Deserialize, Serialize};

use super::{ApiVersion, KindName, LabelSelector, Object, ObjectMeta};

/// Addresses with which packets of chosen pods leave the cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EgressIP {
    /// `apiVersion`.
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: EgressIPSpec,
    /// Status, which the cluster manager of OVN-Kubernetes writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<EgressIPStatus>,
}

impl Object for EgressIP {
    const GROUP: &'static str = "k8s.ovn.org";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EgressIP";
    const PLURAL: &'static str = "egressips";
    const NAMESPACED: bool = false;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
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
