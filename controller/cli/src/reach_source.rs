//! The database that `patchbay reach` asks: of a server, of a file, or of manifests.

use ovsdb_sim::Sim;
use patchbay_app::load;
use patchbay_app::northbound::{Northbound as _, Remote};
use patchbay_engine::db::Snapshot;

use super::args::{Database, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::reach_args::Reach;
use super::zones::{complete_cluster, open_zone, reconcile_zone};

/// Name of the database that is read.
const DATABASE: &str = "OVN_Northbound";

/// Reads the database that the flags name.
pub(super) async fn read_database(
    arguments: &Reach,
    console: &mut Console<'_>,
) -> Result<Snapshot, Failure> {
    if let Some(remote) = &arguments.nb {
        let limit = arguments.limit.duration();
        let remote = Remote::open(remote, arguments.keys.tls(), limit).await?;
        return Ok(remote.snapshot());
    }
    if let Some(file) = &arguments.file {
        let sim = Sim::builder()
            .load(file)
            .build()
            .map_err(|error| Failure::Arguments(error.to_string()))?;
        let database = sim.database(DATABASE).ok_or_else(|| {
            Failure::Arguments(format!("{}: no database {DATABASE}", file.display()))
        })?;
        return Ok(database.snapshot());
    }
    read_manifests(arguments, console).await
}

/// Writes the rows of manifests into an embedded database.
async fn read_manifests(arguments: &Reach, console: &mut Console<'_>) -> Result<Snapshot, Failure> {
    let manifests = Manifests {
        paths: arguments.paths.clone(),
        nb: Database::Embedded,
        zone: arguments.zone.clone(),
        output: arguments.output,
        state: None,
        manifest_limit: arguments.manifest_limit,
        limit: arguments.limit,
        keys: arguments.keys.clone(),
        ranges: arguments.ranges.clone(),
    };
    let inventory = load(
        &manifests.paths,
        console.input,
        None,
        manifests.manifest_limit.bytes(),
    )?;
    let (cluster, zones) = complete_cluster(&manifests, inventory, console)?;
    let name = zones.first().ok_or(Failure::NoNode)?;
    let (keys, limit) = (&manifests.keys, manifests.limit);
    let mut zone = open_zone(name, 0, &manifests.nb, keys, limit).await?;
    reconcile_zone(&mut zone, &cluster, console).await?;
    Ok(zone.northbound().snapshot())
}
