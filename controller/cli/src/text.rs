//! Text of zones as `ovn-nbctl` prints them, and objects with their status.

use std::fmt::Write as _;

use patchbay_connects::{ConnectReport, HeldReason};
use patchbay_model::names;
use patchbay_nbctl_text::{
    Release, RenderError, lr_list, lr_policy_list, lr_route_list, ls_list, show_router,
};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::zone::ZoneOutcome;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::InventoryKind;
use patchbay_resources::udn::NetworkStatus;
use serde_json::{Value, json};

use super::routers::RoutersByName;

/// Renders a zone: for each connect its router, the routes of the router, and the policies of the
/// routers of the connected networks. Without connects it is the zone's routers and switches.
///
/// # Errors
/// A row cannot be decoded.
pub(super) fn render_zone(
    zone: &str,
    outcome: &ZoneOutcome,
    routers: &RoutersByName<'_>,
) -> Result<String, RenderError> {
    let snapshot = routers.snapshot();
    let mut text = format!("# zone {zone}\n");
    for (connect, report) in &outcome.reports {
        let router = names::connect_router(connect);
        let shown = show_router(snapshot, &routers.id_of(&router), Release::V23_03)?;
        if shown.is_empty() {
            let _ = writeln!(text, "\n# {connect}: {}", without_router(report));
            continue;
        }
        push_command(&mut text, &format!("show {router}"), &shown);
        let routes = lr_route_list(snapshot, &routers.id_of(&router))?;
        push_command(&mut text, &format!("lr-route-list {router}"), &routes);
        for network in report.connected.iter().filter(|network| network.is_local) {
            let router = names::network_router(&network.network, network.owner.topology);
            let policies = lr_policy_list(snapshot, &routers.id_of(&router), Release::V23_03)?;
            push_command(&mut text, &format!("lr-policy-list {router}"), &policies);
        }
    }
    if outcome.reports.is_empty() {
        push_command(&mut text, "lr-list", &lr_list(snapshot)?);
        push_command(&mut text, "ls-list", &ls_list(snapshot)?);
    }
    Ok(text)
}

/// Reason why there is no connect router. An embedded database has no rows of earlier runs.
fn without_router(report: &ConnectReport) -> &'static str {
    match report.held {
        Some(HeldReason::NotAccepted(_) | HeldReason::Invalid(_)) => {
            "its rows stay as they are, and this database has none (without --nb it is empty at first)"
        }
        _ => "the connect router does not exist yet",
    }
}

fn push_command(text: &mut String, arguments: &str, output: &str) {
    let _ = write!(text, "\n$ ovn-nbctl {arguments}\n{output}");
}

/// Returns the annotations and the status of a connect, as a cluster would write them.
pub(super) fn connect_status(object: &ClusterNetworkConnect) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "ClusterNetworkConnect",
        "metadata": {
            "name": object.metadata.name,
            "annotations": object.metadata.annotations,
        },
        "status": object.status,
    })
}

/// Returns kind, name and status of every UDN and CUDN, by name.
pub(super) fn network_statuses(cluster: &Cluster) -> Vec<Value> {
    let inventory = &cluster.inventory;
    let udns = inventory
        .user_defined_networks
        .iter()
        .map(|(_, udn)| network_status(&udn.object, udn.object.status.as_ref()));
    let cudns = inventory
        .cluster_user_defined_networks
        .iter()
        .map(|(_, cudn)| network_status(&cudn.object, cudn.object.status.as_ref()));
    udns.chain(cudns).collect()
}

/// Returns kind, name and status of a network, as a cluster would write them.
fn network_status<T: InventoryKind>(object: &T, status: Option<&NetworkStatus>) -> Value {
    let mut metadata = json!({ "name": object.meta().name });
    if let Some(namespace) = &object.meta().namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": T::api_version(),
        "kind": T::KIND,
        "metadata": metadata,
        "status": status,
    })
}
