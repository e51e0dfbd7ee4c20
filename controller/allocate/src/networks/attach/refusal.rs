//! Definitions that an API server refuses, in the status of their custom resources.

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::object::{Object as _, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, NetworkStatus, UserDefinedNetwork};

use crate::networks::definition::{controller, has_finalizer};
use crate::networks::status::{self, NETWORK_CREATED};

/// Write of an attachment definition that an API server refuses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedDefinition {
    /// Namespace and name of the definition.
    pub key: ObjectKey,
    /// Message of the API server.
    pub message: String,
}

/// Notes in the status of custom resources that their definitions could not be written. One that is
/// being deleted keeps its finalizer. `before` has the objects as they are, `after` as they should
/// be.
///
/// Returns the UIDs of the custom resources.
pub fn note_refused_definitions(
    before: &Inventory,
    after: &mut Inventory,
    refused: &[RefusedDefinition],
    now: &Time,
) -> Vec<String> {
    let mut noted = Vec::new();
    for one in refused {
        let nads = |inventory: &Inventory| {
            let nad = inventory.network_attachment_definitions.get(&one.key);
            nad.map(|nad| nad.object.clone())
        };
        let (old, new) = (nads(before), nads(after));
        let message = &one.message;
        let error = match (&old, &new) {
            (None, _) => format!("failed to create NetworkAttachmentDefinition: {message}"),
            (Some(_), Some(_)) => {
                format!("failed to update NetworkAttachmentDefinition: {message}")
            }
            (Some(old), None) => {
                let step = if has_finalizer(&old.metadata) {
                    "failed to remove NetworkAttachmentDefinition finalizer: "
                } else {
                    ""
                };
                let key = &one.key;
                format!("failed to delete NetworkAttachmentDefinition [{key}]: {step}{message}")
            }
        };
        let nad = new.as_ref().or(old.as_ref());
        let Some(owner) = nad.and_then(controller).cloned() else {
            continue;
        };
        if owner.kind == UserDefinedNetwork::KIND {
            let namespace = one.key.namespace.clone().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, owner.name);
            keep::<UserDefinedNetwork>(before, after, &key, |udn| &mut udn.status);
            if let Some(udn) = after.user_defined_networks.get_mut(&key) {
                let outcome = status::UdnOutcome::Failed(error);
                status::udn_created(&mut udn.object, outcome, now);
                noted.push(owner.uid);
            }
        } else {
            let key = ObjectKey::cluster(owner.name);
            let is_first = !noted.contains(&owner.uid);
            let mut errors = Vec::new();
            if is_first {
                keep::<ClusterUserDefinedNetwork>(before, after, &key, |cudn| &mut cudn.status);
            } else if let Some(cudn) = after.cluster_user_defined_networks.get(&key) {
                let conditions = cudn
                    .object
                    .status
                    .iter()
                    .flat_map(|status| &status.conditions);
                let created = conditions.filter(|condition| condition.type_ == NETWORK_CREATED);
                errors.extend(created.map(|condition| condition.message.clone()));
            }
            errors.push(error);
            if let Some(cudn) = after.cluster_user_defined_networks.get_mut(&key) {
                let outcome = status::CudnOutcome::Failed(errors);
                status::cudn_definitions(&mut cudn.object, &outcome, now);
                noted.push(owner.uid);
            }
        }
    }
    noted
}

/// Restores the finalizers of a custom resource, and its conditions, so that one that stays has no
/// other time.
fn keep<T: InventoryKind + Clone>(
    before: &Inventory,
    after: &mut Inventory,
    key: &ObjectKey,
    status_of: fn(&mut T) -> &mut Option<NetworkStatus>,
) {
    let (Some(old), Some(new)) = (
        T::objects(before).get(key),
        T::objects_mut(after).get_mut(key),
    ) else {
        return;
    };
    let mut old = old.object.clone();
    if old.meta().deletion_timestamp.is_some() {
        let finalizers = &mut new.object.meta_mut().finalizers;
        finalizers.clone_from(&old.meta().finalizers);
    }
    status_of(&mut new.object).clone_from(status_of(&mut old));
}
