//! Nodes on which networks have users, with dynamic allocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, ClusterSettings, Definition, Feature, NetworkActivity, Networks,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{EgressIP, Object as _, Pod};

use super::pods::AttachedPods;

/// The nodes of networks whose definitions belong to a UserDefinedNetwork or a
/// ClusterUserDefinedNetwork. All other ones are on all nodes.
///
/// Users are pods, EgressIPs of namespaces, and users of networks that a ClusterNetworkConnect
/// connects a network with.
pub(super) fn of_networks(
    inventory: &Inventory,
    networks: &Networks,
    pods: &AttachedPods,
    settings: &ClusterSettings,
) -> NetworkActivity {
    let mut uses = pods.uses();
    if settings.has_feature(Feature::EgressIp) {
        uses.extend(uses_of_egress_ips(inventory, networks));
    }
    let limited = limited(inventory, pods.networks());
    NetworkActivity::new(limited, uses, &connected(inventory, networks))
}

/// `true` if [`of_networks`] lacks no users: all pods and connects are known, and all EgressIPs
/// unless their feature is off.
pub(super) fn is_known(inventory: &Inventory, settings: &ClusterSettings) -> bool {
    let mut users = vec![Pod::KIND, ClusterNetworkConnect::KIND];
    users.extend(
        settings
            .has_feature(Feature::EgressIp)
            .then_some(EgressIP::KIND),
    );
    !inventory.lacks(&users)
}

/// Networks all of whose definitions belong to a custom resource.
fn limited(inventory: &Inventory, attached: &AttachedNetworks) -> BTreeSet<Arc<str>> {
    let (mut limited, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (_, nad) in inventory.network_attachment_definitions.iter() {
        let definition = attached.definition(&conversion::nad_key(&nad.object));
        let Some(Definition::Network(network)) = definition else {
            continue;
        };
        let has_owner = conversion::definition(&nad.object).owner_network.is_some();
        let names = if has_owner { &mut limited } else { &mut others };
        names.insert(network.name.clone());
    }
    &limited - &others
}

fn uses_of_egress_ips(inventory: &Inventory, networks: &Networks) -> Vec<(Arc<str>, Arc<str>)> {
    let objects = inventory.egress_ips.iter();
    let uses = objects.flat_map(|(_, object)| {
        let object = conversion::egress_ip(&object.object);
        let namespaces = inventory.namespaces.iter().filter(|(_, namespace)| {
            let selector = object.namespaces.as_ref();
            selector.is_some_and(|selector| selector.matches(namespace.object.labels()))
        });
        let primary = namespaces.filter_map(|(key, _)| {
            let network = networks.by_nad(networks.primary_nad(&key.name)?)?;
            Some(Arc::from(network.name.as_str()))
        });
        let uses = primary.flat_map(|network: Arc<str>| {
            let nodes = object.assignments.iter().map(|one| one.node.clone());
            nodes.map(move |node| (network.clone(), node))
        });
        uses.collect::<Vec<_>>()
    });
    uses.collect()
}

/// The networks of each ClusterNetworkConnect.
fn connected(inventory: &Inventory, networks: &Networks) -> Vec<BTreeSet<Arc<str>>> {
    let connects = inventory.cluster_network_connects.iter();
    let connects = connects.filter_map(|(_, object)| conversion::connect(&object.object).ok());
    let members = connects.map(|connect| {
        let owners = connect.subnets.owners();
        let members = owners.filter_map(|owner| networks.by_id(owner.network_id));
        members
            .map(|network| network.name.as_str().into())
            .collect()
    });
    members.collect()
}
