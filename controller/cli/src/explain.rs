//! `patchbay explain`: for each selected network and node, whether it is connected, and why not; or
//! what stops an object of a VPC.

pub(crate) mod args;
mod object;
mod vpc;

use std::collections::BTreeMap;

use patchbay_explain::{RowWriter, ZoneView, explain as explain_connect};
use patchbay_model::{ClusterSettings, Databases, Feature, Node, Topology};
use patchbay_networks::skipped_networks;
use patchbay_reconcile::northbound::NorthboundHandle;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_reconcile::{Cluster, load};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Node as NodeObject, Object as _};

use super::args::{Database, Format};
use super::console::Console;
use super::failure::Failure;
use super::state::{folder, lock_to_read};
use super::unreadable::unreadable;
use super::zones::{now, open_zone, report_objects};
use args::Explain;

/// Number of zones to plan without `--zone`. Problems of a node show only in the zones of other
/// nodes, so two zones show all problems.
const PLANNED_ZONES: usize = 2;

/// Prints the explanation of one object. Returns `true` if all that it selects is connected, or all
/// that it specifies is in effect.
pub(super) async fn explain(
    arguments: &Explain,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    if let Some(kind) = vpc::kind(arguments.kind) {
        return Box::pin(vpc::explain(kind, arguments, console)).await;
    }
    if let Some(kind) = object::kind(arguments.kind) {
        return Box::pin(object::explain(kind, arguments, console)).await;
    }
    let cluster = read_cluster(arguments, console).await?;
    let has_zones = cluster.settings().databases == Databases::Zone;
    require_zone(arguments, &cluster)?;
    report_objects(&cluster, console)?;
    let name = &*arguments.name;
    if let Some(failure) = unreadable(&cluster, &[ClusterNetworkConnect::KIND], name) {
        return Err(failure);
    }
    let database = match &arguments.nb {
        Some(remote) => Database::Remote(remote.clone()),
        None => Database::Embedded,
    };
    let mut views = BTreeMap::new();
    for zone in select_zones(arguments, &cluster)? {
        let (keys, limit) = (&arguments.input.keys, arguments.input.limit);
        let mut reconciler = open_zone(&zone, 0, &database, (keys, limit), console).await?;
        if let Some(mut view) = zone_view(name, &cluster, &mut reconciler).await? {
            if arguments.paths.is_empty() {
                view.writer = RowWriter::Run;
            }
            views.insert(zone, view);
        }
    }
    if has_unknown_activity(arguments, &cluster) {
        console.warn(
            "rows",
            "rows are not compared: with dynamic-udn-allocation they follow from pods, which are not listed",
        )?;
        for view in views.values_mut() {
            view.differences.clear();
        }
    }
    let networks = cluster.networks();
    let vpcs = cluster.vpc_members();
    let Some(explanation) =
        explain_connect(name, &cluster.inventory, &networks, &views, vpcs.as_ref())
    else {
        let known = cluster.inventory.cluster_network_connects.iter();
        return Err(Failure::NoSuchObject {
            kind: ClusterNetworkConnect::KIND,
            name: name.to_owned(),
            known: known.map(|(key, _)| key.name.clone()).collect(),
        });
    };
    if has_zones && cluster.inventory.nodes.is_empty() {
        console.warn("nodes", "no network is connected because there is no node")?;
    }
    match arguments.output {
        Format::Text => console.write_sentences(&explanation)?,
        format => console.document(&explanation, format)?,
    }
    Ok(explanation.is_connected())
}

/// `true` if the rows of a database follow from pods, which are not listed in a cluster.
fn has_unknown_activity(arguments: &Explain, cluster: &Cluster) -> bool {
    let is_dynamic = cluster.settings().has_feature(Feature::DynamicUdnAllocation);
    arguments.nb.is_some() && arguments.paths.is_empty() && is_dynamic
}

/// Reads the objects of the manifests, or without manifests those of a running cluster.
async fn read_cluster(arguments: &Explain, console: &mut Console<'_>) -> Result<Cluster, Failure> {
    if arguments.paths.is_empty() {
        let inventory = cluster_inventory(arguments).await?;
        let settings = arguments.input.cluster.zone_settings(&inventory)?;
        return Ok(Cluster::observed(inventory, settings, now()));
    }
    let (inventory, settings) = read_manifests(arguments, console).await?;
    Ok(Cluster::from_inventory(inventory, settings, now())?)
}

/// Reads the manifests, with the objects of the state folder and the settings of the cluster.
async fn read_manifests(
    arguments: &Explain,
    console: &mut Console<'_>,
) -> Result<(Inventory, ClusterSettings), Failure> {
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let max_bytes = arguments.input.manifest_limit.bytes();
    let inventory = load(&arguments.paths, console.input, state.as_ref(), max_bytes)?;
    let settings = arguments.input.cluster.settings(&inventory)?;
    Ok((inventory, ClusterSettings { is_northd_stock: arguments.stock_northd, ..settings }))
}

/// Fails if the database of a zone is named without the zone.
fn require_zone(arguments: &Explain, cluster: &Cluster) -> Result<(), Failure> {
    let has_zones = cluster.settings().databases == Databases::Zone;
    if arguments.nb.is_some() && arguments.zone.is_none() && has_zones {
        let message = "--nb needs --zone: the node whose database it is";
        return Err(Failure::Arguments(message.to_owned()));
    }
    Ok(())
}

/// Lists the objects of a running cluster.
#[cfg(feature = "kubernetes")]
async fn cluster_inventory(arguments: &Explain) -> Result<Inventory, Failure> {
    let limit = arguments.input.limit.duration();
    crate::api_server::inventory(arguments.kubeconfig.as_deref(), limit).await
}

/// Fails, because this build has no client of an API server.
#[cfg(not(feature = "kubernetes"))]
async fn cluster_inventory(_: &Explain) -> Result<Inventory, Failure> {
    Err(Failure::Arguments(
        "this build cannot read a cluster because it lacks the feature `kubernetes`; use --filename for manifests"
            .to_owned(),
    ))
}

/// Returns the zone of `--zone`, or the zones whose plans show all problems.
fn select_zones(arguments: &Explain, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let nodes = cluster.zones();
    match &arguments.zone {
        None if cluster.settings().databases == Databases::Central => Ok(nodes),
        None => {
            let ready = ready_zones(cluster);
            Ok(if ready.is_empty() {
                nodes.into_iter().take(PLANNED_ZONES).collect()
            } else {
                ready
            })
        }
        Some(zone) if nodes.contains(zone) => Ok(vec![zone.clone()]),
        Some(zone) => {
            let failure = unreadable(cluster, &[NodeObject::KIND], zone);
            Err(failure.unwrap_or(Failure::NoSuchZone { zone: zone.clone(), nodes }))
        }
    }
}

/// Returns the first zones whose nodes have ids and chassis. For layer3 networks without subnets on
/// these nodes, it adds the first zones whose nodes have subnets of the network.
fn ready_zones(cluster: &Cluster) -> Vec<String> {
    let ready: Vec<Node> = cluster
        .inventory
        .nodes
        .in_order()
        .into_iter()
        .map(|(_, node)| patchbay_resources::conversion::node(&node.object).0)
        .filter(|node| node.id.is_some() && node.chassis_id.is_some())
        .collect();
    let mut chosen: Vec<&Node> = ready.iter().take(PLANNED_ZONES).collect();
    let networks = cluster.networks();
    let layer3 = networks.iter().filter(|network| network.topology == Topology::Layer3);
    for network in layer3 {
        let has_subnet = |node: &&Node| !node.subnets_of(&network.name).is_empty();
        let known = chosen.iter().filter(|node| has_subnet(node)).count();
        if known < PLANNED_ZONES {
            let others: Vec<&Node> = ready
                .iter()
                .filter(has_subnet)
                .filter(|node| !chosen.iter().any(|known| known.name == node.name))
                .take(PLANNED_ZONES - known)
                .collect();
            chosen.extend(others);
        }
    }
    chosen.iter().map(|node| node.name.clone()).collect()
}

/// Plans the connect in a zone and returns the report. `None`: the zone has no such connect.
///
/// A remote database is only read, and its rows are compared. An embedded one gets the rows of the
/// networks first.
async fn zone_view(
    connect: &str,
    cluster: &Cluster,
    zone: &mut ZoneReconciler<NorthboundHandle>,
) -> Result<Option<ZoneView>, Failure> {
    let mut objects = cluster.zone_objects(zone.zone());
    let without_rows = skipped_networks(&objects);
    if let NorthboundHandle::Embedded(_) = zone.northbound() {
        // OVN-Kubernetes creates the load balancers of services; they are assumed to exist.
        let services: Vec<_> = objects.services().map(|of| of.key.clone()).collect();
        for service in &services {
            objects.remove_service(service);
        }
        let made = match cluster.settings().databases {
            Databases::Zone => zone.reconcile_networks(cluster).await,
            // Routers of VPCs are there only with their connects.
            Databases::Central => zone.reconcile(cluster).await.map(drop),
        };
        made.map_err(|source| Failure::Zone { zone: zone.zone().to_owned(), source })?;
    }
    let report = zone
        .plan_connects(&objects)
        .connects
        .into_iter()
        .find_map(|plan| plan.report.filter(|_| plan.connect == connect));
    let without_rows =
        without_rows.into_iter().map(|skipped| (skipped.network, skipped.reason)).collect();
    let differences = match zone.northbound() {
        NorthboundHandle::Embedded(_) => None,
        NorthboundHandle::Remote(_) => zone.connect_differences(cluster).remove(connect),
    };
    Ok(report.map(|report| ZoneView {
        report,
        without_rows,
        differences: differences.unwrap_or_default(),
        writer: RowWriter::Apply,
    }))
}
