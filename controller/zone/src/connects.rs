//! ClusterNetworkConnects, the networks and nodes that they name, and indexes of these.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::{
    Connect, ConnectInput, DatapathKey, Network, NetworkId, Networks, Node, NodeId, Service,
};
use patchbay_rows::changed_keys;
use smol_str::SmolStr;

use super::cell::Cell;
use super::node_ids::NodeIds;
use super::objects::ZoneObjects;

/// Zone's node, as far as it is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LocalNode {
    /// `true` if the node exists.
    pub is_there: bool,
    /// Id that the node owns.
    pub id: Option<NodeId>,
    /// `true` if the node has no id.
    pub lacks_id: bool,
    /// `true` if the id cannot be read.
    pub has_unreadable_id: bool,
}

impl ZoneObjects {
    /// Adds a connect, or replaces the one of its name.
    pub fn put_connect(&mut self, name: &str, input: impl Into<Arc<ConnectInput>>) {
        let (name, input): (SmolStr, Arc<ConnectInput>) = (name.into(), input.into());
        let former = self.connects.get(&name).cloned();
        self.router_keys.put(&name, former.as_deref(), &input);
        self.connects.insert(name, input);
    }

    /// Removes a connect.
    pub fn remove_connect(&mut self, name: &str) {
        self.connects.remove(name);
        self.router_keys.remove(name);
    }

    /// All connects by name.
    pub fn connects(&self) -> impl DoubleEndedIterator<Item = (&SmolStr, &ConnectInput)> {
        let connects = self.connects.iter();
        connects.map(|(name, input)| (name, &**input))
    }

    /// The connect of a name. `None`: it is gone.
    pub fn connect_input(&self, name: &str) -> Option<&ConnectInput> {
        self.connects.get(name).map(|input| &**input)
    }

    /// The connect of a name. `None`: it is gone, or invalid.
    pub fn connect(&self, name: &str) -> Option<&Connect> {
        self.connect_input(name)?.connect.as_ref().ok()
    }

    /// Tunnel key of a connect's router. `None`: not allocated yet.
    pub fn router_key(&self, connect: &str) -> Option<DatapathKey> {
        self.router_keys.get(connect)
    }

    /// `true` if an earlier version certainly has the same connects and networks that they may name.
    pub fn has_same_connects(&self, earlier: &Self) -> bool {
        self.connects.ptr_eq(&earlier.connects) && self.connectable.ptr_eq(&earlier.connectable)
    }

    /// Sets the networks of all definitions, which connects may name: also those that the zone does
    /// not render, and those that the cluster cannot have.
    pub fn set_connectable_networks(&mut self, networks: &Networks) {
        let earlier = std::mem::take(&mut self.connectable);
        let networks = networks.iter().map(|network| {
            let known = earlier.get(&network.id);
            let known = known.filter(|known| ***known == *network).cloned();
            (network.id, known.unwrap_or_else(|| Arc::new(network.clone())))
        });
        self.connectable = networks.collect();
        if self.connectable == earlier {
            self.connectable = earlier;
        }
        self.follow_owners();
    }

    /// A network that connects may name.
    pub fn connectable_network(&self, id: NetworkId) -> Option<&Network> {
        self.connectable.get(&id).map(|network| &**network)
    }

    /// Owners of the ids of nodes.
    pub fn node_ids(&self) -> &NodeIds {
        &self.node_ids
    }

    /// The zone's node, as far as it is known.
    pub fn local_node(&self) -> LocalNode {
        let Some(node) = self.own_node() else {
            return LocalNode::default();
        };
        LocalNode {
            is_there: true,
            id: self.node_ids.id_of(&node.node),
            lacks_id: node.node.id.is_none(),
            has_unreadable_id: node.node.has_unknown_id(),
        }
    }

    /// `true` if there are two nodes with ids.
    pub fn has_several_nodes(&self) -> bool {
        self.node_ids.owners().len() > 1
    }

    /// Number of load balancers that the services of a namespace need.
    pub fn load_balancers_in(&self, namespace: &str) -> usize {
        self.load_balancers.get(namespace).copied().unwrap_or(0)
    }

    pub(crate) fn follow_load_balancers(
        &mut self,
        former: Option<&Service>,
        current: Option<&Service>,
    ) {
        if let Some(former) = former {
            let namespace = &former.key.namespace;
            let left = self.load_balancers_in(namespace) - former.load_balancer_count();
            match left {
                0 => self.load_balancers.remove(namespace),
                left => self.load_balancers.insert(namespace.clone(), left),
            };
        }
        let count = current.map_or(0, Service::load_balancer_count);
        if let Some(current) = current.filter(|_| count > 0) {
            let namespace = &current.key.namespace;
            let all = self.load_balancers_in(namespace) + count;
            self.load_balancers.insert(namespace.clone(), all);
        }
    }

    /// Takes over the tunnel keys of routers that a running controller has known.
    pub(crate) fn follow_connects(&mut self, earlier: &Self) {
        for (name, input) in &self.connects {
            let former = earlier.connects.get(name);
            if former.is_some_and(|former| former.uid == input.uid) {
                self.router_keys.keep(name, &earlier.router_keys);
            }
        }
    }

    /// Calls `changed` for the cells of connects, of which there are parts because of these alone.
    pub(crate) fn changed_connects(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(Cell)) {
        let Some(earlier) = earlier else {
            for (name, input) in &self.connects {
                new_connect(name, input, changed);
            }
            return;
        };
        if earlier.local_node() != self.local_node() || earlier.zone() != self.zone() {
            changed(Cell::LocalNode);
        }
        if earlier.node_ids.has_unreadable() != self.node_ids.has_unreadable() {
            changed(Cell::UnreadableIds);
        }
        if !self.node_ids.is_without_id_as(&earlier.node_ids) {
            changed(Cell::WithoutId);
        }
        if earlier.has_several_nodes() != self.has_several_nodes() {
            changed(Cell::SeveralNodes);
        }
        for item in earlier.node_ids.owners().diff(self.node_ids.owners()) {
            match item {
                DiffItem::Add(id, _) | DiffItem::Remove(id, _) => {
                    changed(Cell::NodeId(*id));
                    for network in self.connectable.keys() {
                        changed(Cell::Link(*id, *network));
                    }
                }
                DiffItem::Update { old: (_, old), new: (id, new) } => {
                    changed_node(*id, (old, new), &self.connectable, changed);
                }
            }
        }
        for id in changed_keys(&earlier.connectable, &self.connectable) {
            changed(Cell::ConnectableNetwork(*id));
        }
        for namespace in changed_keys(&earlier.load_balancers, &self.load_balancers) {
            changed(Cell::LoadBalancers(namespace.clone()));
        }
        for item in earlier.connects.diff(&self.connects) {
            match item {
                DiffItem::Add(name, input) | DiffItem::Remove(name, input) => {
                    new_connect(name, input, changed);
                }
                DiffItem::Update { old: (_, old), new: (name, new) } => {
                    changed_connect(name, (old, new), changed);
                }
            }
        }
    }
}

/// Calls `changed` for what a connect consists of.
fn new_connect(name: &SmolStr, input: &ConnectInput, changed: &mut dyn FnMut(Cell)) {
    changed(Cell::Connect(name.clone()));
    if let Ok(connect) = &input.connect {
        for owner in connect.subnets.owners() {
            changed(Cell::ConnectEntry(name.clone(), owner.network_id));
        }
    }
}

fn changed_connect(
    name: &SmolStr,
    (old, new): (&ConnectInput, &ConnectInput),
    changed: &mut dyn FnMut(Cell),
) {
    let (Ok(old), Ok(new)) = (&old.connect, &new.connect) else {
        new_connect(name, old, changed);
        new_connect(name, new, changed);
        return;
    };
    changed(Cell::Connect(name.clone()));
    for owner in old.subnets.owners().chain(new.subnets.owners()) {
        if old.subnets.get(owner) != new.subnets.get(owner) {
            changed(Cell::ConnectEntry(name.clone(), owner.network_id));
        }
    }
}

fn changed_node(
    id: NodeId,
    (old, new): (&Node, &Node),
    networks: &OrdMap<NetworkId, Arc<Network>>,
    changed: &mut dyn FnMut(Cell),
) {
    let is_other = (&old.name, &old.chassis_id) != (&new.name, &new.chassis_id);
    if is_other {
        changed(Cell::NodeId(id));
    }
    for (network, of) in networks {
        let name = &of.name;
        if is_other
            || old.subnets_of(name) != new.subnets_of(name)
            || old.refused_subnets_of(name) != new.refused_subnets_of(name)
            || old.has_unknown_subnets_of(name) != new.has_unknown_subnets_of(name)
        {
            changed(Cell::Link(id, *network));
        }
    }
}
