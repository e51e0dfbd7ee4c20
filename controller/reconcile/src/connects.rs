//! ClusterNetworkConnects of manifests, with what the cluster manager allocates for them.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_allocate::connects::{
    AllocationWarning, ClusterController, ClusterObjects, Unconnected, VpcMembers,
};
use patchbay_allocate::networks::NumberedNetworks;
use patchbay_model::{ClusterSettings, Databases, NadKey, Networks};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem};
use patchbay_resources::object::{Object as _, Time};

use super::cluster::objects;
use super::warnings::connect_refusals;

/// What is known of connects beside their annotations and status.
pub(crate) struct AllocatedConnects {
    /// Networks of connects that zones know nothing of, by connect.
    pub(crate) unconnected: BTreeMap<String, Unconnected>,
    /// Warnings of the cluster manager, and connects that are not accepted.
    pub(crate) warnings: Vec<Problem>,
    /// Attachment definitions that warnings are about.
    pub(crate) reported: BTreeSet<NadKey>,
}

/// Sets annotations and status of all connects, as the cluster manager does.
pub(crate) fn allocate_connects(
    inventory: &mut Inventory,
    networks: &NumberedNetworks,
    settings: &ClusterSettings,
    now: &Time,
) -> AllocatedConnects {
    let vpcs = vpc_members(inventory, settings);
    let objects = connect_objects(inventory, &networks.networks)
        .with_nodes(networks.node_ids.iter())
        .with_vpcs(vpcs.as_ref());
    let report = ClusterController::new(settings.clone()).reconcile(&objects, now);
    let texts = report.warnings.iter().map(ToString::to_string);
    let mut allocated = AllocatedConnects {
        unconnected: BTreeMap::new(),
        warnings: texts.map(Problem::from).collect(),
        reported: BTreeSet::new(),
    };
    for warning in report.warnings {
        if let AllocationWarning::Definition { nad, .. } = warning {
            allocated.reported.insert(nad);
        }
    }
    for outcome in report.outcomes {
        let (is_accepted, annotations) = (outcome.is_accepted(), outcome.annotations());
        let connects = &mut inventory.cluster_network_connects;
        if let Some(sourced) = connects.get_mut(&ObjectKey::cluster(&*outcome.name)) {
            let annotations = annotations.into_iter();
            sourced
                .object
                .annotations_mut()
                .extend(annotations.map(|(key, value)| (key.to_owned(), value)));
            sourced.object.status = Some(outcome.status);
        }
        if !is_accepted {
            let refusals = connect_refusals(inventory, &outcome.name);
            allocated.warnings.extend(refusals);
        }
        allocated.unconnected.insert(outcome.name, outcome.unconnected);
    }
    allocated
}

/// VPCs of the connects. `None`: connects cannot join VPCs, because each zone has a database.
pub(crate) fn vpc_members(inventory: &Inventory, settings: &ClusterSettings) -> Option<VpcMembers> {
    (settings.databases == Databases::Central).then(|| VpcMembers::of(inventory))
}

/// The objects from which connects are allocated.
pub(crate) fn connect_objects<'a>(
    inventory: &'a Inventory,
    networks: &'a Networks,
) -> ClusterObjects<'a> {
    ClusterObjects::new(
        networks,
        objects(&inventory.network_attachment_definitions),
        objects(&inventory.namespaces),
        objects(&inventory.cluster_network_connects),
    )
}
