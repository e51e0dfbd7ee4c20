//! Conditions of UDNs and CUDNs.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{NetworkActivity, names};
use patchbay_resources::manifests::{Inventory, ObjectKey, Problem, SourceLocation, describe};
use patchbay_resources::object::{Condition, Time};
use patchbay_resources::set_condition;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, NetworkStatus, UserDefinedNetwork};

use super::evpn::EvpnProblem;
use super::node_subnets::{Failures, no_subnet, problem};

/// Condition: the network has its attachment definitions.
pub const NETWORK_CREATED: &str = "NetworkCreated";
/// Condition: the transport of the network can be used.
pub const TRANSPORT_ACCEPTED: &str = "TransportAccepted";
/// Condition: all nodes have their subnets.
pub const NETWORK_ALLOCATION_SUCCEEDED: &str = "NetworkAllocationSucceeded";
/// Condition: nodes have the network, with dynamic allocation.
const NODES_SELECTED: &str = "NodesSelected";

/// Outcome of the attachment definition of a UDN.
pub(super) enum UdnOutcome {
    /// It is there.
    Created,
    /// Somebody deletes it.
    DefinitionDeleted,
    /// Error message.
    Failed(String),
}

/// Sets the condition of a UDN: its attachment definition.
pub(super) fn udn_created(udn: &mut UserDefinedNetwork, outcome: UdnOutcome, now: &Time) {
    let (created, reason, message) = match outcome {
        UdnOutcome::Created => (
            true,
            "NetworkAttachmentDefinitionCreated",
            "NetworkAttachmentDefinition has been created".into(),
        ),
        UdnOutcome::DefinitionDeleted => (
            false,
            "NetworkAttachmentDefinitionDeleted",
            "NetworkAttachmentDefinition is being deleted".into(),
        ),
        UdnOutcome::Failed(error) => (false, "SyncError", error),
    };
    let status = udn.status.get_or_insert_default();
    set_condition(
        &mut status.conditions,
        NETWORK_CREATED,
        created,
        reason,
        message,
        now,
    );
}

/// Outcome of the attachment definitions of a CUDN.
pub(super) enum CudnOutcome {
    /// They are in these namespaces.
    Created(BTreeSet<String>),
    /// Somebody deletes some, whose namespaces and names these are.
    DefinitionsDeleted(Vec<String>),
    /// Error messages, one for each namespace.
    Failed(Vec<String>),
    /// The network is on an EVPN fabric, and cannot be.
    Evpn(EvpnProblem),
}

/// Notes whether the CUDN has its attachment definitions.
pub(super) fn cudn_definitions(
    cudn: &mut ClusterUserDefinedNetwork,
    outcome: &CudnOutcome,
    now: &Time,
) {
    let (created, reason, message) = match outcome {
        CudnOutcome::Created(namespaces) => {
            let namespaces = namespaces
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "NetworkAttachmentDefinition has been created in following namespaces: [{namespaces}]"
            );
            (true, "NetworkAttachmentDefinitionCreated", message)
        }
        CudnOutcome::DefinitionsDeleted(definitions) => (
            false,
            "NetworkAttachmentDefinitionDeleted",
            format!(
                "NetworkAttachmentDefinition are being deleted: [{}]",
                definitions.join(" ")
            ),
        ),
        CudnOutcome::Failed(errors) => (
            false,
            "NetworkAttachmentDefinitionSyncError",
            errors.join("\n"),
        ),
        CudnOutcome::Evpn(EvpnProblem::Config(problem)) => {
            (false, "EVPNConfigError", (*problem).to_owned())
        }
        CudnOutcome::Evpn(EvpnProblem::VtepMissing(vtep)) => (
            false,
            "VTEPNotFound",
            format!(
                "Cannot create network: VTEP '{vtep}' does not exist. Create the VTEP CR first or update the CUDN to \
                 reference an existing VTEP."
            ),
        ),
        CudnOutcome::Evpn(EvpnProblem::VtepUnknown(vtep)) => (
            false,
            "VTEPUnknown",
            format!(
                "Cannot create network: VTEPs cannot be listed, so VTEP '{vtep}' is not known."
            ),
        ),
        CudnOutcome::Evpn(EvpnProblem::VtepNotAccepted(vtep)) => (
            false,
            "VTEPNotAccepted",
            format!(
                "Cannot create network: VTEP '{vtep}' exists but is not accepted. The VTEP must be in Accepted \
                 status before the network can be created."
            ),
        ),
    };
    let conditions = &mut cudn.status.get_or_insert_default().conditions;
    set_condition(conditions, NETWORK_CREATED, created, reason, message, now);
}

/// Notes for every network that was created whether all nodes have got their subnets. Nodes that
/// have not are warnings about the network's custom resource, or about the node if it has none.
pub(super) fn allocated(inventory: &mut Inventory, failures: &Failures, now: &Time) {
    let mut warnings = Vec::new();
    let mut others: BTreeMap<&String, &Vec<String>> = failures.iter().collect();
    let mut warn = |network: &String, object: String, location: Option<SourceLocation>| {
        let nodes = others.remove(network);
        for node in nodes.into_iter().flatten() {
            let error = no_subnet(node, network);
            warnings.push(Problem {
                location: location.clone(),
                object: Some(object.clone()),
                field: None,
                message: format!("Error occurred for node {node}: {error}"),
            });
        }
    };
    let udns = &mut inventory.user_defined_networks;
    udns.change_each(|key, udn| {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let network = names::udn_network(namespace, &key.name);
        note_allocation(&mut udn.object.status, failures.get(&network), now);
        warn(
            &network,
            describe(&udn.object),
            udn.origin.location().cloned(),
        );
    });
    let cudns = &mut inventory.cluster_user_defined_networks;
    cudns.change_each(|key, cudn| {
        let network = names::cudn_network(&key.name);
        note_allocation(&mut cudn.object.status, failures.get(&network), now);
        warn(
            &network,
            describe(&cudn.object),
            cudn.origin.location().cloned(),
        );
    });
    for (network, nodes) in others {
        for node in nodes {
            let key = ObjectKey::cluster(node);
            if let Some(object) = inventory.nodes.get(&key) {
                warnings.push(problem(object, &key, &no_subnet(node, network)));
            }
        }
    }
    inventory.warnings.extend(warnings);
}

/// Notes for every network how many nodes have users of it, once there has been one. As in
/// OVN-Kubernetes, a localnet network without subnets has no such condition: its cluster manager
/// allocates nothing for it.
pub(super) fn nodes_selected(inventory: &mut Inventory, active: &NetworkActivity, now: &Time) {
    let count = |network: &str| active.nodes(network).map_or(0, BTreeSet::len);
    let udns = &mut inventory.user_defined_networks;
    udns.change_each(|key, udn| {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let count = count(&names::udn_network(namespace, &key.name));
        note_nodes(&mut udn.object.status, count, now);
    });
    let cudns = &mut inventory.cluster_user_defined_networks;
    cudns.change_each(|key, cudn| {
        let localnet = cudn.object.spec.network.localnet.as_ref();
        if localnet.is_some_and(|config| config.subnets.is_none()) {
            return;
        }
        let count = count(&names::cudn_network(&key.name));
        note_nodes(&mut cudn.object.status, count, now);
    });
}

fn note_nodes(status: &mut Option<NetworkStatus>, count: usize, now: &Time) {
    let conditions = status.iter().flat_map(|status| &status.conditions);
    let is_known = conditions
        .into_iter()
        .any(|one| one.type_ == NODES_SELECTED);
    if count == 0 && !is_known {
        return;
    }
    let message = match count {
        0 => "no nodes currently rendered with network".to_owned(),
        count => format!("{count} node(s) rendered with network"),
    };
    let conditions = &mut status.get_or_insert_default().conditions;
    set_condition(
        conditions,
        NODES_SELECTED,
        count > 0,
        "DynamicAllocation",
        message,
        now,
    );
}

/// `true` if all definitions of a network exist that it should have.
pub(super) fn is_created(status: Option<&NetworkStatus>) -> bool {
    status.is_some_and(|status| has_created(&status.conditions))
}

fn has_created(conditions: &[Condition]) -> bool {
    let created =
        |condition: &Condition| condition.type_ == NETWORK_CREATED && condition.status == "True";
    conditions.iter().any(created)
}

fn note_allocation(status: &mut Option<NetworkStatus>, failed: Option<&Vec<String>>, now: &Time) {
    let Some(NetworkStatus { conditions }) = status else {
        return;
    };
    if !has_created(conditions) {
        return;
    }
    let failed = failed.and_then(|nodes| nodes.first());
    let (reason, message) = match failed {
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
    set_condition(
        conditions,
        NETWORK_ALLOCATION_SUCCEEDED,
        failed.is_none(),
        reason,
        message,
        now,
    );
}
