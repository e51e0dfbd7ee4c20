//! `NetworkAttachmentDefinition`: how a network is present in one namespace.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `spec` of a [`NetworkAttachmentDefinition`] (group `k8s.cni.cncf.io`, version `v1`).
///
/// The definition of this resource belongs to Multus; the one derived here is for clusters without it.
#[derive(
    Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema, CustomResource,
)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    namespaced,
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(deny_unknown_fields)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI network configuration: one JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}
