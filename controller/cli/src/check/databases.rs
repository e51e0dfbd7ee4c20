//! Checks of Northbound databases, beside the objects of the cluster.

use std::collections::BTreeSet;

use kube::Client;
use patchbay_connects::{has_pass_action, version_without_remote_ports};
use patchbay_kubernetes::{Check, CheckGroup, ListedKinds, list_inventory};
use patchbay_model::Feature;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::DryRun;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::uuids::UuidSource;
use patchbay_sources::own_zone;

use super::args;
use super::installed::{Installed, zone_settings};
use crate::console::Console;
use crate::databases::{DatabaseFlags, ZoneDatabase};
use crate::failure::Failure;
use crate::files::split_zone;
use crate::zones::now;

/// Name of the group.
const GROUP: &str = "northbound";
/// Rows of a connect that a finding names; further ones are counted.
const MAX_ROWS: usize = 3;

/// The cluster of the databases.
pub(super) struct Scene<'a> {
    pub(super) client: &'a Client,
    /// `true` if the API server has answered.
    pub(super) is_reachable: bool,
    pub(super) installed: Vec<Installed>,
}

/// Checks each database that the flags name. One that cannot be read stops no other check.
pub(super) async fn check(
    arguments: &args::Check,
    scene: &Scene<'_>,
    console: &mut Console<'_>,
) -> Result<CheckGroup, Failure> {
    let mut checks = Vec::new();
    let mut databases = Vec::new();
    for (place, flags) in sources(&arguments.databases) {
        let limit = (&arguments.keys, arguments.limit);
        match flags.read(limit, console).await {
            Ok(read) => databases.extend(read),
            Err(failure) => checks.push(Check::failed(
                format!("reachable {place}"),
                failure.reasons().join("; "),
                "See whether ovsdb-server runs there, and whether the path or address is right.",
            )),
        }
    }
    let objects = objects(arguments, scene).await;
    for database in &databases {
        checks.push(Check::ok(
            format!("reachable {}", database.zone),
            format!(
                "zone {}: schema {}, {} rows",
                database.zone,
                database.snapshot.schema().version,
                database.snapshot.row_count()
            ),
        ));
        checks.push(schema(database));
        checks.push(zone(database, objects.as_ref().ok()));
        if !arguments.pre {
            checks.push(rows(database, &objects));
        }
    }
    Ok(CheckGroup { name: GROUP, checks })
}

/// The flags, one source at a time, each with its name.
fn sources(flags: &DatabaseFlags) -> Vec<(String, DatabaseFlags)> {
    let named = |text: &str| split_zone(text).0.unwrap_or(text).to_owned();
    let remotes = flags.nb.iter().map(|remote| {
        let nb = vec![remote.clone()];
        (named(remote), DatabaseFlags { nb, ..DatabaseFlags::default() })
    });
    let files = flags.file.iter().map(|file| {
        let one = vec![file.clone()];
        (named(file), DatabaseFlags { file: one, at: flags.at, ..DatabaseFlags::default() })
    });
    let archives = flags.must_gather.iter().map(|path| {
        let must_gather = Some(path.clone());
        (path.display().to_string(), DatabaseFlags { must_gather, ..DatabaseFlags::default() })
    });
    remotes.chain(files).chain(archives).collect()
}

/// The objects of the cluster, or why they are not known.
async fn objects(arguments: &args::Check, scene: &Scene<'_>) -> Result<Cluster, String> {
    if !scene.is_reachable {
        return Err("the API server does not answer".to_owned());
    }
    let limit = arguments.limit.duration();
    let listed =
        tokio::time::timeout(limit, list_inventory(scene.client, ListedKinds::Connects)).await;
    let late = |_| format!("the objects are not listed within {} s", limit.as_secs());
    let inventory = listed.map_err(late)?.map_err(|error| error.to_string())?;
    // The settings of the installation count, unless the user gives others.
    let installed =
        zone_settings(&scene.installed).filter(|_| arguments.cluster.arguments().is_empty());
    let flags = installed.map_or_else(
        || arguments.cluster.clone(),
        |run| run.cluster.with_dynamic_udn(run.dynamic_udn),
    );
    let settings = flags.zone_settings(&inventory);
    let settings = settings.map_err(|failure| failure.to_string())?;
    Ok(Cluster::observed(inventory, settings, now()))
}

/// The features of the OVN to which the database belongs.
fn schema(database: &ZoneDatabase) -> Check {
    let zone = &database.zone;
    let (name, schema) = (format!("schema {zone}"), database.snapshot.schema());
    let remedy = "Upgrade OVN.";
    if !has_pass_action(schema) {
        let finding = format!(
            "zone {zone}: schema {} is older than OVN 23.06: connects for services only are not connected",
            schema.version
        );
        return Check::warning(name, finding, remedy);
    }
    if let Some(version) = version_without_remote_ports(schema) {
        let finding = format!(
            "zone {zone}: schema {version} is older than OVN 25.03: layer3 networks are connected on each node alone"
        );
        return Check::warning(name, finding, remedy);
    }
    Check::ok(name, format!("zone {zone}: OVN has all features that connects need"))
}

/// Whether the database is that of the zone.
fn zone(database: &ZoneDatabase, cluster: Option<&Cluster>) -> Check {
    let zone = &database.zone;
    let name = format!("zone {zone}");
    let remedy = "Name the node of the database: --nb NODE=REMOTE.";
    if let Some(other) = own_zone(&database.snapshot).filter(|own| own != zone) {
        let finding = format!("zone {zone}: NB_Global.name is {other}: it is another zone's");
        return Check::failed(name, finding, remedy);
    }
    match cluster.map(|cluster| cluster.zones().contains(zone)) {
        Some(false) => {
            Check::failed(name, format!("zone {zone}: the cluster has no such node"), remedy)
        }
        Some(true) => Check::ok(name, format!("zone {zone}: the cluster has this node")),
        None => Check::skipped(name, format!("zone {zone}: the nodes are not known")),
    }
}

/// The rows of connects, beside those that the objects want.
fn rows(database: &ZoneDatabase, objects: &Result<Cluster, String>) -> Check {
    let zone = &database.zone;
    let name = format!("rows {zone}");
    let cluster = match objects {
        Ok(cluster) if cluster.settings().has_feature(Feature::DynamicUdnAllocation) => {
            let reason = "with dynamic-udn-allocation rows follow from pods, which are not listed";
            return Check::skipped(name, format!("zone {zone}: {reason}"));
        }
        Ok(cluster) => cluster,
        Err(reason) => return Check::skipped(name, format!("zone {zone}: {reason}")),
    };
    if !cluster.zones().contains(zone) {
        return Check::skipped(name, format!("zone {zone}: the cluster has no such node"));
    }
    let snapshot = DryRun::new(database.snapshot.clone());
    let mut reconciler = ZoneReconciler::new(zone, snapshot, UuidSource::random());
    let differences = reconciler.connect_differences(cluster);
    let (mut found, mut connects, mut count) = (BTreeSet::new(), Vec::new(), 0);
    for (connect, rows) in &differences {
        count += rows.len();
        if !rows.is_empty() {
            connects.push(connect.clone());
        }
        found.extend(rows.iter().map(|(_, row)| format!("{} {}", row.table, row.row)));
    }
    if count == 0 {
        return Check::ok(name, format!("zone {zone}: the rows of all connects are as wanted"));
    }
    let found: Vec<String> = found.into_iter().collect();
    let finding = format!(
        "zone {zone}: {count} rows are not as wanted, of {}: {}",
        abbreviate_list(&connects, MAX_ROWS),
        abbreviate_list(&found, MAX_ROWS),
    );
    let remedy =
        format!("See what differs: `patchbay explain cnc NAME --zone {zone} --nb REMOTE`.");
    Check::failed(name, finding, remedy)
}
