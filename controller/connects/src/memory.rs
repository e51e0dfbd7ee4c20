//! What is remembered from one pass to the next, and what is forgotten of it when something changes.
//!
//! Nothing in here is true by itself: it all follows from the inputs and the database as they were, and a pass without
//! it comes to the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_engine::db::Snapshot;

use super::changes::{InputChanges, NodeChange};
use super::connect::ConnectState;
use super::desired::{Around, load_balancers_by_namespace};
use super::index::{Index, Touched};
use super::inputs::Inputs;
use super::nodes::NodeIds;
use super::reconcile::Decided;
use super::report::Notice;
use super::unit::{LinkId, Unit};
use patchbay_model::{Connect, NetworkId, Node, NodeId, OwnerKey, Topology};

/// The last pass.
#[derive(Debug)]
pub(super) struct Memory {
    inputs: Inputs,
    pub(super) index: Index,
    nodes: NodeIds,
    load_balancers: BTreeMap<String, usize>,
    pub(super) decided: Decided,
    /// By name: those that there are, and those that still have rows.
    pub(super) connects: BTreeMap<String, ConnectState>,
}

/// What is known of ids, of the zone's node and of all.
#[derive(PartialEq)]
struct KnownIds {
    /// The id of the zone's node, if it has one for itself.
    own: Option<NodeId>,
    is_own_missing: bool,
    is_own_unreadable: bool,
    is_any_unreadable: bool,
}

impl Memory {
    /// Begins anew: everything is to be looked at.
    pub(super) fn new(inputs: &Inputs, snapshot: &Snapshot) -> Self {
        let index = Index::new(snapshot);
        let mut nodes = NodeIds::default();
        for node in inputs.nodes.values() {
            nodes.add(node);
        }
        let names = inputs.connects.keys().map(String::as_str);
        let names: BTreeSet<&str> = names.chain(index.owners()).collect();
        let connects = names
            .into_iter()
            .map(|name| (name.to_owned(), ConnectState::unseen()));
        let mut memory = Self {
            connects: connects.collect(),
            inputs: inputs.clone(),
            nodes,
            load_balancers: load_balancers_by_namespace(&inputs.services),
            decided: Decided::new(snapshot.schema()),
            index,
        };
        memory.share(inputs);
        memory
    }

    /// Notes what may be different since the last pass. False if that is not known.
    pub(super) fn follow(&mut self, inputs: &Inputs, snapshot: &Snapshot) -> bool {
        let Some(rows) = snapshot.changes_since(self.index.snapshot()) else {
            return false;
        };
        let former = std::mem::replace(&mut self.inputs, inputs.clone());
        let Some(changes) = InputChanges::between(&former, inputs) else {
            return false;
        };
        let watched = self.connects.values().any(ConnectState::is_waiting);
        let touched = self.index.follow(snapshot, &rows, watched);
        self.follow_database(touched);
        self.follow_connects(&former, inputs, &changes);
        self.follow_networks(&changes);
        let before = self.known_ids(&former);
        self.follow_nodes(&changes);
        if self.known_ids(inputs) != before {
            // Everything that is local has another address, even if it was another node that changed; or nodes that are gone
            // can be told from those that may be there.
            for state in self.connects.values_mut() {
                state.pending.mark_everything();
            }
        }
        if changes.services {
            self.load_balancers = load_balancers_by_namespace(&inputs.services);
            for state in self.connects.values_mut() {
                state.pending.units.insert(Unit::Services);
            }
        }
        if !(changes.connects.is_empty() && changes.networks.is_empty()) {
            self.share(inputs);
        }
        true
    }

    /// What everything that is local depends on.
    fn known_ids(&self, inputs: &Inputs) -> KnownIds {
        let own = inputs.nodes.get(&inputs.zone);
        KnownIds {
            own: own.and_then(|node| self.nodes.id_of(node)),
            is_own_missing: own.is_some_and(|node| node.id.is_none()),
            is_own_unreadable: own.is_some_and(|node| node.has_unknown_id()),
            is_any_unreadable: self.nodes.has_unreadable(),
        }
    }

    fn follow_database(&mut self, touched: Touched) {
        for (connect, units) in touched.units {
            let state = self.connects.entry(connect);
            let state = state.or_insert_with(ConnectState::unseen);
            // Sorted first, many are joined at once.
            state.pending.units.append(&mut BTreeSet::from_iter(units));
        }
        for state in self.connects.values_mut() {
            if touched.copp {
                state.pending.mark_everything();
            }
            let places = |name: &str| touched.places.contains(name);
            let members = state.members().filter(|member| {
                !touched.places.is_empty() && (places(&member.router) || places(&member.switch))
            });
            let members: Vec<NetworkId> = members.map(|member| member.id).collect();
            let serves = state
                .members()
                .any(|member| touched.load_balancers.contains(&member.name));
            let freed = state.waits_for(&touched.ports);
            for network in members {
                state.pending.look_at(network);
            }
            if serves {
                state.pending.units.insert(Unit::Services);
            }
            state
                .pending
                .units
                .extend(freed.into_iter().map(Unit::Link));
        }
    }

    fn follow_connects(&mut self, former: &Inputs, inputs: &Inputs, changes: &InputChanges<'_>) {
        for name in &changes.connects {
            let state = self.connects.entry((*name).to_owned());
            let state = state.or_insert_with(ConnectState::unseen);
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

    fn follow_networks(&mut self, changes: &InputChanges<'_>) {
        for state in self.connects.values_mut() {
            state.pending.networks.extend(&changes.networks);
            // Which namespaces a network serves, and so how many load balancers it should have.
            if state
                .members()
                .any(|member| changes.networks.contains(&member.id))
            {
                state.pending.units.insert(Unit::Services);
            }
            let members = state.members();
            let moved = members.filter(|member| changes.activity.contains(&*member.name));
            let moved: Vec<NetworkId> = moved.map(|member| member.id).collect();
            for network in moved {
                state.pending.look_at(network);
            }
        }
    }

    fn follow_nodes(&mut self, changes: &InputChanges<'_>) {
        for NodeChange { old, new } in changes.nodes.iter().copied() {
            if let Some(node) = old {
                self.nodes.remove(node);
            }
            if let Some(node) = new {
                self.nodes.add(node);
            }
            let id = |node: Option<&Arc<Node>>| node.and_then(|node| node.id);
            // Of several nodes with one id the oldest has it.
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
                    old_subnets == new_subnets && known(old) == known(new)
                };
                let networks = state.members().filter(|member| {
                    member.topology == Topology::Layer3
                        && (!same_chassis || !has_same_subnet(&member.name))
                });
                let ids = [id(old), id(new)];
                let links: Vec<Unit> = networks
                    .flat_map(|member| {
                        let ids = ids.into_iter().flatten();
                        ids.map(|id| Unit::Link(LinkId::layer3(member.id, id)))
                    })
                    .collect();
                let frozen: Vec<NetworkId> = if same_id {
                    Vec::new()
                } else {
                    state.frozen().collect()
                };
                let frozen = frozen.into_iter().flat_map(|network| {
                    let ids = ids.into_iter().flatten();
                    ids.map(move |id| Unit::Link(LinkId::layer3(network, id)))
                });
                state.pending.units.extend(links.into_iter().chain(frozen));
            }
        }
    }

    /// Tells connects that join two or more of the same networks about each other: their policies match the same
    /// traffic.
    fn share(&mut self, inputs: &Inputs) {
        let mut connects_of = BTreeMap::<OwnerKey, Vec<&str>>::new();
        for (name, input) in &inputs.connects {
            if let Ok(connect) = &input.connect {
                for owner in connect.subnets.owners() {
                    connects_of.entry(owner).or_default().push(name);
                }
            }
        }
        let mut shared = BTreeMap::<(&str, &str), Vec<OwnerKey>>::new();
        for (owner, connects) in &connects_of {
            for one in connects {
                for other in connects.iter().filter(|other| *other != one) {
                    shared.entry((*one, *other)).or_default().push(*owner);
                }
            }
        }
        let name = |owner: &OwnerKey| {
            let network = inputs.networks.by_id(owner.network_id);
            network.map_or_else(
                || owner.network_id.to_string(),
                |network| network.name.clone(),
            )
        };
        let mut notices = BTreeMap::<&str, Vec<Notice>>::new();
        for ((connect, other), owners) in &shared {
            if owners.len() >= 2 {
                notices
                    .entry(*connect)
                    .or_default()
                    .push(Notice::SharedNetworks {
                        connect: (*other).to_owned(),
                        networks: owners.iter().map(name).collect(),
                    });
            }
        }
        for (name, state) in &mut self.connects {
            state.set_shared_notices(notices.remove(name.as_str()).unwrap_or_default());
        }
    }

    /// What rows follow from, and the connects.
    pub(super) fn parts(&mut self) -> (Around<'_>, &Decided, &mut BTreeMap<String, ConnectState>) {
        let around = Around {
            inputs: &self.inputs,
            index: &self.index,
            nodes: &self.nodes,
            load_balancers: &self.load_balancers,
        };
        (around, &self.decided, &mut self.connects)
    }
}

/// The networks whose subnets differ; none if the connects differ in something that is about all of them.
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
