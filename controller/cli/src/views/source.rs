//! Rows of databases, or of manifests.

use std::path::PathBuf;

use patchbay_reconcile::northbound::Northbound as _;
use patchbay_reconcile::{Cluster, load};

use super::args::SourceFlags;
use crate::args::{Database, Format, Manifests};
use crate::console::Console;
use crate::databases::ZoneDatabase;
use crate::failure::Failure;
use crate::input_flags::InputFlags;
use crate::zones::{complete_cluster, open_zone, reconcile_zone};

/// Reads the databases that the flags name, or writes the rows of manifests into embedded ones.
pub(super) async fn read(
    flags: &SourceFlags,
    console: &mut Console<'_>,
) -> Result<Vec<ZoneDatabase>, Failure> {
    if flags.paths.is_empty() {
        let keys = (&flags.input.keys, flags.input.limit);
        return flags.databases.read(keys, console).await;
    }
    let cluster = read_cluster(&flags.paths, &flags.input, console)?;
    of_cluster(&cluster.with_default_pods()?, &flags.input, console).await
}

/// Reads the objects of manifests, and completes them.
pub(crate) fn read_cluster(
    paths: &[PathBuf],
    input: &InputFlags,
    console: &mut Console<'_>,
) -> Result<Cluster, Failure> {
    let manifests = Manifests {
        prune: false,
        paths: paths.to_vec(),
        nb: Database::Embedded,
        zones: Vec::new(),
        all_zones: false,
        output: Format::Text,
        state: None,
        stock_northd: true,
        input: input.clone(),
    };
    let inventory = load(&manifests.paths, console.input, None, input.manifest_limit.bytes())?;
    let (cluster, _) = complete_cluster(&manifests, inventory, console)?;
    Ok(cluster)
}

/// The rows of all zones of a cluster, in embedded databases.
pub(crate) async fn of_cluster(
    cluster: &Cluster,
    input: &InputFlags,
    console: &mut Console<'_>,
) -> Result<Vec<ZoneDatabase>, Failure> {
    let (keys, zones) = ((&input.keys, input.limit), cluster.zones());
    let mut databases = Vec::with_capacity(zones.len());
    console.begin("writing the rows of", "zone", zones.len());
    for zone in zones {
        let mut reconciler = open_zone(&zone, 0, &Database::Embedded, keys, console).await?;
        Box::pin(reconcile_zone(&mut reconciler, cluster, console)).await?;
        let snapshot = reconciler.northbound().snapshot();
        databases.push(ZoneDatabase { zone, snapshot });
        console.step()?;
    }
    console.end()?;
    Ok(databases)
}
