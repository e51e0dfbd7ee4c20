//! The zones of a command: their nodes, their databases, and one pass over a zone.

use std::io::{self, ErrorKind};
use std::time::Duration;

use jiff::Timestamp;
use patchbay_connects::HeldReason;
use patchbay_engine::client::{ConnectError, SessionError};
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound, NorthboundHandle, Remote};
use patchbay_reconcile::zone::{ZoneOutcome, ZoneReconciler};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Node, Object as _, Time};
use patchbay_schemas::nb::NbGlobal;
use patchbay_schemas::uuids::UuidSource;

use super::args::{Database, Format, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::keys::Keys;
use super::time_limit::TimeLimit;
use super::unreadable::unreadable;

/// Maximum number of zones whose rows are printed as text without being asked for.
const MAX_TEXT_ZONES: usize = 10;

/// The present time, for conditions that change in this run.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

/// Completes the objects of the manifests, prints warnings about them, and selects the zones.
///
/// # Errors
/// The flags or the objects are invalid, or there is no zone to reconcile.
pub(super) fn complete_cluster(
    arguments: &Manifests,
    inventory: Inventory,
    console: &mut Console<'_>,
) -> Result<(Cluster, Vec<String>), Failure> {
    let settings = ClusterSettings {
        is_northd_stock: arguments.stock_northd,
        ..arguments.input.cluster.settings(&inventory)?
    };
    let cluster = Cluster::from_inventory(inventory, settings, now())?.with_every_kind();
    report_objects(&cluster, console)?;
    let is_central = cluster.settings().databases == Databases::Central;
    if let Some(zone) = arguments.zones.first().filter(|_| is_central) {
        let message = format!("--zone {zone}: all nodes have one database (--topology central)");
        return Err(Failure::Topology(message));
    }
    let zones = select_zones(arguments, &cluster)?;
    Ok((cluster, zones))
}

/// Prints errors and warnings about the objects.
pub(super) fn report_objects(cluster: &Cluster, console: &mut Console<'_>) -> io::Result<()> {
    console.report_errors(&cluster.errors)?;
    let mut warnings = cluster.warnings.iter();
    warnings.try_for_each(|warning| console.warn("objects", warning))
}

/// The zone of `--zone`, or the zones of all nodes. The zone of a node that cannot be read keeps its
/// rows.
fn select_zones(arguments: &Manifests, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let nodes = cluster.zones();
    let is_unreadable = |zone: &str| unreadable(cluster, &[Node::KIND], zone).is_some();
    let mut zones = Vec::new();
    for zone in &arguments.zones {
        if !nodes.contains(zone) && !is_unreadable(zone) {
            return Err(Failure::NoSuchZone { zone: zone.clone(), nodes });
        }
        if !zones.contains(zone) {
            zones.push(zone.clone());
        }
    }
    let has_one_database = arguments.nb != Database::Embedded;
    match (zones.len(), nodes.len()) {
        (0, 0) => Err(Failure::NoNode),
        (0, 2..) if has_one_database => Err(Failure::ZoneRequired(nodes)),
        (0, _) => Ok(nodes),
        (2.., _) if has_one_database => {
            let message = "--nb is the database of one zone, and --zone names several";
            Err(Failure::Arguments(message.to_owned()))
        }
        _ => Ok(zones),
    }
}

/// Fails if a text would have the rows of more than ten zones, unless a flag wants them.
pub(super) fn check_length(arguments: &Manifests, zones: &[String]) -> Result<(), Failure> {
    let is_text = arguments.output == Format::Text;
    if !is_text || arguments.all_zones || zones.len() <= MAX_TEXT_ZONES {
        return Ok(());
    }
    Err(Failure::ManyZones { count: zones.len() })
}

/// Opens the database of a zone. `index` is the position of the zone among the zones of the run,
/// the seed of an embedded database.
///
/// # Errors
/// The remote does not serve the database within the time limit, or the embedded database cannot be
/// started.
pub(super) async fn open_zone(
    zone: &str,
    index: usize,
    database: &Database,
    (keys, limit): (&Keys, TimeLimit),
    console: &mut Console<'_>,
) -> Result<ZoneReconciler<NorthboundHandle>, Failure> {
    let northbound = match database {
        Database::Embedded => NorthboundHandle::Embedded(embedded(index)?),
        Database::Remote(remote) => {
            NorthboundHandle::Remote(open_remote(remote, keys, limit, console).await?)
        }
    };
    Ok(ZoneReconciler::new(zone, northbound, row_uuids(database, index)))
}

/// Opens the database of a server. The first time that the server cannot be used yet, a line says
/// what is waited for.
///
/// # Errors
/// No remote serves the database within the time limit.
pub(super) async fn open_remote(
    remotes: &str,
    keys: &Keys,
    limit: TimeLimit,
    console: &mut Console<'_>,
) -> Result<Remote, Failure> {
    let duration = limit.duration();
    let mut reported = None;
    let opened = Remote::open_waiting(remotes, keys.tls(), duration, |error| {
        reported.get_or_insert_with(|| console.report(&waiting_line(error, duration)));
    })
    .await?;
    reported.unwrap_or(Ok(()))?;
    Ok(opened)
}

/// The remotes that are waited for, each with its failure, and the time limit.
fn waiting_line(error: &ConnectError, limit: Duration) -> String {
    let attempts: Vec<String> = error
        .attempts
        .iter()
        .map(|failure| {
            let reason = match &failure.error {
                SessionError::Io(error) if error.kind() == ErrorKind::NotFound => {
                    "no such file".to_owned()
                }
                SessionError::Io(error) => error.kind().to_string(),
                other => other.to_string(),
            };
            format!("{} ({reason})", failure.remote)
        })
        .collect();
    let seconds = limit.as_secs();
    format!("waiting for {}, at most {seconds} s", attempts.join(", "))
}

/// Creates an empty embedded database with a seed.
///
/// # Errors
/// The database cannot be started.
pub(super) fn embedded(seed: usize) -> Result<Embedded, Failure> {
    Embedded::new(seed as u64).map_err(|error| Failure::Embedded(error.to_string()))
}

/// UUIDs of new rows. They are seeded for an embedded database, so that equal manifests give equal
/// output.
pub(super) fn row_uuids(database: &Database, seed: usize) -> UuidSource {
    match database {
        Database::Embedded => UuidSource::seeded(seed as u64),
        Database::Remote(_) => UuidSource::random(),
    }
}

/// Warns if the database names another zone as its own: `NB_Global.name`, where OVN-Kubernetes
/// writes it.
fn warn_of_other_zone(
    zone: &ZoneReconciler<impl Northbound>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let name = zone.zone();
    let snapshot = zone.northbound().snapshot();
    let globals = snapshot.typed::<NbGlobal>();
    let mut others = globals.iter().filter_map(|row| Some(row.ok()?.1.name));
    let other = others.find(|other| !other.is_empty() && other != name);
    if let Some(other) = other {
        let warning =
            format!("zone {name}: NB_Global.name is {other}: the database belongs to another zone");
        console.warn("zones of databases", &warning)?;
    }
    Ok(())
}

/// Reconciles one zone and prints the warnings of the pass.
///
/// # Errors
/// A transaction is not applied, or the console cannot be written.
pub(super) async fn reconcile_zone(
    zone: &mut ZoneReconciler<impl Northbound>,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<ZoneOutcome, Failure> {
    if cluster.settings().databases == Databases::Zone {
        warn_of_other_zone(zone, console)?;
    }
    let outcome = zone
        .reconcile(cluster)
        .await
        .map_err(|source| Failure::Zone { zone: zone.zone().to_owned(), source })?;
    let name = zone.zone();
    for skipped in &outcome.skipped_networks {
        let warning = format!("zone {name}: network {}: {}", skipped.network, skipped.reason);
        console.warn("networks in zones", &warning)?;
    }
    for problem in &outcome.problems {
        let subject = format!("objects of kind {}", problem.object.kind);
        let warning = match cluster.settings().databases {
            Databases::Zone => format!("zone {name}: {problem}"),
            Databases::Central => problem.to_string(),
        };
        console.warn(&subject, &warning)?;
    }
    for warning in &outcome.warnings {
        console.warn("lost replies", &format!("zone {name}: {warning}"))?;
    }
    for (connect, report) in &outcome.reports {
        // The cluster has one warning about a missing tunnel key, for all zones.
        if matches!(report.held, Some(HeldReason::NoTunnelKey)) {
            continue;
        }
        for message in report.messages() {
            let warning = format!("zone {name}: ClusterNetworkConnect {connect}: {message}");
            console.warn("ClusterNetworkConnects in zones", &warning)?;
        }
    }
    Ok(outcome)
}

/// Leaves the memory of a finished command to the end of the process.
///
/// Freeing hundreds of thousands of rows one by one takes 5 % of a command's time.
pub(super) fn leave_to_exit<T>(finished: T) {
    std::mem::forget(finished);
}
