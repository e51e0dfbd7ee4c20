//! Connected networks, and the digests of what their rows follow from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{ConnectSubnetMap, Networks, OwnerKey};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion;
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Namespace, Object, ObjectMeta};

use crate::watch::input_digest::{InputDigest, NodeDigests, UnreadableAnnotation};

/// The networks of watched attachment definitions, and those of them that are connected.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectedNetworks {
    connects: Objects<ClusterNetworkConnect>,
    definitions: Objects<NetworkAttachmentDefinition>,
    namespaces: Objects<Namespace>,
    networks: Arc<Networks>,
    /// Names of the connected networks.
    names: BTreeSet<String>,
    nodes: NodeDigests,
}

impl ConnectedNetworks {
    /// Follows the definitions and connects of an inventory. Returns `true` if a network or a
    /// namespace is newly connected.
    pub(crate) fn update_networks(&mut self, inventory: &Inventory) -> bool {
        let connects = &inventory.cluster_network_connects;
        let definitions = &inventory.network_attachment_definitions;
        let namespaces = &inventory.namespaces;
        let former_namespaces = self.namespaces();
        let has_other_networks = have_changed(&self.definitions, definitions)
            || have_changed(&self.namespaces, namespaces);
        if has_other_networks {
            let networks = conversion::networks(objects(definitions), objects(namespaces));
            self.networks = Arc::new(networks);
        } else if !have_changed(&self.connects, connects) {
            return false;
        }
        self.connects.clone_from(connects);
        self.definitions.clone_from(definitions);
        self.namespaces.clone_from(namespaces);
        let owners = objects(connects).flat_map(|connect| owners_of(connect.meta()));
        let connected = owners.filter_map(|owner| self.networks.by_id(owner.network_id));
        let names: BTreeSet<String> = connected.map(|network| network.name.clone()).collect();
        let former = (std::mem::replace(&mut self.names, names), former_namespaces);
        self.nodes.set_connected(&self.names);
        !self.names.is_subset(&former.0) || !self.namespaces().is_subset(&former.1)
    }

    /// Follows the nodes of an inventory.
    pub(crate) fn update_nodes(&mut self, inventory: &Inventory) {
        self.nodes.update(&inventory.nodes);
    }

    /// Names of the connected networks.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Namespaces whose primary network is connected.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let networks = self.names.iter();
        let networks = networks.filter_map(|name| self.networks.by_name(name));
        let namespaces = networks.flat_map(|network| &network.namespaces);
        namespaces.cloned().collect()
    }

    /// Problems of attachment definitions and of annotations of nodes, one line each.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let problems = self
            .networks
            .problems()
            .iter()
            .map(|(nad, problem)| format!("network attachment definition {nad}: {problem}"));
        let unreadable = self.unreadable().values().flatten();
        problems.chain(unreadable.map(|one| one.message.clone()))
    }

    /// Annotations that cannot be read, by node.
    pub(crate) fn unreadable(&self) -> &BTreeMap<String, Vec<UnreadableAnnotation>> {
        self.nodes.unreadable()
    }

    /// Digest of the nodes and networks from which the rows of a ClusterNetworkConnect follow.
    pub(crate) fn digest_of(&self, connect: &ObjectMeta) -> InputDigest {
        self.nodes.digest_of(owners_of(connect), &self.networks)
    }
}

/// Owner keys of the networks in the subnet annotation; empty if it cannot be read.
fn owners_of(connect: &ObjectMeta) -> Vec<OwnerKey> {
    let annotations = connect.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(ConnectSubnetMap::ANNOTATION));
    let subnets = ConnectSubnetMap::parse(text.map_or("", String::as_str));
    subnets.map_or_else(|_| Vec::new(), |(subnets, _)| subnets.owners().collect())
}

fn have_changed<K: InventoryKind>(former: &Objects<K>, current: &Objects<K>) -> bool {
    current.changes_since(former).next().is_some()
}

fn objects<K: InventoryKind>(objects: &Objects<K>) -> impl Iterator<Item = &K> {
    objects.iter().map(|(_, sourced)| &sourced.object)
}
