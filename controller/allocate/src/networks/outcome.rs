//! Outcome of the attachment definitions of a custom resource, as its condition has it.

use std::collections::BTreeSet;

use super::evpn::EvpnProblem;

/// Outcome of the attachment definitions of a custom resource.
pub(super) enum DefinitionOutcome {
    /// They are in these namespaces.
    Created(BTreeSet<String>),
    /// Somebody deletes some, whose namespaces and names these are.
    Deleting(Vec<String>),
    /// Error messages, one for each namespace.
    Failed(Vec<String>),
    /// The network is on an EVPN fabric, and cannot be.
    Evpn(EvpnProblem),
}

impl DefinitionOutcome {
    /// Status, reason and message of the condition. `is_cluster`: of a ClusterUserDefinedNetwork,
    /// which may have several definitions.
    pub(super) fn condition(&self, is_cluster: bool) -> (bool, &'static str, String) {
        match self {
            Self::Created(namespaces) => {
                let created = "NetworkAttachmentDefinition has been created";
                let message = if is_cluster {
                    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
                    format!("{created} in following namespaces: [{}]", namespaces.join(", "))
                } else {
                    created.to_owned()
                };
                (true, "NetworkAttachmentDefinitionCreated", message)
            }
            Self::Deleting(definitions) => {
                let message = if is_cluster {
                    let definitions = definitions.join(" ");
                    format!("NetworkAttachmentDefinition are being deleted: [{definitions}]")
                } else {
                    "NetworkAttachmentDefinition is being deleted".to_owned()
                };
                (false, "NetworkAttachmentDefinitionDeleted", message)
            }
            Self::Failed(errors) if is_cluster => {
                (false, "NetworkAttachmentDefinitionSyncError", errors.join("\n"))
            }
            Self::Failed(errors) => (false, "SyncError", errors.join("\n")),
            Self::Evpn(EvpnProblem::Config(problem)) => {
                (false, "EVPNConfigError", (*problem).to_owned())
            }
            Self::Evpn(EvpnProblem::VtepMissing(vtep)) => (
                false,
                "VTEPNotFound",
                format!(
                    "Cannot create network: VTEP '{vtep}' does not exist. Create the VTEP CR first or update the CUDN to \
                     reference an existing VTEP."
                ),
            ),
            Self::Evpn(EvpnProblem::VtepUnknown(vtep)) => (
                false,
                "VTEPUnknown",
                format!(
                    "Cannot create network: VTEPs cannot be listed, so VTEP '{vtep}' is not known."
                ),
            ),
            Self::Evpn(EvpnProblem::VtepNotAccepted(vtep)) => (
                false,
                "VTEPNotAccepted",
                format!(
                    "Cannot create network: VTEP '{vtep}' exists but is not accepted. The VTEP must be in Accepted \
                     status before the network can be created."
                ),
            ),
        }
    }
}
