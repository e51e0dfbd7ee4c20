//! `NetworkAttachmentDefinition`: how a network is present in one namespace.

use crate::custom_resource;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

custom_resource! {
    /// How a network is present in one namespace.
    #[derive(Default)]
    NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec;
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", namespaced: true
}

/// The `spec` of a [`NetworkAttachmentDefinition`] (group `k8s.cni.cncf.io`, version `v1`).
///
/// The definition of this resource belongs to Multus; the one derived here is for clusters without it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI network configuration: one JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

impl NetworkAttachmentDefinition {
    /// Name of the `ClusterUserDefinedNetwork` that controls the definition; none for definitions of others.
    pub fn cluster_network(&self) -> Option<&str> {
        self.controller("ClusterUserDefinedNetwork")
    }

    /// Name of the `UserDefinedNetwork` that controls the definition; none for definitions of others.
    pub fn namespace_network(&self) -> Option<&str> {
        self.controller("UserDefinedNetwork")
    }

    fn controller(&self, kind: &str) -> Option<&str> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        (owner.kind == kind && owner.api_version == "k8s.ovn.org/v1").then_some(owner.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_of_the_cluster_network_that_controls_it() {
        let of = |kind: &str, version: &str, controls: bool| {
            let owner = json!({
                "apiVersion": version, "kind": kind, "name": "red", "uid": "1", "controller": controls,
            });
            let mut nad = NetworkAttachmentDefinition::default();
            nad.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
            nad.cluster_network().map(str::to_owned)
        };
        let (kind, version) = ("ClusterUserDefinedNetwork", "k8s.ovn.org/v1");
        assert_eq!(of(kind, version, true).as_deref(), Some("red"));
        assert_eq!(of(kind, version, false), None);
        assert_eq!(of(kind, "k8s.ovn.org/v2", true), None);
        assert_eq!(of("UserDefinedNetwork", version, true), None);
    }
}
