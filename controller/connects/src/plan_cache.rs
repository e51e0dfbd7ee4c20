//! Derived data that is kept from one pass to the next, and its invalidation.
//!
//! All of it follows from the last inputs and snapshot. A pass without it makes the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_engine::db::Snapshot;

use super::changes::{InputChanges, NodeChange};
use super::connect::ConnectState;
use super::desired::{PlanContext, load_balancers_by_namespace};
use super::index::{Index, Touched};
use super::inputs::Inputs;
use super::nodes::NodeIds;
use super::part::{LinkId, Part};
use super::reconcile::ManagedColumns;
use super::shared_networks::shared_networks;
use patchbay_model::{Connect, NetworkId, Node, NodeId, Topology};

/// Inputs of the last pass with derived data.
#[derive(Debug)]
pub(super) struct PlanCache {
    inputs: Inputs,
    pub(super) index: Index,
    nodes: NodeIds,
    load_balancers: BTreeMap<String, usize>,
    pub(super) managed: ManagedColumns,
    /// State by name: connects of the inputs, and deleted connects that still have rows.
    pub(super) connects: BTreeMap<String, ConnectState>,
}

/// Knowledge about node ids that all local rows depend on.
#[derive(PartialEq)]
struct LocalIdState {
    /// Id that the zone's node owns.
    own: Option<NodeId>,
    is_own_missing: bool,
    is_own_unreadable: bool,
    is_any_unreadable: bool,
}

impl PlanCache {
    /// Builds the cache; every part is pending.
    pub(super) fn new(inputs: &Inputs, snapshot: &Snapshot) -> Self {
        let index = Index::new(snapshot);
        let mut nodes = NodeIds::default();
        for node in inputs.nodes.values() {
            nodes.add(node);
        }
        let names: BTreeSet<&str> = inputs
            .connects
            .keys()
            .map(String::as_str)
            .chain(index.owners())
            .collect();
        let connects = names
            .into_iter()
            .map(|name| (name.to_owned(), ConnectState::new()));
        let mut cache = Self {
            connects: connects.collect(),
            inputs: inputs.clone(),
            nodes,
            load_balancers: load_balancers_by_namespace(&inputs.services),
            managed: ManagedColumns::new(snapshot.schema()),
            index,
        };
        cache.update_shared_notices(inputs);
        cache
    }

    /// Marks the parts that may have changed since the last pass. Returns `false` if the
    /// differences are unknown; the cache must then be built again.
    pub(super) fn update(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> bool {
        let Some(rows) = snapshot.changes_since(self.index.snapshot()) else {
            return false;
        };
        let former = std::mem::replace(&mut self.inputs, inputs.clone());
        let Some(changes) = InputChanges::between(&former, inputs) else {
            return false;
        };
        let watched = self.connects.values().any(ConnectState::is_waiting);
        let touched = self.index.update(snapshot, &rows, watched);
        self.mark_database_changes(touched);
        self.mark_connect_changes(&former, inputs, &changes);
        self.mark_network_changes(&changes);
        let before = self.local_id_state(&former);
        self.mark_node_changes(&changes);
        if self.local_id_state(inputs) != before {
            // All local addresses change, even if another node changed. Or the ids of all nodes
            // became readable, so that links of deleted nodes can be removed.
            for state in self.connects.values_mut() {
                state.pending.mark_everything();
            }
        }
        if changes.services {
            self.load_balancers = load_balancers_by_namespace(&inputs.services);
            for state in self.connects.values_mut() {
                state.pending.parts.insert(Part::Services);
            }
        }
        if !(changes.connects.is_empty() && changes.networks.is_empty()) {
            self.update_shared_notices(inputs);
        }
        true
    }

    /// Returns the knowledge that all local rows depend on.
    fn local_id_state(&self, inputs: &Inputs) -> LocalIdState {
        let own = inputs.nodes.get(&inputs.zone);
        LocalIdState {
            own: own.and_then(|node| self.nodes.id_of(node)),
            is_own_missing: own.is_some_and(|node| node.id.is_none()),
            is_own_unreadable: own.is_some_and(|node| node.has_unknown_id()),
            is_any_unreadable: self.nodes.has_unreadable(),
        }
    }

    fn mark_database_changes(&mut self, touched: Touched) {
        for (connect, parts) in touched.parts {
            let state = self.connects.entry(connect).or_default();
            // Sorted first, because `append` merges sorted sets in linear time.
            state.pending.parts.append(&mut BTreeSet::from_iter(parts));
        }
        for state in self.connects.values_mut() {
            if touched.copp {
                state.pending.mark_everything();
            }
            let places = |name: &str| touched.router_and_switch_names.contains(name);
            let members: Vec<NetworkId> = state
                .members()
                .filter(|member| {
                    !touched.router_and_switch_names.is_empty()
                        && (places(&member.router) || places(&member.switch))
                })
                .map(|member| member.id)
                .collect();
            let serves = state
                .members()
                .any(|member| touched.load_balancers.contains(&member.name));
            let freed = state.links_waiting_for(&touched.ports);
            for network in members {
                state.pending.mark_network(network);
            }
            if serves {
                state.pending.parts.insert(Part::Services);
            }
            state
                .pending
                .parts
                .extend(freed.into_iter().map(Part::Link));
        }
    }

    fn mark_connect_changes(
        &mut self,
        former: &Inputs,
        inputs: &Inputs,
        changes: &InputChanges<'_>,
    ) {
        for name in &changes.connects {
            let state = self.connects.entry((*name).to_owned()).or_default();
            let versions = (former.connects.get(*name), inputs.connects.get(*name));
            let (Some(old), Some(new)) = versions else {
                state.pending.mark_everything();
                continue;
            };
            match (&old.connect, &new.connect) {
                (Ok(old_connect), Ok(new_connect)) if old.uid == new.uid => {
                    match different_networks(old_connect, new_connect) {
                        Some(networks) => state.pending.networks.extend(networks),
                        None => state.pending.mark_everything(),
                    }
                    state.pending.report = true;
                }
                _ => state.pending.mark_everything(),
            }
        }
    }

    fn mark_network_changes(&mut self, changes: &InputChanges<'_>) {
        for state in self.connects.values_mut() {
            state.pending.networks.extend(&changes.networks);
            // The namespaces of a network determine its number of load balancers.
            if state
                .members()
                .any(|member| changes.networks.contains(&member.id))
            {
                state.pending.parts.insert(Part::Services);
            }
            let moved: Vec<NetworkId> = state
                .members()
                .filter(|member| changes.activity.contains(&*member.name))
                .map(|member| member.id)
                .collect();
            for network in moved {
                state.pending.mark_network(network);
            }
        }
    }

    fn mark_node_changes(&mut self, changes: &InputChanges<'_>) {
        for NodeChange { old, new } in changes.nodes.iter().copied() {
            if let Some(node) = old {
                self.nodes.remove(node);
            }
            if let Some(node) = new {
                self.nodes.add(node);
            }
            let id = |node: Option<&Arc<Node>>| node.and_then(|node| node.id);
            // Of several nodes with one id, the oldest owns it.
            let created = |node: Option<&Arc<Node>>| node.map(|node| node.created);
            let unreadable = |node: Option<&Arc<Node>>| node.map(|node| node.has_unknown_id());
            let same_id = id(old) == id(new)
                && created(old) == created(new)
                && unreadable(old) == unreadable(new);
            let same_chassis =
                same_id && old.map(|node| &node.chassis_id) == new.map(|node| &node.chassis_id);
            for state in self.connects.values_mut() {
                state.pending.report |= !same_id;
                let has_same_subnet = |network: &str| {
                    let known = |node: Option<&'_ Arc<Node>>| {
                        node.is_none_or(|node| !node.has_unknown_subnets_of(network))
                    };
                    let old_subnets = old.map_or(&[][..], |node| node.subnets_of(network));
                    let new_subnets = new.map_or(&[][..], |node| node.subnets_of(network));
                    let refused = |node: Option<&'_ Arc<Node>>| {
                        let refused = node.map(|node| node.refused_subnets_of(network));
                        refused.unwrap_or_default().to_vec()
                    };
                    old_subnets == new_subnets
                        && known(old) == known(new)
                        && refused(old) == refused(new)
                };
                let networks = state.members().filter(|member| {
                    member.topology == Topology::Layer3
                        && (!same_chassis || !has_same_subnet(&member.name))
                });
                let ids = [id(old), id(new)];
                let links: Vec<Part> = networks
                    .flat_map(|member| {
                        let ids = ids.into_iter().flatten();
                        ids.map(|id| Part::Link(LinkId::layer3(member.id, id)))
                    })
                    .collect();
                let networks_of_rows: Vec<NetworkId> = if same_id {
                    Vec::new()
                } else {
                    state.retained().collect()
                };
                let retained = networks_of_rows.into_iter().flat_map(|network| {
                    let ids = ids.into_iter().flatten();
                    ids.map(move |id| Part::Link(LinkId::layer3(network, id)))
                });
                state
                    .pending
                    .parts
                    .extend(links.into_iter().chain(retained));
            }
        }
    }

    /// Sets the notices of connects that join two or more of the same networks.
    fn update_shared_notices(&mut self, inputs: &Inputs) {
        let mut notices = shared_networks(inputs);
        for (name, state) in &mut self.connects {
            state.set_shared_notices(notices.remove(name.as_str()).unwrap_or_default());
        }
    }

    /// Returns the inputs of row computation, the managed columns and the connects.
    pub(super) fn context_and_connects(
        &mut self,
    ) -> (
        PlanContext<'_>,
        &ManagedColumns,
        &mut BTreeMap<String, ConnectState>,
    ) {
        let context = PlanContext {
            inputs: &self.inputs,
            index: &self.index,
            nodes: &self.nodes,
            load_balancers: &self.load_balancers,
        };
        (context, &self.managed, &mut self.connects)
    }
}

/// Ids of networks whose subnets differ. `None`: the connects differ in a property that affects all
/// networks.
fn different_networks(old: &Connect, new: &Connect) -> Option<BTreeSet<NetworkId>> {
    if old.tunnel_key != new.tunnel_key
        || old.ranges != new.ranges
        || old.connectivity != new.connectivity
    {
        return None;
    }
    let owners = old.subnets.owners().chain(new.subnets.owners());
    let different = owners.filter(|owner| old.subnets.get(*owner) != new.subnets.get(*owner));
    Some(different.map(|owner| owner.network_id).collect())
}
