//! `patchbay explain`: for each selected network and node, whether it is connected, and why not; or
//! what stops an object of a VPC.

pub(crate) mod args;
mod object;
mod subject;
mod vpc;

use std::collections::BTreeMap;

use patchbay_explain::{RowWriter, ZoneView, explain as explain_connect};
use patchbay_model::{Databases, Feature, Node, Topology};
use patchbay_networks::skipped_networks;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{DryRun, Embedded, Northbound};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::object::{Node as NodeObject, Object as _};
use patchbay_schemas::uuids::UuidSource;

use super::args::{Database, Format};
use super::console::Console;
use super::databases::ZoneDatabase;
use super::failure::Failure;
use super::unreadable::unreadable;
use super::zones::{embedded, report_objects, row_uuids};
use args::Explain;
use subject::{ObjectSource, Subject, cluster_of, zone_databases};

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
    let Subject { source, inventory, settings, databases } =
        Subject::read(arguments, console).await?;
    let cluster = cluster_of(inventory, (&source, settings), console)?;
    let has_zones = cluster.settings().databases == Databases::Zone;
    report_objects(&cluster, console)?;
    let name = &*arguments.name;
    if let Some(failure) = unreadable(&cluster, &[ClusterNetworkConnect::KIND], name) {
        return Err(failure);
    }
    let databases = zone_databases((arguments, databases), &cluster, console).await?;
    let has_unknown_activity = !databases.is_empty()
        && source == ObjectSource::Cluster
        && cluster.settings().has_feature(Feature::DynamicUdnAllocation);
    let mut views = planned_views((arguments, databases), &cluster, console).await?;
    if source != ObjectSource::Manifests {
        for view in views.values_mut() {
            view.writer = RowWriter::Run;
        }
    }
    if has_unknown_activity {
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

/// Plans the connect in the zones of the databases, or in embedded ones.
async fn planned_views(
    (arguments, databases): (&Explain, Vec<ZoneDatabase>),
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<BTreeMap<String, ZoneView>, Failure> {
    let name = &*arguments.name;
    let mut views = BTreeMap::new();
    if databases.is_empty() {
        for zone in select_zones(arguments, cluster)? {
            let mut reconciler =
                ZoneReconciler::new(&*zone, embedded(0)?, row_uuids(&Database::Embedded, 0));
            make_networks(cluster, &mut reconciler).await?;
            views.extend(zone_view(name, cluster, &mut reconciler, false).map(|view| (zone, view)));
        }
        return Ok(views);
    }
    console.begin("comparing the rows of", "zone", databases.len());
    for ZoneDatabase { zone, snapshot } in databases {
        let dry_run = DryRun::new(snapshot);
        let mut reconciler = ZoneReconciler::new(&*zone, dry_run, UuidSource::random());
        views.extend(zone_view(name, cluster, &mut reconciler, true).map(|view| (zone, view)));
        console.step()?;
    }
    console.end()?;
    Ok(views)
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

/// Makes the rows that exist before those of connects in an embedded database.
async fn make_networks(
    cluster: &Cluster,
    zone: &mut ZoneReconciler<Embedded>,
) -> Result<(), Failure> {
    let made = match cluster.settings().databases {
        Databases::Zone => zone.reconcile_networks(cluster).await,
        // Routers of VPCs are there only with their connects.
        Databases::Central => zone.reconcile(cluster).await.map(drop),
    };
    made.map_err(|source| Failure::Zone { zone: zone.zone().to_owned(), source })
}

/// Plans the connect in a zone and returns the report. `None`: the zone has no such connect.
/// `is_real`: the rows of the database are compared.
fn zone_view(
    connect: &str,
    cluster: &Cluster,
    zone: &mut ZoneReconciler<impl Northbound>,
    is_real: bool,
) -> Option<ZoneView> {
    let mut objects = cluster.zone_objects(zone.zone());
    let without_rows = skipped_networks(&objects);
    if !is_real {
        // OVN-Kubernetes creates the load balancers of services; they are assumed to exist.
        let services: Vec<_> = objects.services().map(|of| of.key.clone()).collect();
        for service in &services {
            objects.remove_service(service);
        }
    }
    let plans = zone.plan_connects(&objects).connects.into_iter();
    let report = plans.filter(|plan| plan.connect == connect).find_map(|plan| plan.report)?;
    let without_rows =
        without_rows.into_iter().map(|skipped| (skipped.network, skipped.reason)).collect();
    let differences = is_real.then(|| zone.connect_differences(cluster).remove(connect)).flatten();
    Some(ZoneView {
        report,
        without_rows,
        differences: differences.unwrap_or_default(),
        writer: RowWriter::Apply,
    })
}
