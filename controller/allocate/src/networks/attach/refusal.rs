//! Writes that an API server refuses, in the status of custom resources.

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::object::{Object as _, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, NetworkStatus, UserDefinedNetwork};

use crate::networks::definition::{controller, has_finalizer};
use crate::networks::status::{self, NETWORK_CREATED};

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

/// Notes in the status of custom resources that their finalizers could not be written. Everything
/// else of them is in `after` as it is in `before`.
pub fn note_refused_finalizers(
    before: &Inventory,
    after: &mut Inventory,
    udns: &[RefusedWrite],
    cudns: &[RefusedWrite],
    now: &Time,
) {
    for RefusedWrite { key, message } in udns {
        let udn = replace_refused::<UserDefinedNetwork>(before, after, key);
        if let Some((step, udn)) = udn {
            let step = match step {
                FinalizerStep::Add => "add",
                FinalizerStep::Remove => "remove",
            };
            let error = format!("failed to {step} finalizer to UserDefinedNetwork: {message}");
            status::udn_created(udn, status::UdnOutcome::Failed(error), now);
        }
    }
    for RefusedWrite { key, message } in cudns {
        let cudn = replace_refused::<ClusterUserDefinedNetwork>(before, after, key);
        if let Some((step, cudn)) = cudn {
            let step = match step {
                FinalizerStep::Add => "add finalizer to",
                FinalizerStep::Remove => "remove finalizer from",
            };
            let name = &key.name;
            let error = format!("failed to {step} ClusterUserDefinedNetwork {name:?}: {message}");
            let outcome = status::CudnOutcome::Failed(vec![error]);
            status::cudn_definitions(cudn, &outcome, now);
        }
    }
}

/// Notes in the status of custom resources that they wait, because a cluster has no definition of
/// `NetworkAttachmentDefinition`s. Those that have been created, or are being deleted, stay as they
/// are.
pub fn note_undefined_definitions(inventory: &mut Inventory, message: &str, now: &Time) {
    let error = format!("failed to create NetworkAttachmentDefinition: {message}");
    inventory.user_defined_networks.change_each(|_, udn| {
        let udn = &mut udn.object;
        if udn.metadata.deletion_timestamp.is_none() && !status::is_created(udn.status.as_ref()) {
            status::udn_created(udn, status::UdnOutcome::Failed(error.clone()), now);
        }
    });
    inventory
        .cluster_user_defined_networks
        .change_each(|_, cudn| {
            let cudn = &mut cudn.object;
            if cudn.metadata.deletion_timestamp.is_none()
                && !status::is_created(cudn.status.as_ref())
            {
                let outcome = status::CudnOutcome::Failed(vec![error.clone()]);
                status::cudn_definitions(cudn, &outcome, now);
            }
        });
}

/// Change of a custom resource that an API server refuses.
#[derive(Clone, Copy, Debug)]
enum FinalizerStep {
    Add,
    Remove,
}

/// Makes a custom resource what it was before, if its finalizer differs. Returns it.
fn replace_refused<'a, T: InventoryKind>(
    before: &Inventory,
    after: &'a mut Inventory,
    key: &ObjectKey,
) -> Option<(FinalizerStep, &'a mut T)> {
    let old = T::objects(before).get(key)?;
    let new = T::objects(after).get(key);
    let is_kept = new.is_some_and(|new| has_finalizer(new.object.meta()));
    let step = match (has_finalizer(old.object.meta()), is_kept) {
        (false, true) => FinalizerStep::Add,
        (true, false) => FinalizerStep::Remove,
        _ => return None,
    };
    let objects = T::objects_mut(after);
    objects.insert(old.clone());
    objects
        .get_mut(key)
        .map(|sourced| (step, &mut sourced.object))
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
