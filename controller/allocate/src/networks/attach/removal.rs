//! Removal of the attachment definitions of custom resources that are gone or are being deleted.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::config_check::checked_config;
use patchbay_model::{ClusterSettings, CniConfig};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Problem, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Object, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use crate::networks::definition::{controller, has_finalizer, own_definitions, remove_finalizer};
use crate::networks::deletion::{Deletion, delete_definition};
use crate::networks::evpn;
use crate::networks::outcome::DefinitionOutcome;
use crate::networks::resource::{NetworkResource, is_allocated};
use crate::networks::status::{note_definitions, note_transport};

/// Removes the definitions of custom resources that are being deleted, and then the finalizer that
/// keeps those. A custom resource stays while a definition of somebody else defines its network.
pub(super) fn finish_deleted<T: NetworkResource>(
    inventory: &mut Inventory,
    definitions: &mut Definitions,
    settings: &ClusterSettings,
    now: &Time,
) {
    let deleted: Vec<ObjectKey> = T::objects(inventory)
        .iter()
        .filter(|(_, sourced)| is_deleted_with_finalizer(&sourced.object))
        .map(|(key, _)| key.clone())
        .collect();
    for key in deleted {
        let Some(mut sourced) = T::objects(inventory).get(&key).cloned() else {
            continue;
        };
        let object = &mut sourced.object;
        let mut errors = Vec::new();
        let mut is_waiting = false;
        for nad in own_definitions(object, inventory) {
            match delete_definition(inventory, &nad) {
                Ok(deletion) => {
                    is_waiting |= deletion == Deletion::Waiting && is_allocated(object);
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        let network = T::network_name(&key);
        is_waiting |= definitions.has_network(&network, inventory, settings);
        if errors.is_empty() && is_waiting {
            errors.push(format!(
                "cannot remove {}, controller for network {network} is still running",
                if object.as_cudn().is_some() { "cluster UDN" } else { "UDN" }
            ));
        }
        if errors.is_empty() {
            remove_finalizer(object.meta_mut());
        }
        // As in OVN-Kubernetes, an object that others keep has no problem any more.
        let outcome = if errors.is_empty() {
            DefinitionOutcome::Created(BTreeSet::new())
        } else {
            DefinitionOutcome::Failed(errors)
        };
        if object.meta().finalizers.is_some() {
            let cudn = object.as_cudn();
            let problem = cudn.and_then(|cudn| evpn::problem(cudn, inventory, settings));
            note_definitions(object, &outcome, now);
            note_transport(object, problem.as_ref(), inventory, settings, now);
        }
        T::objects_mut(inventory).put(sourced);
    }
}

/// Definitions of networks. They are read when the first custom resource is deleted.
#[derive(Default)]
pub(super) struct Definitions(Option<BTreeMap<String, BTreeSet<ObjectKey>>>);

impl Definitions {
    /// `true` if a definition that exists still defines the network.
    fn has_network(
        &mut self,
        network: &str,
        inventory: &Inventory,
        settings: &ClusterSettings,
    ) -> bool {
        let nads = &inventory.network_attachment_definitions;
        let by_network = self.0.get_or_insert_with(|| {
            let mut by_network = BTreeMap::<String, BTreeSet<ObjectKey>>::new();
            for (key, nad) in nads.iter() {
                let config =
                    checked_config(&key.to_string(), nad.object.spec.config.as_deref(), settings)
                        .ok()
                        .flatten();
                if let Some(config) = config.filter(is_managed) {
                    let keys = by_network.entry(config.name).or_default();
                    keys.insert(key.clone());
                }
            }
            by_network
        });
        let mut keys = by_network.get(network).into_iter().flatten();
        keys.any(|key| nads.get(key).is_some())
    }
}

/// `true` if the cluster manager has something to do for a network: not for physical ones without
/// addresses.
fn is_managed(config: &CniConfig) -> bool {
    let subnets = config.subnets.as_deref().unwrap_or_default();
    config.topology != "localnet" || !subnets.is_empty()
}

fn is_deleted_with_finalizer<T: Object>(object: &T) -> bool {
    object.meta().deletion_timestamp.is_some() && has_finalizer(object.meta())
}

/// Removes definitions whose custom resource no longer exists: those of an earlier run, and those
/// that the garbage collector of a cluster deletes. Definitions in the manifests stay.
pub(super) fn remove_orphans(inventory: &mut Inventory) {
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
    let orphans: Vec<_> =
        nads.filter(|(_, nad)| is_orphan(nad)).map(|(key, _)| key.clone()).collect();
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
