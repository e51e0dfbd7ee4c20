//! `NetworkAttachmentDefinition`: how a network is present in one namespace.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The `spec` of a [`NetworkAttachmentDefinition`] (group `k8s.cni.cncf.io`, version `v1`).
///
/// The definition of this resource belongs to Multus, so no schema is derived for it here.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, CustomResource)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    shortname = "net-attach-def",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(deny_unknown_fields)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI network configuration: one JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}
