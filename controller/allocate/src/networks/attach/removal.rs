//! Removal of the attachment definitions of custom resources that are gone or are being deleted.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::config_check::checked_config;
use patchbay_model::{ClusterSettings, CniConfig, Feature, names};
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Problem, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Object, Time};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use crate::networks::definition::{controller, has_finalizer, is_controlled_by, remove_finalizer};
use crate::networks::deletion::{Deletion, delete_definition};
use crate::networks::transport::{self, Advertised};
use crate::networks::{evpn, status};

/// Removes the definitions of custom resources that are being deleted, and then the finalizer that
/// keeps those. A custom resource stays while a definition of somebody else defines its network.
pub(super) fn finish_deleted(inventory: &mut Inventory, settings: &ClusterSettings, now: &Time) {
    let mut definitions = Definitions::default();
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
            Ok(Deletion::Done)
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let network = names::udn_network(namespace, &key.name);
        let is_defined = definitions.has_network(&network, inventory, settings);
        let Some(udn) = inventory.user_defined_networks.get_mut(&key) else {
            continue;
        };
        let error = match removed {
            Ok(Deletion::Done) if !is_defined => {
                let meta = &mut udn.object.metadata;
                remove_finalizer(meta);
                if meta.finalizers.is_some() {
                    // As in OVN-Kubernetes, it has no problem any more.
                    status::udn_created(&mut udn.object, status::UdnOutcome::Created, now);
                }
                continue;
            }
            Ok(_) => {
                format!("cannot remove UDN, controller for network {network} is still running")
            }
            Err(error) => error.to_string(),
        };
        status::udn_created(&mut udn.object, status::UdnOutcome::Failed(error), now);
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
        let network = names::cudn_network(&key.name);
        let localnet = cudn.object.spec.network.localnet.as_ref();
        let is_unmanaged = localnet.is_some_and(|localnet| localnet.subnets.is_none());
        let mut errors = Vec::new();
        let mut is_waiting = false;
        for nad in own {
            match delete_definition(inventory, &nad) {
                Ok(deletion) => is_waiting |= deletion == Deletion::Waiting && !is_unmanaged,
                Err(error) => errors.push(error.to_string()),
            }
        }
        is_waiting |= definitions.has_network(&network, inventory, settings);
        let transport = inventory.cluster_user_defined_networks.get(&key);
        let transport = transport.map(|cudn| {
            let is_feature_on = settings.has_feature(Feature::RouteAdvertisements);
            let problem = evpn::problem(&cudn.object, inventory, settings);
            let advertised = Advertised::of(&cudn.object, inventory, is_feature_on);
            (problem, advertised)
        });
        let Some(cudn) = inventory.cluster_user_defined_networks.get_mut(&key) else {
            continue;
        };
        if errors.is_empty() && is_waiting {
            errors.push(format!(
                "cannot remove cluster UDN, controller for network {network} is still running"
            ));
        }
        let outcome = if errors.is_empty() {
            let meta = &mut cudn.object.metadata;
            remove_finalizer(meta);
            if meta.finalizers.is_none() {
                continue;
            }
            status::CudnOutcome::Created(BTreeSet::new())
        } else {
            status::CudnOutcome::Failed(errors)
        };
        status::cudn_definitions(&mut cudn.object, &outcome, now);
        if let Some((problem, advertised)) = &transport {
            transport::note(&mut cudn.object, problem.as_ref(), advertised, now);
        }
    }
}

/// Definitions of networks. They are read when the first custom resource is deleted.
#[derive(Default)]
struct Definitions(Option<BTreeMap<String, BTreeSet<ObjectKey>>>);

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
                let config = checked_config(
                    &key.to_string(),
                    nad.object.spec.config.as_deref(),
                    settings,
                )
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
