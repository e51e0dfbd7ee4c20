//! Writes that an API server refuses, in the status of custom resources.

use patchbay_resources::manifests::{Inventory, ObjectKey, Objects};
use patchbay_resources::object::{Object as _, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use crate::networks::conditions::{NETWORK_CREATED, condition, is_created};
use crate::networks::definition::{controller, has_finalizer};
use crate::networks::outcome::DefinitionOutcome;
use crate::networks::resource::NetworkResource;
use crate::networks::status::note_definitions;

/// Write of an object that an API server refuses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedWrite {
    /// Namespace and name of the object.
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
    refused: &[RefusedWrite],
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
        let is_first = !noted.contains(&owner.uid);
        let is_noted = if owner.kind == UserDefinedNetwork::KIND {
            let namespace = one.key.namespace.clone().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, owner.name);
            note_refused::<UserDefinedNetwork>(before, after, &key, is_first, error, now)
        } else {
            let key = ObjectKey::cluster(owner.name);
            note_refused::<ClusterUserDefinedNetwork>(before, after, &key, is_first, error, now)
        };
        noted.extend(is_noted.then_some(owner.uid));
    }
    noted
}

/// Notes a refused definition in the status of its custom resource, after those that were noted
/// before. Returns `false` if there is no such object.
///
/// With the first one, the finalizers of the custom resource are those that it had, and so are its
/// conditions, so that one that stays has no other time.
fn note_refused<T: NetworkResource>(
    before: &Inventory,
    after: &mut Inventory,
    key: &ObjectKey,
    is_first: bool,
    error: String,
    now: &Time,
) -> bool {
    let Some(new) = T::objects_mut(after).get_mut(key) else {
        return false;
    };
    let mut errors = Vec::new();
    if !is_first {
        let created = condition(new.object.status(), NETWORK_CREATED);
        errors.extend(created.map(|condition| condition.message.clone()));
    } else if let Some(old) = T::objects(before).get(key) {
        if old.object.meta().deletion_timestamp.is_some() {
            let finalizers = &mut new.object.meta_mut().finalizers;
            finalizers.clone_from(&old.object.meta().finalizers);
        }
        *new.object.status_mut() = old.object.status().cloned();
    }
    errors.push(error);
    let outcome = DefinitionOutcome::Failed(errors);
    note_definitions(&mut new.object, &outcome, now);
    true
}

/// Notes in the status of custom resources that their finalizers could not be written. Everything
/// else of them is in `after` as it is in `before`.
pub fn note_refused_finalizers(
    before: &Inventory,
    after: &mut Inventory,
    udns: &[RefusedWrite],
    cudns: &[RefusedWrite],
    now: &Time,
) {
    for write in udns {
        note_refused_finalizer::<UserDefinedNetwork>(before, after, write, now);
    }
    for write in cudns {
        note_refused_finalizer::<ClusterUserDefinedNetwork>(before, after, write, now);
    }
}

/// Notes in the status of custom resources that they wait, because a cluster has no definition of
/// `NetworkAttachmentDefinition`s. Those that have been created, or are being deleted, stay as they
/// are.
pub fn note_undefined_definitions(inventory: &mut Inventory, message: &str, now: &Time) {
    let error = format!("failed to create NetworkAttachmentDefinition: {message}");
    let outcome = DefinitionOutcome::Failed(vec![error]);
    note_undefined(&mut inventory.user_defined_networks, &outcome, now);
    note_undefined(&mut inventory.cluster_user_defined_networks, &outcome, now);
}

fn note_undefined<T: NetworkResource>(
    objects: &mut Objects<T>,
    outcome: &DefinitionOutcome,
    now: &Time,
) {
    objects.change_each(|_, sourced| {
        let object = &mut sourced.object;
        if object.meta().deletion_timestamp.is_none() && !is_created(object.status()) {
            note_definitions(object, outcome, now);
        }
    });
}

/// Makes a custom resource what it was before, if its finalizer differs, and notes the error.
fn note_refused_finalizer<T: NetworkResource>(
    before: &Inventory,
    after: &mut Inventory,
    RefusedWrite { key, message }: &RefusedWrite,
    now: &Time,
) {
    let Some(old) = T::objects(before).get(key) else {
        return;
    };
    let new = T::objects(after).get(key);
    let is_kept = new.is_some_and(|new| has_finalizer(new.object.meta()));
    let was_kept = has_finalizer(old.object.meta());
    if is_kept == was_kept {
        return;
    }
    let mut refused = old.clone();
    let step = if is_kept { "add" } else { "remove" };
    let error = if refused.object.as_cudn().is_some() {
        let preposition = if is_kept { "to" } else { "from" };
        let name = &key.name;
        format!(
            "failed to {step} finalizer {preposition} ClusterUserDefinedNetwork {name:?}: {message}"
        )
    } else {
        format!("failed to {step} finalizer to UserDefinedNetwork: {message}")
    };
    let outcome = DefinitionOutcome::Failed(vec![error]);
    note_definitions(&mut refused.object, &outcome, now);
    T::objects_mut(after).insert(refused);
}
