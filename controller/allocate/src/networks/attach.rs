//! Attachment definitions: one in the namespace of a UDN, one in every selected namespace of a
//! CUDN.

mod cluster_networks;
mod refusal;
mod removal;

use cluster_networks::{attach_cudn, plans, remove_unselected};
use patchbay_model::PRIMARY_NETWORK_LABEL;
use patchbay_model::config_check::{ConfigError, user_defined_config};
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Sourced, describe,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::object::{Object, Time};
use patchbay_resources::udn::NetworkRole;
pub use refusal::{
    RefusedWrite, note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
use removal::{finish_deleted, remove_orphans};
use thiserror::Error;

use super::definition::{MANAGED_ANNOTATIONS, add_finalizer, is_controlled_by, rendered_meta};
use super::evpn::EvpnIdError;
use super::manager::ManagerSettings;
use super::memory::Memory;
use super::render::{NetworkRequest, RequestError};
use super::status;

/// Reason why a namespace has no attachment definition.
#[derive(Debug, Error)]
enum AttachError {
    #[error("failed to get namespace {0:?}: namespace {0:?} not found")]
    NoNamespace(String),
    #[error(
        "invalid primary network state for namespace {0:?}: a valid primary user defined network or network attachment \
         definition custom resource, and required namespace label {PRIMARY_NETWORK_LABEL:?} must both be present"
    )]
    NoPrimaryLabel(String),
    #[error("failed to generate NetworkAttachmentDefinition: {0}")]
    Request(#[from] RequestError),
    #[error(
        "failed to generate NetworkAttachmentDefinition: failed to render CNI network config: {0}"
    )]
    Config(#[from] ConfigError),
    #[error("primary network already exist in namespace {namespace:?}: {other:?}")]
    SecondPrimary { namespace: String, other: String },
    #[error(
        "failed to validate no primary network exist: unmarshal failed [{definition}]: {reason}"
    )]
    Unreadable {
        definition: ObjectKey,
        reason: String,
    },
    #[error("failed to allocate EVPN IDs: {0}")]
    EvpnIds(#[from] EvpnIdError),
    #[error("foreign NetworkAttachmentDefinition with the desired name already exist [{0}]")]
    Foreign(ObjectKey),
}

/// An attachment definition in a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Attached {
    Present,
    /// A client has requested the deletion.
    Deleting,
}

/// Creates, updates and removes attachment definitions as the custom resources require, in the
/// order of the custom resources, and writes the outcome into their status.
///
/// Definitions are removed first, so that a namespace that one network leaves is free for another
/// one. A definition that pods use stays. As in OVN-Kubernetes, a network that has left all its
/// namespaces is a new one in those that it joins.
pub(super) fn attach(
    inventory: &mut Inventory,
    settings: &ManagerSettings,
    memory: &mut Memory,
    now: &Time,
) {
    remove_orphans(inventory);
    finish_deleted(inventory, &settings.cluster, now);
    memory.fabric_ids.restore(inventory);
    let mut plans = plans(inventory, settings);
    let mut removed = remove_unselected(inventory, &plans);
    for network in &removed.networks {
        memory.forget(network);
    }
    memory.left = std::mem::take(&mut removed.networks);
    let mut owners: Vec<(u64, Owner)> = Vec::new();
    owners.extend(
        inventory
            .user_defined_networks
            .iter()
            .filter(|(_, udn)| udn.object.metadata.deletion_timestamp.is_none())
            .map(|(key, udn)| (udn.position, Owner::Udn(key.clone()))),
    );
    owners.extend(
        inventory
            .cluster_user_defined_networks
            .iter()
            .filter(|(_, cudn)| cudn.object.metadata.deletion_timestamp.is_none())
            .map(|(key, cudn)| (cudn.position, Owner::Cudn(key.clone()))),
    );
    owners.sort_by_key(|(position, _)| *position);
    for (_, owner) in owners {
        match owner {
            Owner::Udn(key) => attach_udn(inventory, &key, settings, now),
            Owner::Cudn(key) => {
                let errors = removed.errors.remove(&key).unwrap_or_default();
                if let Some(plan) = plans.remove(&key) {
                    let fabric_ids = &mut memory.fabric_ids;
                    attach_cudn(inventory, &key, plan, errors, settings, fabric_ids, now);
                }
            }
        }
    }
}

enum Owner {
    Udn(ObjectKey),
    Cudn(ObjectKey),
}

fn attach_udn(inventory: &mut Inventory, key: &ObjectKey, settings: &ManagerSettings, now: &Time) {
    let Some(udn) = inventory.user_defined_networks.get_mut(key) else {
        return;
    };
    add_finalizer(udn.object.meta_mut());
    let udn = udn.clone();
    let namespace = key.namespace.clone().unwrap_or_default();
    let outcome = NetworkRequest::of_udn(key, &udn.object.spec)
        .map_err(AttachError::from)
        .and_then(|request| {
            check_primary(inventory, &request, &namespace)?;
            attach_namespace(inventory, &udn, &request, &namespace, settings)
        });
    let outcome = match outcome {
        Ok(Attached::Present) => status::UdnOutcome::Created,
        Ok(Attached::Deleting) => status::UdnOutcome::DefinitionDeleted,
        Err(error) => status::UdnOutcome::Failed(error.to_string()),
    };
    if let Some(udn) = inventory.user_defined_networks.get_mut(key) {
        status::udn_created(&mut udn.object, outcome, now);
    }
}

/// Checks that the namespace of a primary network may have one.
fn check_primary(
    inventory: &Inventory,
    request: &NetworkRequest<'_>,
    namespace: &str,
) -> Result<(), AttachError> {
    if request.config.role() != NetworkRole::Primary {
        return Ok(());
    }
    let labels = inventory
        .namespaces
        .named(namespace)
        .ok_or_else(|| AttachError::NoNamespace(namespace.to_owned()))?
        .labels();
    if labels.contains_key(PRIMARY_NETWORK_LABEL) {
        Ok(())
    } else {
        Err(AttachError::NoPrimaryLabel(namespace.to_owned()))
    }
}

fn attach_namespace<T: InventoryKind>(
    inventory: &mut Inventory,
    owner: &Sourced<T>,
    request: &NetworkRequest<'_>,
    namespace: &str,
    settings: &ManagerSettings,
) -> Result<Attached, AttachError> {
    let primary = request.config.role() == NetworkRole::Primary;
    let key = ObjectKey::namespaced(namespace, owner.object.name_any());
    let spec = NetworkAttachmentDefinitionSpec {
        config: Some(request.render(&key.to_string(), &settings.cluster)?),
    };
    let mut nad = NetworkAttachmentDefinition::new("", spec);
    nad.metadata = rendered_meta(&owner.object, &key);
    let nads = &mut inventory.network_attachment_definitions;
    let Some(existing) = nads.get_mut(&key) else {
        if primary {
            check_no_primary(inventory, namespace)?;
        }
        inventory.network_attachment_definitions.insert(Sourced {
            origin: Origin::Rendered(describe(&owner.object)),
            position: owner.position,
            object: nad,
        });
        return Ok(Attached::Present);
    };
    if !is_controlled_by(&existing.object, &owner.object) {
        return Err(AttachError::Foreign(key));
    }
    // Annotations and fields of other programs stay.
    let meta = &mut existing.object.metadata;
    let noted = meta
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(MANAGED_ANNOTATIONS));
    let noted: Vec<_> = noted
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    nad.annotations_mut().extend(noted);
    meta.labels = nad.metadata.labels;
    meta.annotations = nad
        .metadata
        .annotations
        .filter(|annotations| !annotations.is_empty());
    let is_deleting = meta.deletion_timestamp.is_some();
    existing.object.spec = nad.spec;
    existing.position = owner.position;
    Ok(if is_deleting {
        Attached::Deleting
    } else {
        Attached::Present
    })
}

/// Checks that no definition in a namespace is that of a primary network. One that cannot be read
/// may be.
fn check_no_primary(inventory: &Inventory, namespace: &str) -> Result<(), AttachError> {
    let nads = &inventory.network_attachment_definitions;
    let mut unreadable = None;
    for (key, nad) in nads.in_namespace(namespace) {
        let config = nad.object.spec.config.as_deref().unwrap_or_default();
        match user_defined_config(nad.object.spec.config.as_deref()) {
            Ok(Some(config)) if config.is_primary() => {
                return Err(AttachError::SecondPrimary {
                    namespace: namespace.to_owned(),
                    other: key.name.clone(),
                });
            }
            _ if config.is_empty() => {
                unreadable = Some((key, "unexpected end of JSON input".to_owned()));
            }
            Ok(_) => {}
            Err(error) => unreadable = Some((key, error.to_string())),
        }
    }
    match unreadable {
        None => Ok(()),
        Some((definition, reason)) => Err(AttachError::Unreadable {
            definition: definition.clone(),
            reason,
        }),
    }
}
