//! `explain`: why a connect joins what it joins.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::{Client, Config as ClientConfig};

use super::args::{self, Database, Explained, Format};
use super::kubernetes::from_file;
use super::resolve::{Resolved, load};
use super::run::{Console, Failure, embedded, now, open};
use super::state::{folder, lock_to_read};
use super::zones::networks;
use crate::explain::explain as explain_connect;
use crate::kubernetes::inventory;
use crate::model::Node;
use crate::northbound::{Northbound, OneOf};
use crate::zone::{ConnectReport, ZoneController};

/// A zone does not see what is wrong with its own node for the others. Two zones see everything that follows from objects.
const ZONES: usize = 2;

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
    let mut reports = BTreeMap::new();
    for zone in zones(arguments, &resolved)? {
        let mut database = match &arguments.nb {
            Some(remote) => open(&Database::Remote(remote.clone()), &arguments.keys, 0).await?,
            None => OneOf::Embedded(embedded(0)?),
        };
        if let Some(report) = report(name, &zone, &resolved, &mut database).await? {
            reports.insert(zone, report);
        }
    }
    let networks = resolved.networks();
    let Some(explanation) = explain_connect(name, &resolved.inventory, &networks, &reports) else {
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
async fn resolve(
    arguments: &args::Explain,
    console: &mut Console<'_>,
) -> Result<Resolved, Failure> {
    let settings = arguments.ranges.settings()?;
    if arguments.paths.is_empty() {
        let failed = |error: &dyn std::fmt::Display| Failure::Cluster(error.to_string());
        let config = match &arguments.kubeconfig {
            Some(file) => from_file(file).await?,
            None => ClientConfig::infer().await.map_err(|error| {
                Failure::Cluster(format!("{error} (--filename explains manifests)"))
            })?,
        };
        let client = Client::try_from(config).map_err(|error| failed(&error))?;
        let inventory = inventory(&client).await.map_err(|error| failed(&error))?;
        return Ok(Resolved::of_cluster(inventory, settings, now()));
    }
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let inventory = load(&arguments.paths, console.input, state.as_ref())?;
    Ok(Resolved::new(inventory, settings, now())?)
}

/// The zones that are asked: those whose nodes are ready, if there are any. In the others nothing is there to connect.
fn zones(arguments: &args::Explain, resolved: &Resolved) -> Result<Vec<String>, Failure> {
    let nodes = resolved.zones();
    match &arguments.zone {
        None => {
            let ready = nodes.iter().filter(|zone| is_ready(zone, resolved));
            let ready: Vec<String> = ready.take(ZONES).cloned().collect();
            let zones = if ready.is_empty() { nodes } else { ready };
            Ok(zones.into_iter().take(ZONES).collect())
        }
        Some(zone) if nodes.contains(zone) => Ok(vec![zone.clone()]),
        Some(zone) => Err(Failure::NoSuchZone {
            zone: zone.clone(),
            nodes,
        }),
    }
}

/// Whether the zone's node has what its networks' rows follow from.
fn is_ready(zone: &str, resolved: &Resolved) -> bool {
    let node = resolved.inventory.nodes.named(zone);
    let node = node.map(|node| Node::read(node).0);
    node.is_some_and(|node| node.id.is_some() && node.chassis_id.is_some())
}

/// What a zone would report. A server's database is only read; an embedded one gets the networks' own rows first.
async fn report(
    connect: &str,
    zone: &str,
    resolved: &Resolved,
    database: &mut OneOf,
) -> Result<Option<Arc<ConnectReport>>, Failure> {
    let mut controller = ZoneController::default();
    let mut inputs = resolved.inputs(zone);
    if let OneOf::Embedded(_) = database {
        // Load balancers are somebody else's, too, and taken to be there.
        inputs.services = Arc::default();
        let rows = resolved.network_rows(zone);
        let made = networks(database, &mut controller, &rows).await;
        made.map_err(|source| Failure::Zone {
            zone: zone.to_owned(),
            source,
        })?;
    }
    let plan = controller.plan(&inputs, &database.snapshot());
    let mut plans = plan.connects.into_iter();
    let plan = plans.find(|plan| plan.connect == connect && plan.report.is_some());
    Ok(plan.and_then(|plan| plan.report))
}
