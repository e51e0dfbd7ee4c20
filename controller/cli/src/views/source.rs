//! Rows of databases, or of manifests.

use patchbay_reconcile::load;
use patchbay_reconcile::northbound::Northbound as _;

use super::args::SourceFlags;
use crate::args::{Database, Format, Manifests};
use crate::console::Console;
use crate::databases::ZoneDatabase;
use crate::failure::Failure;
use crate::zones::{complete_cluster, open_zone, reconcile_zone};

/// Reads the databases that the flags name, or writes the rows of manifests into embedded ones.
pub(super) async fn read(
    flags: &SourceFlags,
    console: &mut Console<'_>,
) -> Result<Vec<ZoneDatabase>, Failure> {
    let keys = (&flags.input.keys, flags.input.limit);
    if flags.paths.is_empty() {
        return flags.databases.read(keys, console).await;
    }
    let manifests = Manifests {
        prune: false,
        paths: flags.paths.clone(),
        nb: Database::Embedded,
        zones: Vec::new(),
        all_zones: false,
        output: Format::Text,
        state: None,
        stock_northd: true,
        input: flags.input.clone(),
    };
    let limit = flags.input.manifest_limit.bytes();
    let inventory = load(&manifests.paths, console.input, None, limit)?;
    let (cluster, zones) = complete_cluster(&manifests, inventory, console)?;
    let cluster = cluster.with_default_pods()?;
    let mut databases = Vec::with_capacity(zones.len());
    for zone in zones {
        let mut reconciler = open_zone(&zone, 0, &manifests.nb, keys, console).await?;
        Box::pin(reconcile_zone(&mut reconciler, &cluster, console)).await?;
        let snapshot = reconciler.northbound().snapshot();
        databases.push(ZoneDatabase { zone, snapshot });
    }
    Ok(databases)
}
