//! `explain`: why a connect joins what it joins.

use std::collections::BTreeMap;
use std::sync::Arc;
#[cfg(feature = "kubernetes")]
use std::time::Duration;

use super::args::{self, Database, Explained, Format};
use super::console::Console;
use super::databases::{embedded, now, open};
use super::failure::Failure;
use super::state::{folder, lock_to_read};
use patchbay_app::northbound::{Northbound, OneOf};
use patchbay_app::zone::{ZoneControllers, networks};
use patchbay_app::{Cluster, load};
use patchbay_explain::{ZoneView, explain as explain_connect};
use patchbay_model::{Node, Topology};
use patchbay_resources::manifests::Inventory;

/// A zone does not see what is wrong with its own node for the others. Two zones see everything that follows from objects.
const ZONES: usize = 2;

/// Longest time without a byte from the API server in the middle of a reply.
#[cfg(feature = "kubernetes")]
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Prints the explanation of one object.
pub(super) async fn explain(
    arguments: &args::Explain,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let Explained::Cnc = arguments.kind;
    let resolved = resolve(arguments, console).await?;
    for warning in &resolved.warnings {
        console.warn(warning)?;
    }
    let name = &*arguments.name;
    let mut views = BTreeMap::new();
    for zone in zones(arguments, &resolved)? {
        let mut database = match &arguments.nb {
            Some(remote) => open(&Database::Remote(remote.clone()), &arguments.keys, 0).await?,
            None => OneOf::Embedded(embedded(0)?),
        };
        if let Some(view) = look(name, &zone, &resolved, &mut database).await? {
            views.insert(zone, view);
        }
    }
    let networks = resolved.networks();
    let Some(explanation) = explain_connect(name, &resolved.inventory, &networks, &views) else {
        let known = resolved.inventory.cluster_network_connects.iter();
        return Err(Failure::NoSuchConnect {
            name: name.to_owned(),
            known: known.map(|(key, _)| key.name.clone()).collect(),
        });
    };
    if resolved.inventory.nodes.is_empty() {
        console.warn("there is no node, so nothing is connected")?;
    }
    match arguments.output {
        Format::Text => Ok(write!(console.output, "{explanation}")?),
        format => console.document(&explanation, format),
    }
}

/// The objects, of manifests or of a cluster.
async fn resolve(arguments: &args::Explain, console: &mut Console<'_>) -> Result<Cluster, Failure> {
    let settings = arguments.ranges.settings()?;
    if arguments.paths.is_empty() {
        let inventory = cluster_inventory(arguments).await?;
        return Ok(Cluster::of_cluster(inventory, settings, now()));
    }
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let inventory = load(&arguments.paths, console.input, state.as_ref())?;
    Ok(Cluster::new(inventory, settings, now())?)
}

/// The objects of a cluster.
#[cfg(feature = "kubernetes")]
async fn cluster_inventory(arguments: &args::Explain) -> Result<Inventory, Failure> {
    crate::api_server::inventory(arguments.kubeconfig.as_deref(), SILENCE_LIMIT).await
}

/// The objects of a cluster, which this build cannot read.
#[cfg(not(feature = "kubernetes"))]
async fn cluster_inventory(_: &args::Explain) -> Result<Inventory, Failure> {
    Err(Failure::Arguments(
        "this build has no feature `kubernetes` to read a cluster with; --filename explains manifests"
            .to_owned(),
    ))
}

/// The zones that are asked: those that have something to connect, if there are any.
fn zones(arguments: &args::Explain, resolved: &Cluster) -> Result<Vec<String>, Failure> {
    let nodes = resolved.zones();
    match &arguments.zone {
        None => {
            let telling = telling(resolved);
            let any = nodes.into_iter().take(ZONES);
            Ok(if telling.is_empty() {
                any.collect()
            } else {
                telling
            })
        }
        Some(zone) if nodes.contains(zone) => Ok(vec![zone.clone()]),
        Some(zone) => Err(Failure::NoSuchZone {
            zone: zone.clone(),
            nodes,
        }),
    }
}

/// The first zones whose nodes are ready, and more for networks that have nothing to connect in those: of each layer3
/// network the first zones whose nodes have subnets of it.
fn telling(resolved: &Cluster) -> Vec<String> {
    let nodes = resolved.inventory.nodes.in_order().into_iter();
    let nodes = nodes.map(|(_, node)| patchbay_resources::conversion::node(&node.object).0);
    let ready: Vec<Node> = nodes
        .filter(|node| node.id.is_some() && node.chassis_id.is_some())
        .collect();
    let mut chosen: Vec<&Node> = ready.iter().take(ZONES).collect();
    let networks = resolved.networks();
    let layer3 = networks
        .iter()
        .filter(|network| network.topology == Topology::Layer3);
    for network in layer3 {
        let has_subnet = |node: &&Node| !node.subnets_of(&network.name).is_empty();
        let known = chosen.iter().filter(|node| has_subnet(node)).count();
        if known < ZONES {
            let others = ready.iter().filter(has_subnet);
            let others = others.filter(|node| !chosen.iter().any(|known| known.name == node.name));
            let others: Vec<&Node> = others.take(ZONES - known).collect();
            chosen.extend(others);
        }
    }
    chosen.iter().map(|node| node.name.clone()).collect()
}

/// What a zone would report. A server's database is only read; an embedded one gets the networks' own rows first.
async fn look(
    connect: &str,
    zone: &str,
    resolved: &Cluster,
    database: &mut OneOf,
) -> Result<Option<ZoneView>, Failure> {
    let mut controllers = ZoneControllers::default();
    let mut inputs = resolved.inputs(zone);
    let zone_networks = resolved.zone_networks(zone);
    if let OneOf::Embedded(_) = database {
        // Load balancers are somebody else's, too, and taken to be there.
        inputs.services = Arc::default();
        let made = networks(database, &mut controllers.networks, &zone_networks).await;
        made.map_err(|source| Failure::Zone {
            zone: zone.to_owned(),
            source,
        })?;
    }
    let plan = controllers.connects.plan(&inputs, &database.snapshot());
    let mut plans = plan.connects.into_iter();
    let report = plans.find_map(|plan| plan.report.filter(|_| plan.connect == connect));
    let without_rows = zone_networks.skipped().into_iter();
    Ok(report.map(|report| ZoneView {
        report,
        without_rows: without_rows
            .map(|skipped| (skipped.network, skipped.reason))
            .collect(),
    }))
}
