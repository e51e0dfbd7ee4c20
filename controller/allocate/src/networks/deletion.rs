//! Deletion of attachment definitions, which waits for the pods of their network.

use patchbay_model::{POD_NETWORKS, PodNetworks};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object;
use thiserror::Error;

use super::definition::{FINALIZER, has_finalizer};

/// Reason why an attachment definition stays.
#[derive(Debug, Error)]
#[error(
    "failed to delete NetworkAttachmentDefinition [{nad}]: network in use by the following pods: [{}]",
    .pods.join(" ")
)]
pub(super) struct DefinitionInUse {
    nad: ObjectKey,
    /// Namespaces and names, sorted.
    pods: Vec<String>,
}

/// Outcome of the deletion of an attachment definition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Deletion {
    /// It goes.
    Done,
    /// It goes once other programs have removed their finalizers.
    Waiting,
}

/// Removes an attachment definition, unless pods use its network.
///
/// # Errors
/// [`DefinitionInUse`].
pub(super) fn delete_definition(
    inventory: &mut Inventory,
    key: &ObjectKey,
) -> Result<Deletion, DefinitionInUse> {
    let pods = users_of(inventory, key);
    let nads = &mut inventory.network_attachment_definitions;
    let Some(nad) = nads.get(key) else {
        return Ok(Deletion::Done);
    };
    let meta = &nad.object.metadata;
    let is_protected = has_finalizer(meta);
    if is_protected && !pods.is_empty() {
        let nad = key.clone();
        return Err(DefinitionInUse { nad, pods });
    }
    let mut finalizers = meta.finalizers.iter().flatten();
    let is_waiting = finalizers.any(|finalizer| finalizer != FINALIZER);
    if !is_waiting || is_protected || meta.deletion_timestamp.is_none() {
        nads.remove(key);
    }
    Ok(if is_waiting {
        Deletion::Waiting
    } else {
        Deletion::Done
    })
}

/// Pods in the namespace of an attachment definition that use it, as `<namespace>/<name>`. Completed
/// pods are among them.
fn users_of(inventory: &Inventory, nad: &ObjectKey) -> Vec<String> {
    let namespace = nad.namespace.as_deref().unwrap_or_default();
    let attachment = nad.to_string();
    let users = inventory.pods.in_namespace(namespace).filter(|(_, pod)| {
        let text = pod.object.annotations().get(POD_NETWORKS);
        let networks = text.and_then(|text| PodNetworks::parse(text).ok());
        networks.is_some_and(|networks| networks.get(&attachment).is_some())
    });
    users.map(|(key, _)| key.to_string()).collect()
}
