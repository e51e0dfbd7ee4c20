//! Objects as the one database of all nodes has them, and those that have no rows there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use patchbay_allocate::vpcs;
use patchbay_model::{ClusterSettings, CniConfig, Databases, NODE_CHASSIS_ID};
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Objects, Origin, Problem, Sourced,
};
use patchbay_resources::object::{Node, Time};
use patchbay_resources::udn::{
    ClusterUserDefinedNetwork, CudnTopology, UdnTopology, UserDefinedNetwork,
};

/// Reason why a layer3 network has no rows.
const LAYER3: &str = "layer3 networks have other rows in each zone, so that they are refused in a \
                      database of all nodes";
/// Word for the topology of layer3 networks in attachment definitions.
const LAYER3_TOPOLOGY: &str = "layer3";

/// Gives objects of VPCs their addresses and status, if all nodes have one database. Returns
/// warnings about them, and [`refusals`].
pub(crate) fn allocate(
    inventory: &mut Inventory,
    settings: &ClusterSettings,
    now: &Time,
) -> Vec<Problem> {
    if settings.databases != Databases::Central {
        return Vec::new();
    }
    let mut found = vpcs::resolve(inventory, now);
    found.extend(refusals(inventory, settings));
    found
}

/// Layer3 networks, each with the reason why it has no rows, if all nodes have one database.
pub(crate) fn refusals(inventory: &Inventory, settings: &ClusterSettings) -> Vec<Problem> {
    if settings.databases != Databases::Central {
        return Vec::new();
    }
    let udns =
        refused::<UserDefinedNetwork>(inventory, |udn| udn.spec.topology == UdnTopology::Layer3);
    let cudns = refused::<ClusterUserDefinedNetwork>(inventory, |cudn| {
        cudn.spec.network.topology == CudnTopology::Layer3
    });
    udns.chain(cudns).collect()
}

fn refused<'a, T: InventoryKind + 'a>(
    inventory: &'a Inventory,
    is_layer3: impl Fn(&T) -> bool + 'a,
) -> impl Iterator<Item = Problem> + 'a {
    let objects = T::objects(inventory).iter();
    let layer3 = objects.filter(move |(_, sourced)| is_layer3(&sourced.object));
    layer3.map(|(_, sourced)| sourced.problem(LAYER3))
}

/// Objects from which the rows of a zone follow. A database of all nodes is the zone of one node
/// without ids, on which all pods are. Layer3 networks are not there, nor what follows from nodes.
pub(crate) fn zone_inventory<'a>(
    inventory: &'a Inventory,
    settings: &ClusterSettings,
) -> Cow<'a, Inventory> {
    if settings.databases != Databases::Central {
        return Cow::Borrowed(inventory);
    }
    let mut found = inventory.clone();
    found.nodes = Objects::default();
    let mut node = Node::default();
    node.metadata.name = Some(Databases::CENTRAL.to_owned());
    // Ports need a chassis, although none is requested.
    let chassis = (NODE_CHASSIS_ID.to_owned(), Databases::CENTRAL.to_owned());
    node.metadata.annotations = Some(BTreeMap::from([chassis]));
    let origin = Origin::Rendered("database of all nodes".to_owned());
    found.nodes.insert(Sourced { object: node, origin, position: 0 });
    found.pods.change_each(|_, sourced| {
        let spec = sourced.object.spec.as_mut();
        let node = spec.and_then(|spec| spec.node_name.as_mut());
        if let Some(node) = node {
            Databases::CENTRAL.clone_into(node);
        }
    });
    let definitions = found.network_attachment_definitions.iter();
    let is_layer3 = |config: &str| {
        let config = CniConfig::from_json(config);
        matches!(config, Ok(Some(config)) if config.topology == LAYER3_TOPOLOGY)
    };
    let layer3: Vec<ObjectKey> = definitions
        .filter(|(_, nad)| nad.object.spec.config.as_deref().is_some_and(is_layer3))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &layer3 {
        found.network_attachment_definitions.remove(key);
    }
    found.services = Objects::default();
    found.endpoint_slices = Objects::default();
    found.egress_ips = Objects::default();
    Cow::Owned(found)
}
