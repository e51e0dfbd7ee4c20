//! Network ids and tunnel keys, kept in annotations of attachment definitions.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    ClusterSettings, CniConfig, DatapathKey, NETWORK_ID, NETWORK_NAME, NetworkId,
    ROUTER_TUNNEL_KEY, UninterpretedValue,
};
use patchbay_resources::conversion::is_owned_by_network;
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced, describe};
use patchbay_resources::nad::NetworkAttachmentDefinition;

use super::annotations::{annotate, annotation, annotation_field};
use super::config::checked_config;
use super::memory::Memory;

/// A network, its attachment definitions, and the allocations in their annotations.
struct DefinedNetwork {
    name: String,
    /// Keys of the definitions. The first one defines the network.
    nads: Vec<ObjectKey>,
    /// `true` if the first definition belongs to the custom resource of the network.
    is_rendered: bool,
    needs_router_key: bool,
    id: Option<NetworkId>,
    /// Tunnel keys, and the definition whose annotation has them.
    keys: Option<(ObjectKey, Vec<DatapathKey>)>,
    /// Configuration, without the fields that differ between definitions of a network.
    config: CniConfig,
    /// Definitions with another configuration.
    inconsistent_nads: Vec<ObjectKey>,
    /// `true` if the annotations cannot be used.
    is_unusable: bool,
}

/// Allocates missing network ids, and missing router keys of primary layer2 networks.
///
/// Networks are in the order of their first definitions. An allocated id or key is the next free
/// one after the last one. A network whose annotations cannot be used is not changed. The returned
/// problems name its annotations.
pub(super) fn complete(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    memory: &mut Memory,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut networks = read_networks(inventory, settings, &mut problems);
    let ids = reserve_ids(inventory, &mut networks, &mut problems);
    allocate_ids(inventory, &mut networks, ids, memory, &mut problems);
    let mut keys = reserve_keys(inventory, &mut networks, &mut problems);
    let (first, last) = (
        DatapathKey::ALLOCATABLE.start().get(),
        DatapathKey::ALLOCATABLE.end().get(),
    );
    for network in &networks {
        let (false, Some(id)) = (network.is_unusable, network.id) else {
            continue;
        };
        let network_keys = match &network.keys {
            // The keys of all other networks follow from their ids.
            _ if !network.needs_router_key => Vec::new(),
            Some((_, keys)) => keys.clone(),
            None => {
                // The range has sixteen times as many keys as there can be networks and connects.
                let is_free = |key: u32| {
                    DatapathKey::try_new(key.into()).is_ok_and(|key| !keys.contains(&key))
                };
                let key = memory.tunnel_keys.next(first..=last, is_free);
                let key = key.and_then(|key| DatapathKey::try_new(key.into()).ok());
                keys.extend(key);
                [Some(DatapathKey::of_network(id)), key]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        let texts: Vec<u32> = network_keys.iter().map(|key| key.get()).collect();
        let texts = serde_json::Value::from(texts).to_string();
        for nad in &network.nads {
            let Some(nad) = inventory.network_attachment_definitions.get_mut(nad) else {
                continue;
            };
            let meta = &mut nad.object.metadata;
            annotate(meta, NETWORK_NAME, &network.name);
            annotate(meta, NETWORK_ID, id.to_string());
            annotate(meta, TUNNEL_KEYS, &texts);
        }
    }
    problems
}

/// Allocates an id for each network without one.
fn allocate_ids(
    inventory: &Inventory,
    networks: &mut [DefinedNetwork],
    mut taken: BTreeSet<NetworkId>,
    memory: &mut Memory,
    problems: &mut Vec<Problem>,
) {
    let ids = 1..=u32::from(NetworkId::MAX.get());
    let without_id = |network: &&mut DefinedNetwork| network.id.is_none() && !network.is_unusable;
    for network in networks.iter_mut().filter(without_id) {
        let is_free = |id: u32| NetworkId::try_new(id.into()).is_ok_and(|id| !taken.contains(&id));
        let id = memory.network_ids.next(ids.clone(), is_free);
        network.id = id.and_then(|id| NetworkId::try_new(id.into()).ok());
        taken.extend(network.id);
        if let (None, Some(nad)) = (network.id, network.nads.first()) {
            let message = format!(
                "network {}: all network ids up to {} are in use",
                network.name,
                NetworkId::MAX
            );
            problems.push(problem(inventory, nad, NETWORK_ID, message));
        }
    }
}

/// Reads the networks of all attachment definitions. A definition that this cluster cannot have is a
/// warning, because users may have definitions of their own.
fn read_networks(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    problems: &mut Vec<Problem>,
) -> Vec<DefinedNetwork> {
    let mut networks: Vec<DefinedNetwork> = Vec::new();
    let mut by_name = BTreeMap::<String, usize>::new();
    let mut warnings = Vec::new();
    for (key, nad) in inventory.network_attachment_definitions.in_order() {
        let config = match checked_config(key, &nad.object, settings) {
            Ok(Some(config)) => config,
            Ok(None) => continue,
            Err(error) => {
                let message = format!("Failed to parse network config: {error}");
                warnings.push(nad_problem(nad, "spec.config".into(), message));
                continue;
            }
        };
        let index = *by_name.entry(config.name.clone()).or_insert(networks.len());
        let is_rendered = is_owned_by_network(&nad.object, &config.name);
        let needs_router_key = config.is_primary() && config.topology == "layer2";
        let name = config.name.clone();
        let config = CniConfig {
            cni_version: UninterpretedValue::default(),
            net_attach_def_name: String::new(),
            ..config
        };
        if index == networks.len() {
            networks.push(DefinedNetwork {
                name,
                nads: vec![key.clone()],
                is_rendered,
                needs_router_key,
                id: None,
                keys: None,
                config,
                inconsistent_nads: Vec::new(),
                is_unusable: false,
            });
            continue;
        }
        let network = &mut networks[index];
        let is_same = config == network.config;
        if is_rendered && !network.is_rendered {
            // The definitions so far belong to another owner.
            (network.is_rendered, network.needs_router_key) = (true, needs_router_key);
            if is_same {
                network.nads.insert(0, key.clone());
            } else {
                network.config = config;
                let foreign = std::mem::replace(&mut network.nads, vec![key.clone()]);
                network.inconsistent_nads.extend(foreign);
            }
        } else if is_same {
            network.nads.push(key.clone());
        } else {
            network.inconsistent_nads.push(key.clone());
        }
    }
    for network in &mut networks {
        restore_all(inventory, network, problems);
        for other in &network.inconsistent_nads {
            let message = format!(
                "NAD {other} CNI config does not match that of network {}",
                network.name
            );
            let nad = inventory.network_attachment_definitions.get(other);
            warnings.extend(nad.map(|nad| nad_problem(nad, "spec.config".into(), message)));
        }
    }
    inventory.warnings.extend(warnings);
    networks
}

/// Reads the allocations in the annotations of a network's attachment definitions. Definitions of
/// another owner with the same network name do not count.
fn restore_all(inventory: &Inventory, network: &mut DefinedNetwork, problems: &mut Vec<Problem>) {
    for key in network.nads.clone() {
        let nad = inventory.network_attachment_definitions.get(&key);
        let counts = |nad: &&Sourced<NetworkAttachmentDefinition>| {
            !network.is_rendered || is_owned_by_network(&nad.object, &network.name)
        };
        if let Some(nad) = nad.filter(counts)
            && let Err(problem) = restore(network, &key, nad)
        {
            network.is_unusable = true;
            problems.push(problem);
        }
    }
}

/// Reads the allocations in the annotations of a definition.
fn restore(
    network: &mut DefinedNetwork,
    key: &ObjectKey,
    nad: &Sourced<NetworkAttachmentDefinition>,
) -> Result<(), Problem> {
    let meta = &nad.object.metadata;
    let wrong = |key: &str, message: String| nad_problem(nad, annotation_field(key), message);
    if let Some(text) = annotation(meta, NETWORK_ID) {
        let id: NetworkId = text
            .parse()
            .map_err(|error| wrong(NETWORK_ID, format!("{error}")))?;
        if id == NetworkId::DEFAULT {
            return Err(wrong(
                NETWORK_ID,
                format!("network id {id} is that of the default network"),
            ));
        }
        if let Some(other) = network.id.replace(id).filter(|other| *other != id) {
            let message = format!(
                "network {} has id {other} elsewhere, here it is {id}",
                network.name
            );
            return Err(wrong(NETWORK_ID, message));
        }
    }
    if let Some(text) = annotation(meta, TUNNEL_KEYS) {
        let numbers: Vec<i64> = serde_json::from_str(text)
            .map_err(|error| wrong(TUNNEL_KEYS, format!("is not a list of keys: {error}")))?;
        let keys = numbers
            .into_iter()
            .map(DatapathKey::try_new)
            .collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|error| wrong(TUNNEL_KEYS, error.to_string()))?;
        // The list of a definition that was annotated before its network became a primary one is
        // empty.
        if !keys.is_empty() {
            network.keys.get_or_insert_with(|| (key.clone(), keys));
        }
    }
    Ok(())
}

fn reserve_ids(
    inventory: &Inventory,
    networks: &mut [DefinedNetwork],
    problems: &mut Vec<Problem>,
) -> BTreeSet<NetworkId> {
    let mut owners = BTreeMap::<NetworkId, String>::new();
    for network in networks {
        let (Some(id), Some(nad)) = (network.id, network.nads.first()) else {
            continue;
        };
        let owner = owners.entry(id).or_insert_with(|| network.name.clone());
        if *owner != network.name {
            let message = format!(
                "network {} has id {id}, which is that of network {owner}",
                network.name
            );
            problems.push(problem(inventory, nad, NETWORK_ID, message));
            network.is_unusable = true;
        }
    }
    owners.into_keys().collect()
}

/// Returns the keys of networks and of connect routers, which have one range.
fn reserve_keys(
    inventory: &Inventory,
    networks: &mut [DefinedNetwork],
    problems: &mut Vec<Problem>,
) -> BTreeSet<DatapathKey> {
    let mut owners = BTreeMap::<DatapathKey, String>::new();
    for (_, cnc) in inventory.cluster_network_connects.iter() {
        let key =
            annotation(&cnc.object.metadata, ROUTER_TUNNEL_KEY).and_then(|text| text.parse().ok());
        owners.extend(key.map(|key| (key, describe(&cnc.object))));
    }
    for network in networks
        .iter_mut()
        .filter(|network| network.needs_router_key)
    {
        let (Some(id), Some((nad, keys))) = (network.id, &network.keys) else {
            continue;
        };
        let owner = format!("network {}", network.name);
        let of_switch = DatapathKey::of_network(id);
        let message = match keys[..] {
            [switch, router]
                if switch == of_switch && DatapathKey::ALLOCATABLE.contains(&router) =>
            {
                let other = owners.insert(router, owner.clone());
                other.map(|other| {
                    format!("{owner} has tunnel key {router}, which is that of {other}")
                })
            }
            // Any other key may be that of another network's switch.
            _ => Some(format!(
                "{owner} has id {id}, so its tunnel keys are {of_switch} and one of {}..={}",
                DatapathKey::ALLOCATABLE.start(),
                DatapathKey::ALLOCATABLE.end()
            )),
        };
        if let Some(message) = message {
            problems.push(problem(inventory, nad, TUNNEL_KEYS, message));
            network.is_unusable = true;
        }
    }
    owners.into_keys().collect()
}

fn problem(inventory: &Inventory, nad: &ObjectKey, annotation: &str, message: String) -> Problem {
    match inventory.network_attachment_definitions.get(nad) {
        Some(nad) => nad_problem(nad, annotation_field(annotation), message),
        None => Problem {
            message,
            ..Problem::default()
        },
    }
}

fn nad_problem(
    nad: &Sourced<NetworkAttachmentDefinition>,
    field: String,
    message: String,
) -> Problem {
    Problem {
        location: nad.origin.location().cloned(),
        object: Some(describe(&nad.object)),
        field: Some(field),
        message,
    }
}
