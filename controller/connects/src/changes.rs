//! Differences between two versions of the inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::inputs::{Activity, Inputs};
use patchbay_model::{Network, NetworkId, Networks, Node};

/// Differences between an earlier and a later version of the inputs.
#[derive(Debug, Default)]
pub(super) struct InputChanges<'a> {
    /// Nodes that were added, removed or changed.
    pub(super) nodes: Vec<NodeChange<'a>>,
    /// Ids of networks that were added, removed or changed.
    pub(super) networks: BTreeSet<NetworkId>,
    /// Names of networks whose set of active nodes changed.
    pub(super) activity: BTreeSet<&'a str>,
    /// `true` if the services changed.
    pub(super) services: bool,
    /// Names of connects that were added, removed or changed.
    pub(super) connects: BTreeSet<&'a str>,
}

/// Node before and after a change. `None`: absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeChange<'a> {
    pub(super) old: Option<&'a Arc<Node>>,
    pub(super) new: Option<&'a Arc<Node>>,
}

impl<'a> InputChanges<'a> {
    /// Compares two versions. `None`: every part must be evaluated, because the zone or the cluster
    /// configuration changed.
    ///
    /// Data that both versions share is not compared.
    pub(super) fn between(old: &'a Inputs, new: &'a Inputs) -> Option<Self> {
        if old.zone != new.zone
            || old.families != new.families
            || old.service_cidrs != new.service_cidrs
            // Layer3 networks are attached in the zone only while its node exists.
            || old.nodes.contains_key(&old.zone) != new.nodes.contains_key(&new.zone)
        {
            return None;
        }
        let services = !Arc::ptr_eq(&old.services, &new.services) && old.services != new.services;
        let connects = old.connects.diff(&new.connects).map(|item| match item {
            DiffItem::Add(name, _)
            | DiffItem::Remove(name, _)
            | DiffItem::Update { new: (name, _), .. } => name.as_str(),
        });
        Some(Self {
            nodes: nodes(old, new),
            networks: networks(&old.networks, &new.networks),
            activity: activity(&old.activity, &new.activity),
            services,
            connects: connects.collect(),
        })
    }
}

fn nodes<'a>(old: &'a Inputs, new: &'a Inputs) -> Vec<NodeChange<'a>> {
    let changes = old.nodes.diff(&new.nodes).map(|item| {
        let (old, new) = match item {
            DiffItem::Add(_, node) => (None, Some(node)),
            DiffItem::Remove(_, node) => (Some(node), None),
            DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
        };
        NodeChange { old, new }
    });
    changes.collect()
}

fn networks(old: &Arc<Networks>, new: &Arc<Networks>) -> BTreeSet<NetworkId> {
    if Arc::ptr_eq(old, new) {
        return BTreeSet::new();
    }
    let (old, new) = (by_id(old), by_id(new));
    let changed = old
        .iter()
        .filter(|(id, network)| new.get(id) != Some(network));
    let added = new.keys().filter(|id| !old.contains_key(id));
    changed.map(|(id, _)| *id).chain(added.copied()).collect()
}

/// Networks by id.
fn by_id(networks: &Networks) -> BTreeMap<NetworkId, &Network> {
    networks
        .iter()
        .map(|network| (network.id, network))
        .collect()
}

fn activity<'a>(old: &'a Arc<Activity>, new: &'a Arc<Activity>) -> BTreeSet<&'a str> {
    if Arc::ptr_eq(old, new) {
        return BTreeSet::new();
    }
    let (old, new) = (&old.limited, &new.limited);
    let names = old.keys().chain(new.keys());
    names
        .filter(|name| old.get(*name) != new.get(*name))
        .map(String::as_str)
        .collect()
}
