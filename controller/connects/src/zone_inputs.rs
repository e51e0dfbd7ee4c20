//! Inputs of a zone with what follows from all of them, and the pieces that can change on their
//! own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use patchbay_model::{
    Connect, ConnectInput, DatapathKey, Network, NetworkId, Networks, Node, NodeId, OwnerKey,
    Topology,
};
use patchbay_rows::Inputs as RowInputs;
use smol_str::SmolStr;

use super::inputs::Inputs;
use super::nodes::NodeIds;
use super::part::{ConnectPart, LinkId, Part};
use super::router_keys::RouterKeys;

/// Everything that the rows of connects in one zone follow from, besides the database.
#[derive(Clone, Debug, Default)]
pub(super) struct ZoneInputs {
    pub(super) given: Inputs,
    pub(super) nodes: NodeIds,
    router_keys: RouterKeys,
    /// Number of load balancers that the services of each namespace need.
    load_balancers: Arc<BTreeMap<String, usize>>,
}

/// A piece of [`ZoneInputs`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Cell {
    /// Name of the zone, IP families and service ranges.
    Zone,
    /// Existence and id of the zone's node.
    LocalNode,
    /// `true` if the id of some node cannot be read.
    UnreadableIds,
    /// Nodes that own no id.
    WithoutId,
    /// `true` if there are two nodes with ids.
    SeveralNodes,
    /// Name and chassis of the node that owns an id.
    Node(NodeId),
    /// Inputs of a link from a node to a network: name, chassis and subnets of the node.
    NodeSubnets(NodeId, NetworkId),
    Network(NetworkId),
    /// Nodes on which the network of this name is active.
    Activity(Arc<str>),
    /// Load balancers that services need.
    Services,
    /// A connect, but for its connect subnets.
    Connect(SmolStr),
    /// Connect subnets of a network in a connect.
    Entry(SmolStr, NetworkId),
}

/// Zone's node, as far as it is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct LocalNode {
    pub(super) is_there: bool,
    /// Id that the node owns.
    pub(super) id: Option<NodeId>,
    pub(super) lacks_id: bool,
    pub(super) has_unreadable_id: bool,
}

impl ZoneInputs {
    /// Follows the given inputs to a later version.
    pub(super) fn follow(&mut self, inputs: &Inputs) {
        let earlier = std::mem::replace(&mut self.given, inputs.clone());
        for item in earlier.nodes.diff(&inputs.nodes) {
            let (old, new) = match item {
                DiffItem::Add(_, node) => (None, Some(node)),
                DiffItem::Remove(_, node) => (Some(node), None),
                DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
            };
            if let Some(node) = old {
                self.nodes.remove(node);
            }
            if let Some(node) = new {
                self.nodes.add(node);
            }
        }
        self.router_keys.follow(&earlier.connects, &inputs.connects);
        let is_same = Arc::ptr_eq(&earlier.services, &inputs.services);
        if !is_same && earlier.services != inputs.services {
            self.load_balancers = Arc::new(load_balancers_by_namespace(inputs));
        }
    }

    /// The connect of a name. `None`: it is gone.
    pub(super) fn connect_input(&self, name: &str) -> Option<&ConnectInput> {
        self.given.connects.get(name).map(AsRef::as_ref)
    }

    /// The connect of a name. `None`: it is gone, or invalid.
    pub(super) fn connect(&self, name: &str) -> Option<&Connect> {
        self.connect_input(name)?.connect.as_ref().ok()
    }

    /// Tunnel key of a connect's router. `None`: not allocated yet.
    pub(super) fn router_key(&self, connect: &str) -> Option<DatapathKey> {
        self.router_keys.get(connect)
    }

    pub(super) fn local_node(&self) -> LocalNode {
        let Some(node) = self.given.nodes.get(&self.given.zone) else {
            return LocalNode::default();
        };
        LocalNode {
            is_there: true,
            id: self.nodes.id_of(node),
            lacks_id: node.id.is_none(),
            has_unreadable_id: node.has_unknown_id(),
        }
    }

    /// `true` if there are two nodes with ids.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.nodes.owners().len() > 1
    }

    /// Number of load balancers that the services of a network need.
    pub(super) fn expected_load_balancers(&self, network: NetworkId) -> usize {
        let network = self.given.networks.by_id(network);
        let namespaces = network.into_iter().flat_map(|network| &network.namespaces);
        namespaces
            .filter_map(|namespace| self.load_balancers.get(namespace))
            .sum()
    }

    /// A known network that a connect lists with its topology.
    fn attached_network(&self, connect: &Connect, id: NetworkId) -> Option<&Network> {
        let network = self.given.networks.by_id(id)?;
        let owner = OwnerKey {
            topology: network.topology,
            network_id: id,
        };
        let is_listed = connect.subnets.get(owner).is_some();
        is_listed.then_some(network)
    }

    /// `true` if the network may have policies in the zone.
    fn may_send(&self, network: &Network) -> bool {
        let zone = &self.given.zone;
        self.given.nodes.contains_key(zone) && self.given.activity.is_active(&network.name, zone)
    }

    /// `true` if a connect may have rows for a part.
    pub(super) fn may_have(&self, connect: &str, part: Part) -> bool {
        let Some(input) = self.connect_input(connect) else {
            return false;
        };
        let network = |id| self.attached_network(input.connect.as_ref().ok()?, id);
        match part {
            Part::Link(LinkId { network: id, index }) => {
                network(id).is_some_and(|network| match network.topology {
                    Topology::Layer2 => index == 0,
                    Topology::Layer3 => {
                        NodeId::try_new(index.into()).is_ok_and(|id| self.nodes.owner(id).is_some())
                    }
                })
            }
            Part::Policies {
                source,
                destination,
            } => {
                let source = network(source).is_some_and(|network| self.may_send(network));
                source && network(destination).is_some()
            }
            Part::Router | Part::Services | Part::Isolation | Part::Summary => true,
            Part::Stray => false,
        }
    }

    /// Calls `part` for the parts of chosen networks in all connects.
    pub(super) fn parts_of_all(
        &self,
        is_chosen: impl Fn(&Network) -> bool,
        part: &mut dyn FnMut(ConnectPart),
    ) {
        for (name, connect) in self.connects() {
            for owner in connect.subnets.owners() {
                let network = self.given.networks.by_id(owner.network_id);
                if network.is_some_and(&is_chosen) {
                    let part = &mut |of| part(ConnectPart::new(&name, of));
                    self.parts_of_entry(connect, owner.network_id, part);
                }
            }
        }
    }

    /// Calls `part` for the links of a node in all connects.
    pub(super) fn parts_of_node(&self, id: NodeId, part: &mut dyn FnMut(ConnectPart)) {
        for (name, connect) in self.connects() {
            let owners = connect.subnets.owners();
            for owner in owners.filter(|owner| owner.topology == Topology::Layer3) {
                let link = Part::Link(LinkId::layer3(owner.network_id, id));
                if self.may_have(&name, link) {
                    part(ConnectPart::new(&name, link));
                }
            }
        }
    }

    /// Valid connects by name.
    fn connects(&self) -> impl Iterator<Item = (SmolStr, &Connect)> {
        let connects = self.given.connects.iter();
        connects
            .filter_map(|(name, input)| Some((name.as_str().into(), input.connect.as_ref().ok()?)))
    }

    /// Calls `part` for the links of a network in a connect, and for its policies.
    pub(super) fn parts_of_entry(
        &self,
        connect: &Connect,
        id: NetworkId,
        part: &mut dyn FnMut(Part),
    ) {
        let Some(network) = self.attached_network(connect, id) else {
            return;
        };
        match network.topology {
            Topology::Layer2 => part(Part::Link(LinkId {
                network: id,
                index: 0,
            })),
            Topology::Layer3 => {
                let ids = self.nodes.ids();
                ids.for_each(|node| part(Part::Link(LinkId::layer3(id, node))));
            }
        }
        let may_send = self.may_send(network);
        for owner in connect.subnets.owners() {
            let other = owner.network_id;
            if other == id {
                continue;
            }
            if may_send {
                part(Part::Policies {
                    source: id,
                    destination: other,
                });
            }
            let other_network = self.given.networks.by_id(other);
            if other_network.is_some_and(|network| self.may_send(network)) {
                part(Part::Policies {
                    source: other,
                    destination: id,
                });
            }
        }
    }
}

impl RowInputs for ZoneInputs {
    type Cell = Cell;
    type Kind = ();

    fn kind(_: &Cell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(Cell)) {
        let Some(earlier) = earlier else {
            for (name, input) in &self.given.connects {
                new_connect(name, input, changed);
            }
            return;
        };
        let (old, new) = (&earlier.given, &self.given);
        let zone = |inputs: &'_ Inputs| (inputs.zone.clone(), inputs.families.clone());
        if zone(old) != zone(new) || old.service_cidrs != new.service_cidrs {
            changed(Cell::Zone);
        }
        if earlier.local_node() != self.local_node() || old.zone != new.zone {
            changed(Cell::LocalNode);
        }
        if earlier.nodes.has_unreadable() != self.nodes.has_unreadable() {
            changed(Cell::UnreadableIds);
        }
        if !self.nodes.is_without_id_as(&earlier.nodes) {
            changed(Cell::WithoutId);
        }
        if earlier.has_several_nodes() != self.has_several_nodes() {
            changed(Cell::SeveralNodes);
        }
        for item in earlier.nodes.owners().diff(self.nodes.owners()) {
            match item {
                DiffItem::Add(id, _) | DiffItem::Remove(id, _) => {
                    changed(Cell::Node(*id));
                    for network in self.given.networks.iter() {
                        changed(Cell::NodeSubnets(*id, network.id));
                    }
                }
                DiffItem::Update {
                    old: (_, old),
                    new: (id, new),
                } => changed_node(*id, (old, new), &self.given.networks, changed),
            }
        }
        for id in changed_networks(&old.networks, &new.networks) {
            changed(Cell::Network(id));
        }
        if !Arc::ptr_eq(&old.activity, &new.activity) {
            let (old, new) = (&old.activity.limited, &new.activity.limited);
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                if old.get(name) != new.get(name) {
                    changed(Cell::Activity(name.as_str().into()));
                }
            }
        }
        let services = (&earlier.load_balancers, &self.load_balancers);
        if !Arc::ptr_eq(services.0, services.1) && services.0 != services.1 {
            changed(Cell::Services);
        }
        for item in old.connects.diff(&new.connects) {
            match item {
                DiffItem::Add(name, input) | DiffItem::Remove(name, input) => {
                    new_connect(name, input, changed);
                }
                DiffItem::Update {
                    old: (_, old),
                    new: (name, new),
                } => changed_connect(name, (old, new), changed),
            }
        }
    }
}

/// Calls `changed` for what a connect consists of.
fn new_connect(name: &str, input: &ConnectInput, changed: &mut dyn FnMut(Cell)) {
    let name: SmolStr = name.into();
    changed(Cell::Connect(name.clone()));
    if let Ok(connect) = &input.connect {
        for owner in connect.subnets.owners() {
            changed(Cell::Entry(name.clone(), owner.network_id));
        }
    }
}

fn changed_connect(
    name: &str,
    (old, new): (&ConnectInput, &ConnectInput),
    changed: &mut dyn FnMut(Cell),
) {
    let (Ok(old), Ok(new)) = (&old.connect, &new.connect) else {
        new_connect(name, old, changed);
        new_connect(name, new, changed);
        return;
    };
    let name: SmolStr = name.into();
    changed(Cell::Connect(name.clone()));
    for owner in old.subnets.owners().chain(new.subnets.owners()) {
        if old.subnets.get(owner) != new.subnets.get(owner) {
            changed(Cell::Entry(name.clone(), owner.network_id));
        }
    }
}

fn changed_node(
    id: NodeId,
    (old, new): (&Node, &Node),
    networks: &Networks,
    changed: &mut dyn FnMut(Cell),
) {
    let is_other = (&old.name, &old.chassis_id) != (&new.name, &new.chassis_id);
    if is_other {
        changed(Cell::Node(id));
    }
    for network in networks.iter() {
        let name = &network.name;
        if is_other
            || old.subnets_of(name) != new.subnets_of(name)
            || old.refused_subnets_of(name) != new.refused_subnets_of(name)
            || old.has_unknown_subnets_of(name) != new.has_unknown_subnets_of(name)
        {
            changed(Cell::NodeSubnets(id, network.id));
        }
    }
}

fn changed_networks(old: &Arc<Networks>, new: &Arc<Networks>) -> Vec<NetworkId> {
    if Arc::ptr_eq(old, new) {
        return Vec::new();
    }
    let changed = old
        .iter()
        .filter(|network| new.by_id(network.id) != Some(network));
    let added = new.iter().filter(|network| old.by_id(network.id).is_none());
    changed.chain(added).map(|network| network.id).collect()
}

/// Number of load balancers that the services of each namespace need.
fn load_balancers_by_namespace(inputs: &Inputs) -> BTreeMap<String, usize> {
    let mut by_namespace = BTreeMap::<String, usize>::new();
    for service in &*inputs.services {
        let protocols = service.protocols.len();
        match by_namespace.get_mut(&service.namespace) {
            Some(count) => *count += protocols,
            None => {
                by_namespace.insert(service.namespace.clone(), protocols);
            }
        }
    }
    by_namespace
}
