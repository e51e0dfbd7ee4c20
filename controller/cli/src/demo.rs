//! `demo`: the documents' example in an embedded database.

use std::path::PathBuf;

use tokio::net::UnixStream;

use super::args::{self, Format};
use super::console::Console;
use super::databases::{embedded, embedded_uuids, now};
use super::failure::Failure;
use super::stop::Stop;
use super::zone_results::ZoneResults;
use patchbay_app::zone::ZoneControllers;
use patchbay_app::{Cluster, load};
use patchbay_model::ClusterSettings;

/// The example's manifests.
const MANIFESTS: [&str; 3] = [
    include_str!("../../../examples/blue-green/1-cluster.yaml"),
    include_str!("../../../examples/blue-green/2-networks.yaml"),
    include_str!("../../../examples/blue-green/3-connect.yaml"),
];
/// The zone that the documents show.
const ZONE: &str = "ovn-worker2";

/// Shows the example and, if asked to, serves its database until it is told to stop.
pub(super) async fn demo(arguments: &args::Demo, console: &mut Console<'_>) -> Result<(), Failure> {
    if let Some(target) = &arguments.listen {
        is_free(target).await?;
    }
    let manifests = MANIFESTS.join("\n---\n");
    let inventory = load(&[PathBuf::from("-")], &mut manifests.as_bytes(), None)?;
    let mut resolved = Cluster::new(inventory, ClusterSettings::default(), now())?;
    let mut northbound = embedded(0)?;
    // Where it cannot be served, it is not shown either.
    let listener = match &arguments.listen {
        Some(target) => Some(northbound.sim().listen(target).await?),
        None => None,
    };
    let mut controllers = ZoneControllers::new(embedded_uuids(0));
    let mut served = ZoneResults::default();
    served
        .bring(&mut northbound, &mut controllers, ZONE, &resolved, console)
        .await?;
    served.report(&mut resolved);
    served.print(&resolved, Format::Text, console)?;
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

/// A listener takes a socket's path over from one that is left, and so from one that is in use, too.
async fn is_free(target: &str) -> Result<(), Failure> {
    match target.strip_prefix("punix:") {
        Some(path) if UnixStream::connect(path).await.is_ok() => Err(Failure::Arguments(format!(
            "cannot listen on {target}: the address is in use by another server"
        ))),
        _ => Ok(()),
    }
}
