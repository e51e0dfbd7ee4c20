//! Attachment definitions: one in the namespace of a UDN, one in every selected namespace of a
//! CUDN.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_resources::object::Namespace;
use patchbay_resources::object::Object;
use patchbay_resources::object::ObjectMeta;
use patchbay_resources::object::{OwnerReference, Time};
use thiserror::Error;

use super::cni::user_defined_config;
use super::render::{ConfigError, NetworkRequest, RequestError};
use super::status;
use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{ClusterSettings, NETWORK_ID, NETWORK_NAME, PRIMARY_NETWORK_LABEL};
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Problem, Sourced, describe,
};
use patchbay_resources::nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use patchbay_resources::selector::{self, LabelIndex};
use patchbay_resources::udn::{NetworkRole, Transport, UserDefinedNetwork};

/// Label of every attachment definition that was made for a custom resource.
const USER_DEFINED_LABEL: &str = "k8s.ovn.org/user-defined-network";
/// Finalizer of a network that pods may still use.
const FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";
/// Start of the annotations that are not copied from the custom resource.
const MANAGED_ANNOTATIONS: &str = "k8s.ovn.org";
/// What all definitions of a network say, wherever they are.
const OF_THE_NETWORK: [&str; 3] = [NETWORK_NAME, NETWORK_ID, TUNNEL_KEYS];

/// Annotations that are the network's, not the single definition's.
type NetworkAnnotations = BTreeMap<String, String>;

/// Why a namespace does not get its attachment definition.
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

/// Makes, updates and removes attachment definitions until they are what the custom resources ask
/// for, in the order in which those were given, and writes the outcome into their status.
///
/// What goes goes first: a namespace that one network leaves is free for another one, whichever was
/// given first.
pub(super) fn attach(inventory: &mut Inventory, settings: &ClusterSettings, now: &Time) {
    remove_orphans(inventory);
    let mut selected = selected_namespaces(inventory);
    let left = remove_unselected(inventory, &selected);
    let mut owners: Vec<(u64, Owner)> = Vec::new();
    owners.extend(
        inventory
            .user_defined_networks
            .iter()
            .map(|(key, udn)| (udn.position, Owner::Udn(key.clone()))),
    );
    owners.extend(
        inventory
            .cluster_user_defined_networks
            .iter()
            .map(|(key, cudn)| (cudn.position, Owner::Cudn(key.clone()))),
    );
    owners.sort_by_key(|(position, _)| *position);
    for (_, owner) in owners {
        match owner {
            Owner::Udn(key) => attach_udn(inventory, &key, settings, now),
            Owner::Cudn(key) => {
                let known = left.get(&key).cloned().unwrap_or_default();
                let selected = selected.remove(&key).unwrap_or_default();
                attach_cudn(inventory, &key, selected, &known, settings, now);
            }
        }
    }
}

enum Owner {
    Udn(ObjectKey),
    Cudn(ObjectKey),
}

fn attach_udn(inventory: &mut Inventory, key: &ObjectKey, settings: &ClusterSettings, now: &Time) {
    let Some(udn) = inventory.user_defined_networks.get_mut(key) else {
        return;
    };
    add_finalizer(udn.object.meta_mut());
    let udn = udn.clone();
    let namespace = key.namespace.clone().unwrap_or_default();
    let outcome = NetworkRequest::of_udn(key, &udn.object.spec)
        .map_err(AttachError::from)
        .and_then(|request| {
            // Its only definition is where the UDN is, and stays there.
            let known = NetworkAnnotations::new();
            attach_namespace(inventory, &udn, &request, &namespace, &known, settings)
        });
    if let Some(udn) = inventory.user_defined_networks.get_mut(key) {
        status::udn_created(
            &mut udn.object,
            outcome.map_err(|error| error.to_string()),
            now,
        );
    }
}

/// Attaches a network to the selected namespaces. `known` has the annotations of the network's
/// removed definitions.
fn attach_cudn(
    inventory: &mut Inventory,
    key: &ObjectKey,
    selected: BTreeSet<String>,
    known: &NetworkAnnotations,
    settings: &ClusterSettings,
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
        let mut errors = Vec::new();
        for namespace in &selected {
            let attached = NetworkRequest::of_cudn(&key.name, &cudn.object.spec)
                .map_err(AttachError::from)
                .and_then(|request| {
                    attach_namespace(inventory, &cudn, &request, namespace, known, settings)
                });
            errors.extend(attached.err().map(|error| error.to_string()));
        }
        if errors.is_empty() {
            status::CudnOutcome::Created(selected)
        } else {
            status::CudnOutcome::Failed(errors)
        }
    };
    if let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(key) {
        status::cudn_created(&mut cudn.object, &outcome, now);
    }
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
    settings: &ClusterSettings,
) -> Result<(), AttachError> {
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
        config: Some(request.render(&key.to_string(), settings)?),
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
        return Ok(());
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
    add_finalizer(meta);
    existing.object.spec = nad.spec;
    existing.position = owner.position;
    Ok(())
}

/// Name of the definition of a primary network in a namespace.
fn primary_nad(inventory: &Inventory, namespace: &str) -> Option<String> {
    let mut nads = inventory
        .network_attachment_definitions
        .in_namespace(namespace);
    nads.find(|(_, nad)| matches!(user_defined_config(&nad.object), Ok(Some(config)) if config.is_primary()))
        .map(|(key, _)| key.name.clone())
}

fn rendered_meta<T: InventoryKind>(owner: &T, key: &ObjectKey) -> ObjectMeta {
    let copied = owner
        .annotations()
        .iter()
        .filter(|(key, _)| !key.starts_with(MANAGED_ANNOTATIONS));
    let annotations: std::collections::BTreeMap<_, _> = copied
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut labels = owner.labels().clone();
    labels.insert(USER_DEFINED_LABEL.into(), String::new());
    ObjectMeta {
        namespace: key.namespace.clone(),
        name: Some(key.name.clone()),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        finalizers: Some(vec![FINALIZER.into()]),
        owner_references: Some(vec![OwnerReference {
            api_version: T::api_version(),
            kind: T::KIND.to_owned(),
            name: owner.name_any(),
            // Manifests have no uid: only a cluster hands them out.
            uid: owner.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

fn add_finalizer(meta: &mut ObjectMeta) {
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
}

fn controller(nad: &NetworkAttachmentDefinition) -> Option<&OwnerReference> {
    nad.owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
}

/// Whether the definition was made for this object. Where only one side has a uid, it came from a
/// cluster and the other side from a manifest: then the names decide.
fn is_controlled_by<T: InventoryKind>(nad: &NetworkAttachmentDefinition, object: &T) -> bool {
    controller(nad).is_some_and(|owner| {
        let uid = object.uid().unwrap_or_default();
        owner.api_version == T::api_version()
            && owner.kind == T::KIND
            && owner.name == object.name_any()
            && (owner.uid == uid || owner.uid.is_empty() || uid.is_empty())
    })
}

/// Removes definitions of an earlier run whose custom resource no longer exists. Definitions in the
/// manifests stay.
fn remove_orphans(inventory: &mut Inventory) {
    let is_orphan = |nad: &Sourced<NetworkAttachmentDefinition>| {
        let (Origin::State(_), Some(owner)) = (&nad.origin, controller(&nad.object)) else {
            return false;
        };
        if owner.kind == UserDefinedNetwork::KIND {
            let namespace = nad.object.namespace().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, &owner.name);
            inventory.user_defined_networks.get(&key).is_none()
        } else {
            inventory
                .cluster_user_defined_networks
                .named(&owner.name)
                .is_none()
        }
    };
    let nads = inventory.network_attachment_definitions.iter();
    let orphans: Vec<_> = nads
        .filter(|(_, nad)| is_orphan(nad))
        .map(|(key, _)| key.clone())
        .collect();
    for key in orphans {
        inventory.network_attachment_definitions.remove(&key);
    }
}

/// Removes definitions from namespaces that their networks no longer select. Returns the annotations
/// with the networks' ids and keys, which definitions in other namespaces keep.
fn remove_unselected(
    inventory: &mut Inventory,
    selected: &BTreeMap<ObjectKey, BTreeSet<String>>,
) -> BTreeMap<ObjectKey, NetworkAnnotations> {
    let mut left = BTreeMap::<ObjectKey, NetworkAnnotations>::new();
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
        let of_the_network = annotations.filter(|(key, _)| OF_THE_NETWORK.contains(&key.as_str()));
        left.entry(cudn_key)
            .or_default()
            .extend(of_the_network.map(|(key, value)| (key.clone(), value.clone())));
        unselected.push(key.clone());
    }
    for key in unselected {
        inventory.network_attachment_definitions.remove(&key);
    }
    left
}
