//! The part of CNI configurations that tells networks apart.

use serde::Deserialize;

use patchbay_resources::nad::NetworkAttachmentDefinition;

/// The plugin whose configurations describe our networks.
const PLUGIN: &str = "ovn-k8s-cni-overlay";
/// Names of the default network, which has an id of its own.
const DEFAULT_NETWORK_NAMES: [&str; 2] = ["default", "ovn-kubernetes"];

/// What a configuration says about its network; other readers look at the rest.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub(super) struct Cni {
    pub(super) name: String,
    pub(super) topology: String,
    role: String,
    #[serde(rename = "type")]
    plugin: String,
}

impl Cni {
    /// The network of an attachment definition; `None` if it is not one of ours.
    ///
    /// # Errors
    /// The text is not a configuration.
    pub(super) fn read(
        nad: &NetworkAttachmentDefinition,
    ) -> Result<Option<Self>, serde_json::Error> {
        let Some(config) = &nad.spec.config else {
            return Ok(None);
        };
        let cni: Self = serde_json::from_str(config)?;
        let ours = cni.plugin == PLUGIN
            && !cni.topology.is_empty()
            && !DEFAULT_NETWORK_NAMES.contains(&cni.name.as_str());
        Ok(ours.then_some(cni))
    }

    pub(super) fn is_primary(&self) -> bool {
        self.role == "primary"
    }
}
