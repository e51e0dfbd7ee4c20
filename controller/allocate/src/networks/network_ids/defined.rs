//! Networks that attachment definitions define, with their annotated ids.

use std::collections::BTreeMap;

use patchbay_model::config_check::checked_config;
use patchbay_model::{ClusterSettings, CniConfig, DatapathKey, NETWORK_ID, NetworkId, TUNNEL_KEYS};
use patchbay_resources::conversion::{is_owned_by_network, network_of_resource};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Object as _;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use super::memory::NetworkIdMemory;
use crate::networks::annotations::annotation;

/// A network, its attachment definitions, and the allocations in their annotations.
#[derive(Debug)]
pub(super) struct DefinedNetwork {
    pub(super) name: String,
    /// Keys of the definitions. The first one defines the network.
    pub(super) nads: Vec<ObjectKey>,
    /// `true` if the first definition belongs to the custom resource of the network.
    is_rendered: bool,
    pub(super) needs_router_key: bool,
    pub(super) id: Option<NetworkId>,
    /// Tunnel keys, and the definition whose annotation has them.
    pub(super) keys: Option<(ObjectKey, Vec<DatapathKey>)>,
    /// Canonical form of the configuration.
    config: CniConfig,
    /// Definitions with another configuration.
    inconsistent_nads: Vec<ObjectKey>,
    /// `true` if the annotations cannot be used.
    pub(super) is_unusable: bool,
}

/// What all attachment definitions define.
pub(super) struct Definitions {
    pub(super) networks: Vec<DefinedNetwork>,
    /// Definitions that this cluster cannot have.
    pub(super) refused: Vec<ObjectKey>,
    /// Refused definitions. These are warnings, because users may have definitions of their own.
    pub(super) warnings: Vec<Problem>,
    /// Annotations that cannot be read.
    pub(super) problems: Vec<Problem>,
}

impl Definitions {
    /// Reads all attachment definitions. `memory` gets the primary ones.
    pub(super) fn read(
        inventory: &Inventory,
        settings: &ClusterSettings,
        memory: &mut NetworkIdMemory,
    ) -> Self {
        let mut networks: Vec<DefinedNetwork> = Vec::new();
        let mut refused = Vec::new();
        let mut by_name = BTreeMap::<String, usize>::new();
        let (mut warnings, mut problems) = (Vec::new(), Vec::new());
        let mut configs = Vec::new();
        for (key, nad) in inventory.network_attachment_definitions.in_order() {
            match checked_config(&key.to_string(), nad.object.spec.config.as_deref(), settings) {
                Ok(Some(config)) => configs.push((key, nad, config)),
                Ok(None) => {}
                Err(error) => {
                    let message = format!("Failed to parse network config: {error}");
                    warnings.push(nad.problem(message).in_field("spec.config"));
                    refused.push(key.clone());
                }
            }
        }
        memory.primary = primary_definitions(&configs, &refused, &memory.primary);
        let is_defined = |name: &str| configs.iter().any(|(_, _, config)| config.name == name);
        let mut missing = missing_networks(inventory);
        missing.retain(|(_, network)| !is_defined(&network.name));
        let mut missing = missing.into_iter().peekable();
        for (key, nad, config) in configs {
            while let Some((_, network)) = missing.next_if(|(position, _)| *position < nad.position)
            {
                networks.push(network);
            }
            let namespace = key.namespace.clone().unwrap_or_default();
            let mut primary = memory.primary.get(&namespace).filter(|_| config.is_primary());
            if let Some(primary) = primary.take_if(|primary| *primary != key) {
                let message = format!(
                    "NAD {primary} is primary for the namespace, NAD {key} can't be primary"
                );
                warnings.push(nad.problem(message).in_field("spec.config"));
                continue;
            }
            let index = *by_name.entry(config.name.clone()).or_insert(networks.len());
            let is_rendered = is_owned_by_network(&nad.object, &config.name);
            let needs_router_key = config.is_primary() && config.topology == "layer2";
            let name = config.name.clone();
            let config = config.canonical();
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
        networks.extend(missing.map(|(_, network)| network));
        for network in &mut networks {
            restore_all(inventory, network, memory, &mut problems);
            for other in &network.inconsistent_nads {
                let message = format!(
                    "NAD {other} CNI config does not match that of network {}",
                    network.name
                );
                let nad = inventory.network_attachment_definitions.get(other);
                warnings.extend(nad.map(|nad| nad.problem(message).in_field("spec.config")));
            }
        }
        Self { networks, refused, warnings, problems }
    }
}

/// Networks of custom resources that are missing because they cannot be decoded, with their
/// positions. They have no definitions, and keep the ids and keys that other networks must not get,
/// because rows of the networks may be there.
fn missing_networks(inventory: &Inventory) -> Vec<(u64, DefinedNetwork)> {
    let kinds = [UserDefinedNetwork::KIND, ClusterUserDefinedNetwork::KIND];
    let missing = kinds.into_iter().flat_map(|kind| inventory.missing(kind));
    let mut found: Vec<(u64, DefinedNetwork)> = missing
        .filter_map(|object| {
            let name = network_of_resource(object.kind, &object.key)?;
            let spec = &object.json["spec"];
            let network = spec.get("network").unwrap_or(spec);
            let is_layer2 = network["topology"] == "Layer2";
            let network = DefinedNetwork {
                name,
                nads: Vec::new(),
                is_rendered: false,
                needs_router_key: is_layer2 && network["layer2"]["role"] == "Primary",
                id: None,
                keys: None,
                config: CniConfig::default(),
                inconsistent_nads: Vec::new(),
                is_unusable: false,
            };
            Some((object.position, network))
        })
        .collect();
    found.sort_by_key(|(position, _)| *position);
    found
}

/// The definition of the primary network of each namespace: the one that was known, even while it is
/// refused, else the first one with an id, else the first one.
fn primary_definitions(
    configs: &[(&ObjectKey, &Sourced<NetworkAttachmentDefinition>, CniConfig)],
    refused: &[ObjectKey],
    known: &BTreeMap<String, ObjectKey>,
) -> BTreeMap<String, ObjectKey> {
    let mut found = BTreeMap::<String, (bool, bool, &ObjectKey)>::new();
    for (key, nad, _) in configs.iter().filter(|(_, _, config)| config.is_primary()) {
        let namespace = key.namespace.clone().unwrap_or_default();
        let is_known = known.get(&namespace) == Some(key);
        let has_id = annotation(&nad.object.metadata, NETWORK_ID).is_some();
        let rank = (is_known, has_id, *key);
        let best = found.entry(namespace).or_insert(rank);
        if (rank.0, rank.1) > (best.0, best.1) {
            *best = rank;
        }
    }
    let found = found.into_iter().map(|(namespace, (_, _, key))| (namespace, key.clone()));
    // As in OVN-Kubernetes, the namespace is not free for another one.
    let broken = known.iter().filter(|(_, key)| refused.contains(key));
    found.chain(broken.map(|(namespace, key)| (namespace.clone(), key.clone()))).collect()
}

/// Reads the allocations in the annotations of a network's attachment definitions. Definitions of
/// another owner with the same network name do not count. Allocations that are known count instead
/// of the annotations.
fn restore_all(
    inventory: &Inventory,
    network: &mut DefinedNetwork,
    memory: &NetworkIdMemory,
    problems: &mut Vec<Problem>,
) {
    let known = memory.known.get(&network.name);
    for key in network.nads.clone() {
        let nad = inventory.network_attachment_definitions.get(&key);
        let counts = |nad: &&Sourced<NetworkAttachmentDefinition>| {
            !network.is_rendered || is_owned_by_network(&nad.object, &network.name)
        };
        let Some(nad) = nad.filter(counts) else {
            continue;
        };
        if known.is_some() {
            (network.id, network.keys) = (None, None);
        }
        if let Err(problem) = restore(network, &key, nad) {
            network.is_unusable = true;
            problems.push(problem);
        }
    }
    if let (Some(known), Some(nad)) = (known, network.nads.first()) {
        network.id = Some(known.id);
        let keys = Some(known.keys.clone()).filter(|keys| !keys.is_empty());
        network.keys = keys.map(|keys| (nad.clone(), keys));
    }
}

/// Reads the allocations in the annotations of a definition.
fn restore(
    network: &mut DefinedNetwork,
    key: &ObjectKey,
    nad: &Sourced<NetworkAttachmentDefinition>,
) -> Result<(), Problem> {
    let meta = &nad.object.metadata;
    let wrong = |key: &str, message: String| nad.problem(message).in_annotation(key);
    if let Some(text) = annotation(meta, NETWORK_ID) {
        let id: NetworkId = text.parse().map_err(|error| wrong(NETWORK_ID, format!("{error}")))?;
        if id == NetworkId::DEFAULT {
            return Err(wrong(
                NETWORK_ID,
                format!("network id {id} is that of the default network"),
            ));
        }
        if let Some(other) = network.id.replace(id).filter(|other| *other != id) {
            let message =
                format!("network {} has id {other} elsewhere, here it is {id}", network.name);
            return Err(wrong(NETWORK_ID, message));
        }
    }
    if let Some(text) = annotation(meta, TUNNEL_KEYS) {
        let numbers: Vec<i64> = serde_json::from_str(text)
            .map_err(|error| wrong(TUNNEL_KEYS, format!("is not a list of keys: {error}")))?;
        let keys = numbers
            .into_iter()
            .map(DatapathKey::try_new)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| wrong(TUNNEL_KEYS, error.to_string()))?;
        // The list of a definition that was annotated before its network became a primary one is
        // empty.
        if !keys.is_empty() {
            network.keys.get_or_insert_with(|| (key.clone(), keys));
        }
    }
    Ok(())
}
