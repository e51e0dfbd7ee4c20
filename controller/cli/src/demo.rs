//! `patchbay demo`: the documented example in an embedded database.

use std::path::PathBuf;

use patchbay_reconcile::Cluster;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::manifests::read_manifests;
use tokio::net::UnixStream;

use super::apply_report::ApplyReport;
use super::args::{self, Database, Format};
use super::console::Console;
use super::failure::Failure;
use super::stop::Stop;
use super::zones::{embedded, now, reconcile_zone, row_uuids};

/// The manifests of the example.
const MANIFESTS: [&str; 3] = [
    include_str!("../../../examples/blue-green/1-cluster.yaml"),
    include_str!("../../../examples/blue-green/2-networks.yaml"),
    include_str!("../../../examples/blue-green/3-connect.yaml"),
];
/// The zone that the README shows.
const ZONE: &str = "ovn-worker2";

/// Prints the example and, with `--listen`, serves its database until Ctrl-C or SIGTERM.
pub(super) async fn demo(arguments: &args::Demo, console: &mut Console<'_>) -> Result<(), Failure> {
    if let Some(target) = &arguments.listen {
        check_is_free(target).await?;
    }
    let manifests = MANIFESTS.join("\n---\n");
    let inventory = read_manifests(&[PathBuf::from("-")], &mut manifests.as_bytes())?;
    let settings = inventory.settings().settings_with(&inventory);
    let mut cluster = Cluster::from_inventory(inventory, settings, now())?;
    let northbound = embedded(0)?;
    // Listens before it prints: if the address is not available, nothing is printed.
    let listener = match &arguments.listen {
        Some(target) => Some(northbound.sim().listen(target).await?),
        None => None,
    };
    let mut zone = ZoneReconciler::new(ZONE, northbound, row_uuids(&Database::Embedded, 0));
    let outcome = reconcile_zone(&mut zone, &cluster, console).await?;
    let mut report = ApplyReport::default();
    report.add_zone(&zone, outcome)?;
    report.set_connected_conditions(&mut cluster);
    report.print(&cluster, Format::Text, console)?;
    console.output.flush()?;
    let Some(listener) = listener else {
        return Ok(());
    };
    let mut stop = Stop::new()?;
    writeln!(
        console.errors,
        "serving the database of {ZONE} at {} until Ctrl-C",
        listener.remote()
    )?;
    stop.asked().await;
    Ok(())
}

/// Fails if a server listens on the socket, because a listener takes over any existing socket file.
async fn check_is_free(target: &str) -> Result<(), Failure> {
    match target.strip_prefix("punix:") {
        Some(path) if UnixStream::connect(path).await.is_ok() => Err(Failure::Arguments(format!(
            "cannot listen on {target}: the address is in use by another server"
        ))),
        _ => Ok(()),
    }
}
