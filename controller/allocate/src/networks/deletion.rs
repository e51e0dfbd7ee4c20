//! Deletion of attachment definitions, which waits for the pods of their network.

use patchbay_model::{POD_NETWORKS, PodNetworks};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::Object;
use thiserror::Error;

use super::definition::has_finalizer;

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
    key: &ObjectKey,
) -> Result<(), DefinitionInUse> {
    let pods = users_of(inventory, key);
    let nads = &mut inventory.network_attachment_definitions;
    let is_protected = nads
        .get(key)
        .is_some_and(|nad| has_finalizer(&nad.object.metadata));
    if is_protected && !pods.is_empty() {
        let nad = key.clone();
        return Err(DefinitionInUse { nad, pods });
    }
    nads.remove(key);
    Ok(())
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
