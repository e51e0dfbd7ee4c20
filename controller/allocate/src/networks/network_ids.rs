//! Network ids and tunnel keys, kept in annotations of attachment definitions.

mod defined;
mod memory;
mod refused;

use std::collections::{BTreeMap, BTreeSet};

use defined::{DefinedNetwork, Definitions};
pub(super) use memory::NetworkIdMemory;
use memory::NetworkNumbers;
use refused::RefusedNetworks;

use patchbay_model::{
    ClusterSettings, DatapathKey, NETWORK_ID, NETWORK_NAME, NetworkId, ROUTER_TUNNEL_KEY,
    TUNNEL_KEYS,
};
use patchbay_resources::manifests::{Inventory, ObjectKey, Objects, Problem, describe};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Object as _;

use super::annotations::{annotation, write_annotations};
use crate::connects::vpc_ids;

/// Annotation of a node of an older OVN-Kubernetes: ids of networks.
const NODE_NETWORK_IDS: &str = "k8s.ovn.org/network-ids";

/// Ids and tunnel keys of networks, for the annotations of their attachment definitions.
#[derive(Debug)]
pub(super) struct NetworkIds {
    networks: Vec<(DefinedNetwork, NetworkNumbers)>,
    /// Networks whose definitions are refused.
    pub(super) refused: BTreeSet<String>,
    /// Definitions that this cluster cannot have.
    pub(super) warnings: Vec<Problem>,
    /// Annotations that cannot be read or contradict each other.
    pub(super) problems: Vec<Problem>,
}

impl NetworkIds {
    /// Writes the annotations of the attachment definitions.
    pub(super) fn write(&self, nads: &mut Objects<NetworkAttachmentDefinition>) {
        for (network, numbers) in &self.networks {
            let keys: Vec<u32> = numbers.keys.iter().map(|key| key.get()).collect();
            let keys = serde_json::Value::from(keys).to_string();
            for nad in &network.nads {
                let values = [
                    (NETWORK_NAME, Some(network.name.clone())),
                    (NETWORK_ID, Some(numbers.id.to_string())),
                    (TUNNEL_KEYS, Some(keys.clone())),
                ];
                write_annotations(nads, nad, values);
            }
        }
    }
}

/// Assigns missing network ids, and missing router keys of primary layer2 networks.
///
/// Networks are in the order of their first definitions. An assigned id or key is the next free
/// one after the last one, but a network without an id gets the one that nodes of an older
/// OVN-Kubernetes note. Ids and keys that a running manager has assigned are written again after a
/// foreign change. A network whose annotations cannot be used is not changed. Ids and keys in the
/// annotations of refused definitions stay reserved.
pub(super) fn assign_network_ids(
    inventory: &Inventory,
    settings: &ClusterSettings,
    memory: &mut NetworkIdMemory,
) -> NetworkIds {
    let Definitions { mut networks, refused: refused_nads, warnings, mut problems } =
        Definitions::read(inventory, settings, memory);
    let refused = RefusedNetworks::read(inventory, &refused_nads, &networks);
    let mut ids = reserve_ids(inventory, &mut networks, memory, &mut problems);
    ids.extend(refused.ids);
    ids.extend(vpc_ids(inventory));
    allocate_ids(inventory, &mut networks, ids, memory, &mut problems);
    let mut keys = reserve_keys(inventory, &mut networks, &mut problems);
    keys.extend(refused.keys);
    let mut assigned = Vec::with_capacity(networks.len());
    let mut known = std::mem::take(&mut memory.known);
    for network in networks {
        let (false, Some(id)) = (network.is_unusable, network.id) else {
            memory.known.extend(known.remove_entry(&network.name));
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
                std::iter::once(DatapathKey::of_network(id)).chain(key).collect()
            }
        };
        let numbers = NetworkNumbers { id, keys: network_keys };
        memory.known.insert(network.name.clone(), numbers.clone());
        assigned.push((network, numbers));
    }
    NetworkIds { networks: assigned, refused: refused.names, warnings, problems }
}

/// Allocates an id for each network without one.
fn allocate_ids(
    inventory: &Inventory,
    networks: &mut [DefinedNetwork],
    mut taken: BTreeSet<NetworkId>,
    memory: &mut NetworkIdMemory,
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
        let id = memory.cursor.next(ids.clone(), is_free);
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
    memory: &NetworkIdMemory,
    problems: &mut Vec<Problem>,
) -> BTreeSet<NetworkId> {
    let mut owners = BTreeMap::<NetworkId, String>::new();
    let is_known = |network: &DefinedNetwork| memory.known.contains_key(&network.name);
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
            let message =
                format!("network {} has id {id}, which is that of network {owner}", network.name);
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
    for network in networks.iter_mut().filter(|network| network.needs_router_key) {
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
    let nad = inventory.network_attachment_definitions.get(nad);
    match nad {
        Some(nad) => nad.problem(message).in_annotation(annotation),
        None => message.into(),
    }
}
