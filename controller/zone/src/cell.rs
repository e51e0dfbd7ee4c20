//! Pieces of a zone's objects that can change on their own.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::{PodKey, ServiceKey};
use patchbay_rows::{Inputs, changed_keys};

use super::node::ZoneNode;
use super::objects::ZoneObjects;

/// A piece of [`ZoneObjects`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Cell {
    /// The zone and the cluster's settings.
    Zone,
    /// A node, but for its subnets of networks.
    Node(Arc<str>),
    /// A node's subnets of networks.
    NodeSubnets(Arc<str>),
    /// The addresses of all nodes.
    NodeAddresses,
    /// A network with an overlay, by name.
    Network(Arc<str>),
    /// The primary network of a namespace.
    PrimaryNetwork(Arc<str>),
    /// Networks that may exist although they are not known.
    Unread,
    /// A service with its endpoints.
    Service(ServiceKey),
    /// A pod that an EgressIP serves in a network.
    ServedPod(Arc<str>, PodKey),
}

impl Inputs for ZoneObjects {
    type Cell = Cell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(Cell)) {
        let nothing = Self::default();
        if earlier.is_none_or(|earlier| earlier.zone != self.zone) {
            changed(Cell::Zone);
        }
        let earlier = earlier.unwrap_or(&nothing);
        changed_nodes(&earlier.nodes, &self.nodes, changed);
        for name in changed_keys(&earlier.networks, &self.networks) {
            changed(Cell::Network(name.clone()));
        }
        for namespace in changed_keys(&earlier.primary, &self.primary) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
        if earlier.unread != self.unread {
            changed(Cell::Unread);
        }
        for key in changed_keys(&earlier.services, &self.services) {
            changed(Cell::Service(key.clone()));
        }
        for key in changed_keys(&earlier.slices, &self.slices) {
            changed(Cell::Service(key.clone()));
        }
        for (network, pod) in changed_keys(earlier.serving.served(), self.serving.served()) {
            changed(Cell::ServedPod(network.clone(), pod.clone()));
        }
    }
}

fn changed_nodes(
    earlier: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    current: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    changed: &mut dyn FnMut(Cell),
) {
    let mut has_other_addresses = false;
    for item in earlier.diff(current) {
        let (name, old, new) = match item {
            DiffItem::Add(name, new) => (name, None, Some(new)),
            DiffItem::Remove(name, old) => (name, Some(old), None),
            DiffItem::Update { old, new } => (new.0, Some(old.1), Some(new.1)),
        };
        let pair = old.zip(new);
        if !pair.is_some_and(|(old, new)| old.is_same_but_subnets(new)) {
            changed(Cell::Node(name.clone()));
        }
        if !pair.is_some_and(|(old, new)| old.has_same_subnets(new)) {
            changed(Cell::NodeSubnets(name.clone()));
        }
        let addresses = |node: &Arc<ZoneNode>| node.all_addresses();
        has_other_addresses |= old.map(addresses) != new.map(addresses);
    }
    if has_other_addresses {
        changed(Cell::NodeAddresses);
    }
}
