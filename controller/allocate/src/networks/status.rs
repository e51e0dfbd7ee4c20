//! Conditions of UDNs and CUDNs.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{ClusterSettings, NetworkActivity};
use patchbay_resources::manifests::{Inventory, ObjectKey, Objects, Problem};
use patchbay_resources::object::Time;
use patchbay_resources::set_condition;
use patchbay_resources::udn::NetworkStatus;

use super::conditions::{
    NETWORK_ALLOCATION_SUCCEEDED, NETWORK_CREATED, NODES_SELECTED, TRANSPORT_ACCEPTED, condition,
    is_created,
};
use super::evpn::EvpnProblem;
use super::node_subnets::{Failures, no_subnet, subnet_problem};
use super::outcome::DefinitionOutcome;
use super::resource::{NetworkResource, change_status, is_allocated};
use super::transport::accepted_condition;

/// Notes whether a custom resource has its attachment definitions.
pub(super) fn note_definitions<T: NetworkResource>(
    object: &mut T,
    outcome: &DefinitionOutcome,
    now: &Time,
) {
    let (created, reason, message) = outcome.condition(object.as_cudn().is_some());
    let conditions = &mut object.status_mut().get_or_insert_default().conditions;
    set_condition(conditions, NETWORK_CREATED, created, reason, message, now);
}

/// Notes whether packets can travel as a ClusterUserDefinedNetwork wants. `problem`: reason why it
/// cannot be on its fabric.
pub(super) fn note_transport<T: NetworkResource>(
    object: &mut T,
    problem: Option<&EvpnProblem>,
    inventory: &Inventory,
    settings: &ClusterSettings,
    now: &Time,
) {
    let cudn = object.as_cudn();
    let found = cudn.and_then(|cudn| accepted_condition(cudn, problem, inventory, settings));
    if let Some((is_accepted, reason, message)) = found {
        let conditions = &mut object.status_mut().get_or_insert_default().conditions;
        let kind = TRANSPORT_ACCEPTED;
        set_condition(conditions, kind, is_accepted, &reason, message, now);
    }
}

/// Notes for every network that was created whether all nodes have got their subnets. Nodes that
/// have not are warnings about the network's custom resource, or about the node if it has none.
pub(super) fn note_allocation(inventory: &mut Inventory, failures: &Failures, now: &Time) {
    let mut warnings = Vec::new();
    let mut others: BTreeMap<&String, &Vec<String>> = failures.iter().collect();
    let (udns, cudns) =
        (&mut inventory.user_defined_networks, &mut inventory.cluster_user_defined_networks);
    note_allocation_of_kind(udns, &mut others, &mut warnings, now);
    note_allocation_of_kind(cudns, &mut others, &mut warnings, now);
    for (network, nodes) in others {
        for node in nodes {
            let key = ObjectKey::cluster(node);
            if let Some(object) = inventory.nodes.get(&key) {
                warnings.push(subnet_problem(object, no_subnet(node, network)));
            }
        }
    }
    inventory.warnings.extend(warnings);
}

/// Takes the failures of networks of a kind, and notes them.
fn note_allocation_of_kind<T: NetworkResource>(
    objects: &mut Objects<T>,
    failures: &mut BTreeMap<&String, &Vec<String>>,
    warnings: &mut Vec<Problem>,
    now: &Time,
) {
    change_status(objects, |key, sourced, status| {
        let network = T::network_name(key);
        let failed = failures.remove(&network);
        if is_created(status.as_ref())
            && let Some(NetworkStatus { conditions }) = status
        {
            let (reason, message) = match failed.and_then(|nodes| nodes.first()) {
                None => (
                    "NetworkAllocationSucceeded",
                    "Network allocation succeeded for all synced nodes.".to_owned(),
                ),
                Some(node) => (
                    "InternalError",
                    format!(
                        "Network allocation failed for at least one node: {node}, check UDN events for more info."
                    ),
                ),
            };
            let kind = NETWORK_ALLOCATION_SUCCEEDED;
            set_condition(conditions, kind, failed.is_none(), reason, message, now);
        }
        warnings.extend(failed.into_iter().flatten().map(|node| {
            let error = no_subnet(node, &network);
            sourced.problem(format!("Error occurred for node {node}: {error}"))
        }));
    });
}

/// Notes for the networks of a kind how many nodes have users of them, once there has been one. As
/// in OVN-Kubernetes, a localnet network without subnets has no such condition: its cluster manager
/// allocates nothing for it.
pub(super) fn note_selected_nodes<T: NetworkResource>(
    objects: &mut Objects<T>,
    active: &NetworkActivity,
    now: &Time,
) {
    change_status(objects, |key, sourced, status| {
        let nodes = active.nodes(&T::network_name(key));
        let count = nodes.map_or(0, BTreeSet::len);
        let is_known = condition(status.as_ref(), NODES_SELECTED).is_some();
        if !is_allocated(&sourced.object) || (count == 0 && !is_known) {
            return;
        }
        let message = match count {
            0 => "no nodes currently rendered with network".to_owned(),
            count => format!("{count} node(s) rendered with network"),
        };
        let conditions = &mut status.get_or_insert_default().conditions;
        let reason = "DynamicAllocation";
        set_condition(conditions, NODES_SELECTED, count > 0, reason, message, now);
    });
}
