//! Attachment definition of a network in one namespace.

use patchbay_model::PRIMARY_NETWORK_LABEL;
use patchbay_model::config_check::{ConfigError, user_defined_config};
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Sourced, describe,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::object::Object as _;
use patchbay_resources::udn::NetworkRole;
use thiserror::Error;

use crate::networks::definition::{MANAGED_ANNOTATIONS, is_controlled_by, rendered_meta};
use crate::networks::evpn::EvpnIdError;
use crate::networks::render::{NetworkRequest, RequestError};
use crate::networks::settings::ManagerSettings;

/// Reason why a namespace has no attachment definition.
#[derive(Debug, Error)]
pub(super) enum AttachError {
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
    Unreadable { definition: ObjectKey, reason: String },
    #[error("failed to allocate EVPN IDs: {0}")]
    EvpnIds(#[from] EvpnIdError),
    #[error("foreign NetworkAttachmentDefinition with the desired name already exist [{0}]")]
    Foreign(ObjectKey),
}

/// An attachment definition in a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Attached {
    Present,
    /// A client has requested the deletion.
    Deleting,
}

/// Checks that the namespace of a primary network may have one.
pub(super) fn check_primary(
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

/// Creates or updates the definition of a network in a namespace.
///
/// # Errors
/// [`AttachError`].
pub(super) fn attach_namespace<T: InventoryKind>(
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
    let Some(existing) = nads.get(&key) else {
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
    let mut updated = existing.clone();
    let meta = &mut updated.object.metadata;
    let noted =
        meta.annotations.iter().flatten().filter(|(key, _)| key.starts_with(MANAGED_ANNOTATIONS));
    nad.annotations_mut().extend(noted.map(|(key, value)| (key.clone(), value.clone())));
    meta.labels = nad.metadata.labels;
    meta.annotations = nad.metadata.annotations.filter(|annotations| !annotations.is_empty());
    let is_deleting = meta.deletion_timestamp.is_some();
    updated.object.spec = nad.spec;
    updated.position = owner.position;
    nads.put(updated);
    Ok(if is_deleting { Attached::Deleting } else { Attached::Present })
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
        Some((definition, reason)) => {
            Err(AttachError::Unreadable { definition: definition.clone(), reason })
        }
    }
}
