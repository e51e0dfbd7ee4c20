//! Pieces of a zone's objects that can change on their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::{NadKey, PodKey, ServiceKey};
use patchbay_rows::{Inputs, changed_keys};

use super::node::ZoneNode;
use super::objects::ZoneObjects;
use super::pods::MachineKey;

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
    /// Target of an attachment definition.
    Definition(NadKey),
    /// Networks that may exist although they are not known.
    Unread,
    /// A pod.
    Pod(PodKey),
    /// The pods of a virtual machine.
    Machine(MachineKey),
    /// The port groups that a new port waits for, by the port's name.
    Gates(Arc<str>),
    /// A service with its endpoints.
    Service(ServiceKey),
    /// A pod that an EgressIP serves in a network.
    ServedPod(Arc<str>, PodKey),
}

/// Kind of cells: that of the objects which they are about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The zone and its settings.
    Zone,
    /// Nodes.
    Nodes,
    /// Networks and their definitions.
    Networks,
    /// Pods.
    Pods,
    /// Services and their endpoints.
    Services,
    /// EgressIPs, and the pods that they serve.
    EgressIps,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Zone,
        Self::Nodes,
        Self::Networks,
        Self::Pods,
        Self::Services,
        Self::EgressIps,
    ];
}

impl Inputs for ZoneObjects {
    type Cell = Cell;
    type Kind = Kind;

    fn kind(cell: &Cell) -> Kind {
        match cell {
            Cell::Zone => Kind::Zone,
            Cell::Node(_) | Cell::NodeSubnets(_) | Cell::NodeAddresses => Kind::Nodes,
            Cell::Network(_) | Cell::PrimaryNetwork(_) | Cell::Definition(_) | Cell::Unread => {
                Kind::Networks
            }
            Cell::Pod(_) | Cell::Machine(_) | Cell::Gates(_) => Kind::Pods,
            Cell::Service(_) => Kind::Services,
            Cell::ServedPod(..) => Kind::EgressIps,
        }
    }

    fn diff(&self, earlier: Option<&Self>, kinds: &[Kind], changed: &mut dyn FnMut(Cell)) {
        let nothing = Self::default();
        let has = |kind| kinds.contains(&kind);
        if has(Kind::Zone) && earlier.is_none_or(|earlier| earlier.zone != self.zone) {
            changed(Cell::Zone);
        }
        let earlier = earlier.unwrap_or(&nothing);
        if has(Kind::Nodes) {
            changed_nodes(&earlier.nodes, &self.nodes, changed);
        }
        if has(Kind::Networks) {
            self.changed_networks(earlier, changed);
        }
        if has(Kind::Pods) {
            self.changed_pods(earlier, changed);
        }
        if has(Kind::Services) {
            for key in changed_keys(&earlier.services, &self.services) {
                changed(Cell::Service(key.clone()));
            }
            for key in changed_keys(&earlier.slices, &self.slices) {
                changed(Cell::Service(key.clone()));
            }
        }
        if has(Kind::EgressIps) {
            for (network, pod) in changed_keys(earlier.serving.served(), self.serving.served()) {
                changed(Cell::ServedPod(network.clone(), pod.clone()));
            }
        }
    }
}

impl ZoneObjects {
    fn changed_networks(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        if earlier.unread != self.unread {
            changed(Cell::Unread);
        }
        for name in changed_keys(&earlier.networks, &self.networks) {
            changed(Cell::Network(name.clone()));
        }
        for key in changed_keys(&earlier.definitions, &self.definitions) {
            changed(Cell::Definition(key.clone()));
        }
        for namespace in changed_keys(&earlier.primary, &self.primary) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
        for namespace in changed_keys(&earlier.primary_definitions, &self.primary_definitions) {
            changed(Cell::PrimaryNetwork(namespace.clone()));
        }
    }

    fn changed_pods(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        for port in changed_keys(&earlier.gates, &self.gates) {
            changed(Cell::Gates(port.clone()));
        }
        let mut machines = BTreeSet::new();
        for (key, versions) in changes(&earlier.pods, &self.pods) {
            let pods = versions.into_iter().flatten();
            machines.extend(pods.filter_map(|pod| MachineKey::of(pod)));
            changed(Cell::Pod(key.clone()));
        }
        for key in machines {
            changed(Cell::Machine(key));
        }
    }
}

/// Keys of two versions of a map whose values differ, with the values of both.
fn changes<'a, K: Ord, V: PartialEq>(
    old: &'a OrdMap<K, V>,
    new: &'a OrdMap<K, V>,
) -> impl Iterator<Item = (&'a K, [Option<&'a V>; 2])> {
    old.diff(new).map(|item| match item {
        DiffItem::Add(key, value) => (key, [None, Some(value)]),
        DiffItem::Remove(key, value) => (key, [Some(value), None]),
        DiffItem::Update { old, new } => (new.0, [Some(old.1), Some(new.1)]),
    })
}

fn changed_nodes(
    earlier: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    current: &OrdMap<Arc<str>, Arc<ZoneNode>>,
    changed: &mut dyn FnMut(Cell),
) {
    let mut has_other_addresses = false;
    for (name, [old, new]) in changes(earlier, current) {
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
