//! Attachment definitions: one in the namespace of a UDN, one in every selected namespace of a
//! CUDN.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_resources::object::{Namespace, Object, Time};
use thiserror::Error;

use super::config::{ConfigError, user_defined_config};
use super::definition::{
    MANAGED_ANNOTATIONS, add_finalizer, controller, has_finalizer, is_controlled_by,
    remove_finalizer, rendered_meta,
};
use super::deletion::delete_definition;
use super::manager::ManagerSettings;
use super::render::{NetworkRequest, RequestError};
use super::status;
use super::transport::{self, Advertised};
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{NETWORK_ID, NETWORK_NAME, PRIMARY_NETWORK_LABEL};
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Problem, Sourced, describe,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::selector::{self, LabelIndex};
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, NetworkRole, Transport, UserDefinedNetwork,
};

/// Annotations that all definitions of a network have in common.
const NETWORK_ANNOTATIONS: [&str; 3] = [NETWORK_NAME, NETWORK_ID, TUNNEL_KEYS];

/// Values of [`NETWORK_ANNOTATIONS`].
type NetworkAnnotations = BTreeMap<String, String>;

/// Reason why a namespace has no attachment definition.
#[derive(Debug, Error)]
enum AttachError {
    #[error("failed to get namespace {0:?}: namespaces {0:?} not found")]
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

/// Creates, updates and removes attachment definitions as the custom resources require, in the order
/// of the custom resources, and writes the outcome into their status.
///
/// Definitions are removed first, so that a namespace that one network leaves is free for another
/// one. A definition that pods use stays.
pub(super) fn attach(inventory: &mut Inventory, settings: &ManagerSettings, now: &Time) {
    remove_orphans(inventory);
    finish_deleted(inventory, now);
    let mut selected = selected_namespaces(inventory);
    let mut left = remove_unselected(inventory, &selected);
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
                let left = left.remove(&key).unwrap_or_default();
                let selected = selected.remove(&key).unwrap_or_default();
                attach_cudn(inventory, &key, selected, &left, settings, now);
            }
        }
    }
}

enum Owner {
    Udn(ObjectKey),
    Cudn(ObjectKey),
}

/// Outcome of the removal of definitions from namespaces that a network has left.
#[derive(Debug, Default)]
struct RemovedDefinitions {
    /// Network annotations of the removed definitions.
    annotations: NetworkAnnotations,
    /// Reasons why other definitions stay.
    errors: Vec<String>,
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
            // The only definition stays in the namespace of the UDN.
            let known = NetworkAnnotations::new();
            attach_namespace(inventory, &udn, &request, &namespace, &known, settings)
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

/// Attaches a network to the selected namespaces.
fn attach_cudn(
    inventory: &mut Inventory,
    key: &ObjectKey,
    selected: BTreeSet<String>,
    left: &RemovedDefinitions,
    settings: &ManagerSettings,
    now: &Time,
) {
    let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(key) else {
        return;
    };
    add_finalizer(cudn.object.meta_mut());
    let cudn = cudn.clone();
    if selected.is_empty() {
        inventory.warnings.push(Problem {
            location: cudn.origin.location().cloned(),
            object: Some(describe(&cudn.object)),
            field: Some("spec.namespaceSelector".into()),
            message: "selects no namespace".into(),
        });
    }
    // EVPN needs a fabric, its VTEPs and a routing daemon on every node, which Patchbay does not have.
    let outcome = if cudn.object.spec.network.transport == Some(Transport::Evpn) {
        status::CudnOutcome::EvpnDisabled
    } else {
        let mut errors = left.errors.clone();
        let mut deleting = Vec::new();
        for namespace in &selected {
            let attached = NetworkRequest::of_cudn(&key.name, &cudn.object.spec)
                .map_err(AttachError::from)
                .and_then(|request| {
                    let known = &left.annotations;
                    attach_namespace(inventory, &cudn, &request, namespace, known, settings)
                });
            match attached {
                Ok(Attached::Present) => {}
                Ok(Attached::Deleting) => deleting.push(format!("{namespace}/{}", key.name)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if !errors.is_empty() {
            status::CudnOutcome::Failed(errors)
        } else if !deleting.is_empty() {
            status::CudnOutcome::DefinitionsDeleted(deleting)
        } else {
            status::CudnOutcome::Created(selected)
        }
    };
    let advertised = Advertised::of(&cudn.object, inventory, settings.route_advertisements);
    if let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(key) {
        status::cudn_definitions(&mut cudn.object, &outcome, now);
        transport::note(&mut cudn.object, &outcome, &advertised, now);
    }
}

/// Removes the definitions of custom resources that are being deleted, and then the finalizer that
/// keeps those.
fn finish_deleted(inventory: &mut Inventory, now: &Time) {
    let udns = inventory.user_defined_networks.iter();
    let deleted: Vec<ObjectKey> = udns
        .filter(|(_, udn)| is_deleted_with_finalizer(&udn.object))
        .map(|(key, _)| key.clone())
        .collect();
    for key in deleted {
        let Some(udn) = inventory.user_defined_networks.get(&key) else {
            continue;
        };
        let nads = &inventory.network_attachment_definitions;
        let is_own = nads
            .get(&key)
            .is_some_and(|nad| is_controlled_by(&nad.object, &udn.object));
        let removed = if is_own {
            delete_definition(inventory, &key)
        } else {
            Ok(())
        };
        let Some(udn) = inventory.user_defined_networks.get_mut(&key) else {
            continue;
        };
        match removed {
            Ok(()) => remove_finalizer(&mut udn.object.metadata),
            Err(error) => {
                let outcome = status::UdnOutcome::Failed(error.to_string());
                status::udn_created(&mut udn.object, outcome, now);
            }
        }
    }
    let cudns = inventory.cluster_user_defined_networks.iter();
    let deleted: Vec<ObjectKey> = cudns
        .filter(|(_, cudn)| is_deleted_with_finalizer(&cudn.object))
        .map(|(key, _)| key.clone())
        .collect();
    for key in deleted {
        let Some(cudn) = inventory.cluster_user_defined_networks.get(&key) else {
            continue;
        };
        let nads = inventory.network_attachment_definitions.iter();
        let own: Vec<ObjectKey> = nads
            .filter(|(_, nad)| is_controlled_by(&nad.object, &cudn.object))
            .map(|(key, _)| key.clone())
            .collect();
        let mut errors = Vec::new();
        for nad in own {
            let removed = delete_definition(inventory, &nad);
            errors.extend(removed.err().map(|error| error.to_string()));
        }
        let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(&key) else {
            continue;
        };
        if errors.is_empty() {
            remove_finalizer(&mut cudn.object.metadata);
        } else {
            let outcome = status::CudnOutcome::Failed(errors);
            status::cudn_definitions(&mut cudn.object, &outcome, now);
        }
    }
}

fn is_deleted_with_finalizer<T: Object>(object: &T) -> bool {
    object.meta().deletion_timestamp.is_some() && has_finalizer(object.meta())
}

/// The namespaces that each ClusterUserDefinedNetwork selects. A namespace that is being deleted is
/// none of them.
fn selected_namespaces(inventory: &Inventory) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let staying = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_none();
    let namespaces: LabelIndex<'_, &String> = inventory
        .namespaces
        .iter()
        .filter(|(_, namespace)| staying(&namespace.object))
        .map(|(key, namespace)| (&key.name, namespace.object.labels()))
        .collect();
    inventory
        .cluster_user_defined_networks
        .iter()
        .filter_map(|(key, cudn)| {
            let labels = &cudn.object.spec.namespace_selector;
            let selector = selector::parse("spec.namespaceSelector", labels).ok()?;
            let selected = namespaces.select(&selector).into_iter();
            Some((key.clone(), selected.map(|name| (*name).clone()).collect()))
        })
        .collect()
}

fn attach_namespace<T: InventoryKind>(
    inventory: &mut Inventory,
    owner: &Sourced<T>,
    request: &NetworkRequest<'_>,
    namespace: &str,
    known: &NetworkAnnotations,
    settings: &ManagerSettings,
) -> Result<Attached, AttachError> {
    let primary = request.config.role() == NetworkRole::Primary;
    let labels = inventory
        .namespaces
        .named(namespace)
        .ok_or_else(|| AttachError::NoNamespace(namespace.to_owned()))?
        .labels();
    if primary && !labels.contains_key(PRIMARY_NETWORK_LABEL) {
        return Err(AttachError::NoPrimaryLabel(namespace.to_owned()));
    }
    let key = ObjectKey::namespaced(namespace, owner.object.name_any());
    let spec = NetworkAttachmentDefinitionSpec {
        config: Some(request.render(&key.to_string(), &settings.cluster)?),
    };
    let mut nad = NetworkAttachmentDefinition::new("", spec);
    nad.metadata = rendered_meta(&owner.object, &key);
    let nads = &mut inventory.network_attachment_definitions;
    let Some(existing) = nads.get_mut(&key) else {
        if let Some(other) = primary_nad(inventory, namespace).filter(|_| primary) {
            return Err(AttachError::SecondPrimary {
                namespace: namespace.to_owned(),
                other,
            });
        }
        if !known.is_empty() {
            nad.annotations_mut().extend(known.clone());
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
    if existing.object.metadata.deletion_timestamp.is_some() {
        return Ok(Attached::Deleting);
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
    add_finalizer(meta);
    existing.object.spec = nad.spec;
    existing.position = owner.position;
    Ok(Attached::Present)
}

/// Name of the definition of a primary network in a namespace.
fn primary_nad(inventory: &Inventory, namespace: &str) -> Option<String> {
    let mut nads = inventory
        .network_attachment_definitions
        .in_namespace(namespace);
    nads.find(|(_, nad)| matches!(user_defined_config(&nad.object), Ok(Some(config)) if config.is_primary()))
        .map(|(key, _)| key.name.clone())
}

/// Removes definitions whose custom resource no longer exists: those of an earlier run, and those
/// that the garbage collector of a cluster deletes. Definitions in the manifests stay.
fn remove_orphans(inventory: &mut Inventory) {
    let is_orphan = |nad: &Sourced<NetworkAttachmentDefinition>| {
        let Some(owner) = controller(&nad.object) else {
            return false;
        };
        let is_left = match nad.origin {
            Origin::State(_) => true,
            _ => is_deleted_with_finalizer(&nad.object),
        };
        let exists = if owner.kind == UserDefinedNetwork::KIND {
            let namespace = nad.object.namespace().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, &owner.name);
            let undecoded = (UserDefinedNetwork::KIND, key.clone());
            inventory.user_defined_networks.get(&key).is_some()
                || inventory.undecoded.contains(&undecoded)
        } else {
            let key = ObjectKey::cluster(&owner.name);
            let undecoded = (ClusterUserDefinedNetwork::KIND, key.clone());
            inventory.cluster_user_defined_networks.get(&key).is_some()
                || inventory.undecoded.contains(&undecoded)
        };
        is_left && !exists
    };
    let nads = inventory.network_attachment_definitions.iter();
    let orphans: Vec<_> = nads
        .filter(|(_, nad)| is_orphan(nad))
        .map(|(key, _)| key.clone())
        .collect();
    for key in orphans {
        if let Err(error) = delete_definition(inventory, &key) {
            inventory.warnings.push(Problem {
                object: Some(format!("NetworkAttachmentDefinition {key}")),
                message: error.to_string(),
                ..Problem::default()
            });
        }
    }
}

/// Removes definitions from namespaces that their networks no longer select. The annotations with
/// the networks' ids and keys are returned, which definitions in other namespaces keep.
fn remove_unselected(
    inventory: &mut Inventory,
    selected: &BTreeMap<ObjectKey, BTreeSet<String>>,
) -> BTreeMap<ObjectKey, RemovedDefinitions> {
    let mut unselected = Vec::new();
    for (key, nad) in inventory.network_attachment_definitions.iter() {
        let Some(owner) = nad.object.controlling_cudn() else {
            continue;
        };
        let cudn_key = ObjectKey::cluster(owner);
        let cudn = inventory.cluster_user_defined_networks.get(&cudn_key);
        if !cudn.is_some_and(|cudn| is_controlled_by(&nad.object, &cudn.object)) {
            continue;
        }
        let of_network = selected.get(&cudn_key);
        if of_network
            .zip(key.namespace.as_ref())
            .is_some_and(|(selected, namespace)| selected.contains(namespace))
        {
            continue;
        }
        let annotations = nad.object.annotations().iter();
        let of_the_network: NetworkAnnotations = annotations
            .filter(|(key, _)| NETWORK_ANNOTATIONS.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        unselected.push((cudn_key, key.clone(), of_the_network));
    }
    let mut left = BTreeMap::<ObjectKey, RemovedDefinitions>::new();
    for (cudn, nad, annotations) in unselected {
        let left = left.entry(cudn).or_default();
        match delete_definition(inventory, &nad) {
            Ok(()) => left.annotations.extend(annotations),
            Err(error) => left.errors.push(error.to_string()),
        }
    }
    left
}
