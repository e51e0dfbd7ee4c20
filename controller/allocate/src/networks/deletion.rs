//! Deletion of attachment definitions, which waits for the pods of their network.

use std::collections::BTreeMap;

use patchbay_model::POD_NETWORKS;
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object;
use serde_json::Value;
use thiserror::Error;

use super::definition::{FINALIZER, has_finalizer};

/// Reason why an attachment definition stays.
#[derive(Debug, Error)]
#[error("failed to delete NetworkAttachmentDefinition [{nad}]: {reason}")]
pub(super) struct DefinitionStays {
    nad: ObjectKey,
    reason: Use,
}

/// Use of the network of an attachment definition.
#[derive(Debug, Error)]
enum Use {
    #[error("network in use by the following pods: [{}]", .0.join(" "))]
    Pods(Vec<String>),
    #[error(
        "failed to verify NAD not in use [{nad}]: failed to unmarshal pod annotation [{pod}]: \
         failed to unmarshal ovn pod annotation {text:?}: {reason}"
    )]
    Unknown { nad: String, pod: String, text: Box<str>, reason: serde_json::Error },
}

/// Outcome of the deletion of an attachment definition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Deletion {
    /// It goes.
    Done,
    /// It goes once other programs have removed their finalizers.
    Waiting,
}

/// Removes an attachment definition, unless pods use its network, or may use it.
///
/// # Errors
/// [`DefinitionStays`].
pub(super) fn delete_definition(
    inventory: &mut Inventory,
    key: &ObjectKey,
) -> Result<Deletion, DefinitionStays> {
    let Some(nad) = inventory.network_attachment_definitions.get(key) else {
        return Ok(Deletion::Done);
    };
    let meta = &nad.object.metadata;
    let is_protected = has_finalizer(meta);
    if is_protected {
        check_unused(inventory, key)
            .map_err(|reason| DefinitionStays { nad: key.clone(), reason })?;
    }
    let mut finalizers = meta.finalizers.iter().flatten();
    let is_waiting = finalizers.any(|finalizer| finalizer != FINALIZER);
    if !is_waiting || is_protected || meta.deletion_timestamp.is_none() {
        inventory.network_attachment_definitions.remove(key);
    }
    Ok(if is_waiting { Deletion::Waiting } else { Deletion::Done })
}

/// Checks that no pod in the namespace of an attachment definition uses it. Completed pods use it,
/// too.
fn check_unused(inventory: &Inventory, nad: &ObjectKey) -> Result<(), Use> {
    let namespace = nad.namespace.as_deref().unwrap_or_default();
    let attachment = nad.to_string();
    let mut users = Vec::new();
    for (key, pod) in inventory.pods.in_namespace(namespace) {
        let Some(text) = pod.object.annotations().get(POD_NETWORKS) else {
            continue;
        };
        let networks: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|reason| Use::Unknown {
                nad: attachment.clone(),
                pod: key.to_string(),
                text: text.as_str().into(),
                reason,
            })?;
        if networks.contains_key(&attachment) {
            users.push(key.to_string());
        }
    }
    if users.is_empty() { Ok(()) } else { Err(Use::Pods(users)) }
}
