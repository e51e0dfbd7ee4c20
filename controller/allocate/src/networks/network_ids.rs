//! Network ids and tunnel keys, kept in annotations of attachment definitions.

mod defined;
mod refused;

use std::collections::{BTreeMap, BTreeSet};

use defined::{DefinedNetwork, nad_problem, read_networks};
use refused::RefusedNetworks;

use patchbay_model::TUNNEL_KEYS;
use patchbay_model::{
    ClusterSettings, DatapathKey, NETWORK_ID, NETWORK_NAME, NetworkId, ROUTER_TUNNEL_KEY,
};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, describe};
use patchbay_resources::object::Object as _;

use super::annotations::{annotate, annotation, annotation_field};
use super::memory::{Memory, NetworkNumbers};

/// Annotation of a node of an older OVN-Kubernetes: ids of networks.
const NODE_NETWORK_IDS: &str = "k8s.ovn.org/network-ids";

/// Allocates missing network ids, and missing router keys of primary layer2 networks.
///
/// Networks are in the order of their first definitions. An allocated id or key is the next free
/// one after the last one, but a network without an id gets the one that nodes of an older
/// OVN-Kubernetes note. Ids and keys that a running manager has allocated are written again after a
/// foreign change. A network whose annotations cannot be used is not changed. The returned problems
/// name its annotations. Ids and keys in the annotations of refused definitions stay reserved.
pub(super) fn complete(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    memory: &mut Memory,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut networks, refused) = read_networks(inventory, settings, memory, &mut problems);
    let refused = RefusedNetworks::read(inventory, &refused, &networks);
    let mut ids = reserve_ids(inventory, &mut networks, memory, &mut problems);
    ids.extend(refused.ids);
    allocate_ids(inventory, &mut networks, ids, memory, &mut problems);
    let mut keys = reserve_keys(inventory, &mut networks, &mut problems);
    keys.extend(refused.keys);
    memory.refused = refused.names;
    let mut known = std::mem::take(&mut memory.networks);
    for network in &networks {
        let (false, Some(id)) = (network.is_unusable, network.id) else {
            let numbers = known.remove(&network.name);
            let numbers = numbers.map(|numbers| (network.name.clone(), numbers));
            memory.networks.extend(numbers);
            continue;
        };
        let network_keys = match &network.keys {
            // The keys of all other networks follow from their ids.
            _ if !network.needs_router_key => Vec::new(),
            Some((_, keys)) => keys.clone(),
            None => {
                // The range has sixteen times as many keys as there can be networks and connects.
                let key = memory.router_keys.next(|key| !keys.contains(&key));
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
        let numbers = NetworkNumbers {
            id,
            keys: network_keys,
        };
        memory.networks.insert(network.name.clone(), numbers);
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
    let noted = ids_of_nodes(inventory);
    for network in networks.iter_mut().filter(without_id) {
        let id = noted.get(&network.name).copied();
        network.id = id.filter(|id| *id != NetworkId::DEFAULT && taken.insert(*id));
    }
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

/// Ids of networks in annotations of nodes, the oldest node first.
fn ids_of_nodes(inventory: &Inventory) -> BTreeMap<String, NetworkId> {
    let mut nodes = inventory.nodes.in_order();
    nodes.sort_by_key(|(_, node)| node.object.creation_timestamp().map(|time| time.0));
    let mut ids = BTreeMap::new();
    for (_, node) in nodes {
        let text = annotation(&node.object.metadata, NODE_NETWORK_IDS);
        let noted =
            text.and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(text).ok());
        for (network, id) in noted.into_iter().flatten() {
            if let Ok(id) = id.parse() {
                ids.entry(network).or_insert(id);
            }
        }
    }
    ids
}

/// Reserves the ids of networks. One that is known to be another network's is replaced.
fn reserve_ids(
    inventory: &Inventory,
    networks: &mut [DefinedNetwork],
    memory: &Memory,
    problems: &mut Vec<Problem>,
) -> BTreeSet<NetworkId> {
    let mut owners = BTreeMap::<NetworkId, String>::new();
    let is_known = |network: &DefinedNetwork| memory.networks.contains_key(&network.name);
    for network in networks.iter().filter(|network| is_known(network)) {
        owners.extend(network.id.map(|id| (id, network.name.clone())));
    }
    let known = owners.clone();
    for network in networks {
        let (Some(id), Some(nad)) = (network.id, network.nads.first()) else {
            continue;
        };
        if known.get(&id).is_some_and(|owner| *owner != network.name) {
            (network.id, network.keys) = (None, None);
            continue;
        }
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
