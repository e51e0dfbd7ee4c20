//! `NetworkAttachmentDefinition`: CNI configuration of a network in one namespace.

use crate::custom_resource;
use crate::object::Object;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

custom_resource! {
    /// CNI configuration of a network in one namespace.
    ///
    /// Multus permits objects without `spec`: their configuration is in a file of each node.
    #[derive(Default)]
    NetworkAttachmentDefinition, #[serde(default)] NetworkAttachmentDefinitionSpec;
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", namespaced: true
}

/// `spec` of a [`NetworkAttachmentDefinition`] (group `k8s.cni.cncf.io`, version `v1`).
///
/// The resource belongs to Multus. The definition derived from this type is for clusters without
/// Multus.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI network configuration: one JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

impl NetworkAttachmentDefinition {
    /// Name of the controlling `ClusterUserDefinedNetwork`. `None`: the object has another
    /// controller or none.
    pub fn controlling_cudn(&self) -> Option<&str> {
        self.controller("ClusterUserDefinedNetwork")
    }

    /// Name of the controlling `UserDefinedNetwork`. `None`: the object has another controller or
    /// none.
    pub fn controlling_udn(&self) -> Option<&str> {
        self.controller("UserDefinedNetwork")
    }

    fn controller(&self, kind: &str) -> Option<&str> {
        let owner = self.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        (owner.kind == kind && owner.api_version == "k8s.ovn.org/v1").then_some(owner.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_controlling_cudn_is_in_the_owner_references() {
        let controlling_cudn = |kind: &str, version: &str, controls: bool| {
            let owner = json!({
                "apiVersion": version, "kind": kind, "name": "red", "uid": "1", "controller": controls,
            });
            let mut nad = NetworkAttachmentDefinition::default();
            nad.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
            nad.controlling_cudn().map(str::to_owned)
        };
        let (kind, version) = ("ClusterUserDefinedNetwork", "k8s.ovn.org/v1");
        assert_eq!(controlling_cudn(kind, version, true).as_deref(), Some("red"));
        assert_eq!(controlling_cudn(kind, version, false), None);
        assert_eq!(controlling_cudn(kind, "k8s.ovn.org/v2", true), None);
        assert_eq!(controlling_cudn("UserDefinedNetwork", version, true), None);
    }
}
