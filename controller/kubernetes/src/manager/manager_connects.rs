//! Connects in the cluster manager, the last step of a pass: annotations and conditions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use patchbay_allocate::RouterKeyCursor;
use patchbay_allocate::connects::{
    ACCEPTED, AllocationReport, ClusterController, ClusterObjects, CncOutcome, Unconnected,
    with_condition,
};
use patchbay_allocate::networks::RefusedWrite;
use patchbay_connects::CONNECTED;
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_model::{ClusterSettings, NODE_ID, NodeId};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use patchbay_resources::conversion;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Objects};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Node, Object as _, Time};

use crate::events::condition_events::condition;
use crate::reports::observed_zones::ZoneKnowledge;
use crate::watch::connected_networks::ConnectedNetworks;
use crate::watch::read_failure::describe_undefined;

/// `reason` of the condition of a ClusterNetworkConnect that cannot be read or written.
const FAILED: &str = "ResourceAllocationFailed";

/// Allocations of connects, during one term of the leader. They are known from annotations alone,
/// so every term starts with an empty state.
#[derive(Debug)]
pub(crate) struct ManagerConnects {
    controller: ClusterController,
    /// Networks of connects that zones know nothing of, by connect.
    unconnected: BTreeMap<String, Unconnected>,
    /// Obstacles that zones report, by connect. Those of a connect without an entry are not known.
    obstacles: BTreeMap<String, BTreeSet<String>>,
    /// Number of zones whose report is not about the present state, by connect.
    zones_behind: BTreeMap<String, usize>,
}

/// What conditions follow from, besides the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) zones: &'a ZoneKnowledge<'a>,
    pub(crate) connected: &'a ConnectedNetworks,
    /// Time of conditions that change.
    pub(crate) now: &'a Time,
}

impl ManagerConnects {
    /// No allocations. The keys of routers come from the same position as those of networks.
    pub(crate) fn new(settings: ClusterSettings, router_keys: RouterKeyCursor) -> Self {
        Self {
            controller: ClusterController::new(settings).with_router_keys(router_keys),
            unconnected: BTreeMap::new(),
            obstacles: BTreeMap::new(),
            zones_behind: BTreeMap::new(),
        }
    }

    /// Obstacles that zones report, by connect.
    pub(crate) fn obstacles(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.obstacles
    }

    /// Number of zones whose report is not about the present state, by connect.
    pub(crate) fn zones_behind(&self) -> &BTreeMap<String, usize> {
        &self.zones_behind
    }

    /// Sets annotations and status of all connects. Returns warnings, one line each.
    pub(crate) fn reconcile(
        &mut self,
        inventory: &mut Inventory,
        observed: Observed<'_>,
    ) -> Vec<String> {
        let AllocationReport { outcomes, warnings } = self.allocate(inventory, observed.now);
        self.obstacles.clear();
        self.zones_behind.clear();
        let outcomes = outcomes.into_iter();
        self.unconnected = outcomes
            .map(|outcome| {
                self.set_outcome(inventory, &outcome, observed);
                (outcome.name, outcome.unconnected)
            })
            .collect();
        warnings.iter().map(ToString::to_string).collect()
    }

    fn allocate(&mut self, inventory: &Inventory, now: &Time) -> AllocationReport {
        let nads = &inventory.network_attachment_definitions;
        let namespaces = &inventory.namespaces;
        let networks = conversion::networks(objects(nads), objects(namespaces));
        let readable: Vec<_> = inventory
            .cluster_network_connects
            .iter()
            .map(|(key, connect)| readable(inventory, key, &connect.object))
            .collect();
        let ids = inventory
            .nodes
            .iter()
            .filter_map(|(key, node)| Some((key.name.as_str(), node_id(&node.object)?)));
        let objects = ClusterObjects::new(
            &networks,
            objects(nads),
            objects(namespaces),
            readable.iter().map(AsRef::as_ref),
        )
        .with_nodes(ids);
        self.controller.reconcile(&objects, now)
    }

    /// Sets annotations and status of a connect. One that cannot be decoded keeps its annotations.
    fn set_outcome(
        &mut self,
        inventory: &mut Inventory,
        outcome: &CncOutcome,
        observed: Observed<'_>,
    ) {
        let Some(current) = inventory.cluster_network_connects.named(&outcome.name) else {
            return;
        };
        let mut connect = current.clone();
        let error = decoding_error(inventory, &outcome.name);
        let status = if let Some(error) = error {
            let message = format!("failed to read CNC {}: {error}", outcome.name);
            failed(&connect, message, observed.now)
        } else {
            for (key, value) in outcome.annotations() {
                connect.annotations_mut().insert(key.to_owned(), value);
            }
            outcome.status.clone()
        };
        // A spec that cannot be read selects nothing that is known.
        let unconnected = Some(&outcome.unconnected).filter(|_| error.is_none());
        connect.status = Some(self.with_connected(&connect, status, unconnected, observed));
        replace(inventory, connect);
    }

    /// Notes in the status of connects that the API server refuses their annotations.
    pub(crate) fn note_refused(
        &mut self,
        before: &Inventory,
        after: &mut Inventory,
        refused: &[RefusedWrite],
        observed: Observed<'_>,
    ) {
        for RefusedWrite { key, message } in refused {
            let connects = (
                before.cluster_network_connects.named(&key.name),
                after.cluster_network_connects.named(&key.name),
            );
            let (Some(old), Some(new)) = connects else {
                continue;
            };
            if old.annotations() == new.annotations() {
                continue;
            }
            let mut connect = old.clone();
            let status = failed(&connect, message.clone(), observed.now);
            let unconnected = self.unconnected.get(&key.name).cloned();
            connect.status =
                Some(self.with_connected(&connect, status, unconnected.as_ref(), observed));
            replace(after, connect);
        }
    }

    /// Adds the condition `Connected` to the status of a connect.
    ///
    /// Without any report so far there is no condition, unless no network is selected. While the
    /// reports are not known, the condition stays as it is. It does not become true while it is not
    /// known whether all zones run, because a former leader may have seen that one does not.
    fn with_connected(
        &mut self,
        connect: &ClusterNetworkConnect,
        status: ClusterNetworkConnectStatus,
        unconnected: Option<&Unconnected>,
        observed: Observed<'_>,
    ) -> ClusterNetworkConnectStatus {
        let meta = &connect.metadata;
        let inputs = observed.connected.digest_of(meta);
        let Some(mut collected) = observed.zones.reports_about(meta, &inputs) else {
            return status;
        };
        let reports = &mut collected.reports;
        if let Some(unconnected) = unconnected {
            reports.no_networks = &unconnected.no_networks;
            reports.without_subnets = &unconnected.without_subnets;
        }
        let behind = reports.outdated.len() + reports.silent.len();
        self.zones_behind.insert(connect.name_any(), behind);
        let obstacles = reports.obstacles().into_iter().map(str::to_owned);
        self.obstacles.insert(connect.name_any(), obstacles.collect());
        let before = status.conditions.iter().find(|one| one.type_ == CONNECTED);
        if reports.is_empty() && before.is_none() && reports.no_networks.is_empty() {
            return status;
        }
        let report = reports.condition();
        let becomes_true = report.status == ConditionStatus::True
            && before.is_none_or(|before| before.status != report.status.as_str());
        if becomes_true && collected.is_unobserved {
            return status;
        }
        with_condition(Some(&status), report, meta.generation, observed.now)
    }
}

/// Notes in conditions of connects that the cluster has no definition of attachment definitions. A
/// connect that has been accepted stays as it is.
pub(crate) fn note_undefined_definitions(inventory: &mut Inventory, now: &Time) {
    let kind = NetworkAttachmentDefinition::KIND;
    let message = format!("waiting for {kind}s: {}", describe_undefined(kind));
    let connects = inventory.cluster_network_connects.clone();
    let is_accepted = |connect: &ClusterNetworkConnect| {
        condition(connect, ACCEPTED).is_some_and(|one| one.status == "True")
    };
    for connect in objects(&connects).filter(|connect| !is_accepted(connect)) {
        let report = ConditionReport {
            type_: ACCEPTED,
            status: ConditionStatus::False,
            reason: "DefinitionMissing",
            message: message.clone(),
        };
        let mut connect = connect.clone();
        let generation = connect.metadata.generation;
        connect.status = Some(with_condition(connect.status.as_ref(), report, generation, now));
        replace(inventory, connect);
    }
}

/// The connect to allocate for. One that was never readable gets no UID: its tunnel key stays
/// reserved, and nothing else is done for it.
fn readable<'a>(
    inventory: &Inventory,
    key: &ObjectKey,
    connect: &'a ClusterNetworkConnect,
) -> Cow<'a, ClusterNetworkConnect> {
    let name = (ClusterNetworkConnect::KIND, key.clone());
    if !inventory.undecoded.contains(&name) {
        return Cow::Borrowed(connect);
    }
    let mut connect = connect.clone();
    connect.metadata.uid = None;
    Cow::Owned(connect)
}

/// Reason why a connect cannot be decoded. `None`: it can.
fn decoding_error<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a str> {
    let mut refused = inventory.refused.iter();
    let refused =
        refused.find(|one| one.kind == ClusterNetworkConnect::KIND && one.key.name == name)?;
    refused.problems.first().map(|problem| &*problem.message)
}

/// The status of a connect that cannot be read or written. The time of the condition does not change
/// with each attempt.
fn failed(
    connect: &ClusterNetworkConnect,
    message: String,
    now: &Time,
) -> ClusterNetworkConnectStatus {
    let report = ConditionReport {
        type_: ACCEPTED,
        status: ConditionStatus::False,
        reason: FAILED,
        message,
    };
    let generation = connect.metadata.generation;
    with_condition(connect.status.as_ref(), report, generation, now)
}

/// Replaces a connect in the inventory, if it differs. Objects that are shared stay shared.
fn replace(inventory: &mut Inventory, connect: ClusterNetworkConnect) {
    let connects = &mut inventory.cluster_network_connects;
    let key = ObjectKey::of(&connect.metadata);
    if connects.get(&key).is_some_and(|one| one.object != connect)
        && let Some(sourced) = connects.get_mut(&key)
    {
        sourced.object = connect;
    }
}

/// Id of a node. `None`: it has none that can be read.
pub(crate) fn node_id(node: &Node) -> Option<NodeId> {
    node.annotations().get(NODE_ID)?.parse().ok()
}

fn objects<K: InventoryKind>(objects: &Objects<K>) -> impl Iterator<Item = &K> {
    objects.iter().map(|(_, sourced)| &sourced.object)
}
