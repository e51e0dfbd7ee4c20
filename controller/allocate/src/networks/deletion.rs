//! Deletion of attachment definitions, which waits for the pods of their network.

use patchbay_resources::manifests::{Inventory, ObjectKey};
use thiserror::Error;

use super::definition::has_finalizer;
use super::workloads::Workloads;

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

/// Removes an attachment definition, unless pods use its network.
///
/// # Errors
/// [`DefinitionInUse`].
pub(super) fn delete_definition(
    inventory: &mut Inventory,
    workloads: &Workloads,
    key: &ObjectKey,
) -> Result<(), DefinitionInUse> {
    let nads = &mut inventory.network_attachment_definitions;
    let is_protected = nads
        .get(key)
        .is_some_and(|nad| has_finalizer(&nad.object.metadata));
    let pods = workloads.users_of(key);
    if is_protected && !pods.is_empty() {
        let nad = key.clone();
        return Err(DefinitionInUse { nad, pods });
    }
    nads.remove(key);
    Ok(())
}
