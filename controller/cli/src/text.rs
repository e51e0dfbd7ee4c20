//! Zones as `ovn-nbctl` prints them, connects as YAML.

use std::fmt::Write as _;

use patchbay_engine::db::Snapshot;
use patchbay_snapshots::{RenderError, lr_policy_list, lr_route_list, show_named};
use serde_json::{Value, json};

use patchbay_app::Cluster;
use patchbay_app::zone::ZoneOutcome;
use patchbay_model::names;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::InventoryKind;
use patchbay_resources::udn::NetworkStatus;

/// One zone: for each connect its router, the routes of that, and the policies of each connected network's router.
pub(super) fn zone(
    zone: &str,
    outcome: &ZoneOutcome,
    snapshot: &Snapshot,
) -> Result<String, RenderError> {
    let mut text = format!("# zone {zone}\n");
    for (connect, report) in &outcome.reports {
        let router = names::connect_router(connect);
        let shown = show_named(snapshot, &router)?;
        if shown.is_empty() {
            let _ = writeln!(text, "\n# {connect}: no router yet");
            continue;
        }
        command(&mut text, &format!("show {router}"), &shown);
        let routes = lr_route_list(snapshot, &router)?;
        command(&mut text, &format!("lr-route-list {router}"), &routes);
        let local = report.connected.iter().filter(|network| network.is_local);
        for network in local {
            let router = names::network_router(&network.network, network.owner.topology);
            let policies = lr_policy_list(snapshot, &router)?;
            command(&mut text, &format!("lr-policy-list {router}"), &policies);
        }
    }
    Ok(text)
}

fn command(text: &mut String, arguments: &str, output: &str) {
    let _ = write!(text, "\n$ ovn-nbctl {arguments}\n{output}");
}

/// What a cluster would have written into the object: its annotations and its status.
pub(super) fn connect(object: &ClusterNetworkConnect) -> Value {
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

/// Kind, name and status of every UDN and CUDN, by name.
pub(super) fn networks(cluster: &Cluster) -> Vec<Value> {
    let inventory = &cluster.inventory;
    let udns = inventory.user_defined_networks.iter();
    let udns = udns.map(|(_, udn)| network(&udn.object, udn.object.status.as_ref()));
    let cudns = inventory.cluster_user_defined_networks.iter();
    let cudns = cudns.map(|(_, cudn)| network(&cudn.object, cudn.object.status.as_ref()));
    udns.chain(cudns).collect()
}

/// What a cluster would have written into a network: its status.
fn network<T: InventoryKind>(object: &T, status: Option<&NetworkStatus>) -> Value {
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
