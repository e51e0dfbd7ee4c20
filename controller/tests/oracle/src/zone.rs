//! Rows that Patchbay writes for manifests, on real servers and on ovsdb-sim.

use std::path::PathBuf;

use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_model::ClusterSettings;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::Remote;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::object::Time;
use patchbay_schemas::uuids::UuidSource;

use crate::json_rpc::TIMEOUT;

/// The objects of files and of a text, completed as the managers of a cluster would complete them.
///
/// # Panics
/// A manifest is invalid.
#[must_use]
pub fn read_cluster(files: &[PathBuf], text: &str, settings: ClusterSettings) -> Cluster {
    let mut paths = files.to_vec();
    if !text.is_empty() {
        paths.push("-".into());
    }
    let now = Time(Timestamp::UNIX_EPOCH);
    Cluster::from_manifests(&paths, &mut text.as_bytes(), None, settings, now)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Writes the rows of a zone into the database at a remote, and returns all of its rows.
///
/// # Panics
/// The database does not answer, or a transaction fails.
pub async fn write_zone(cluster: &Cluster, zone: &str, remote: &str) -> Snapshot {
    use patchbay_reconcile::northbound::Northbound as _;

    let database = Remote::open(remote, None, TIMEOUT).await.expect("a running server answers");
    let mut zone = ZoneReconciler::new(zone, database, UuidSource::seeded(0));
    zone.reconcile(cluster).await.expect("rows are written");
    zone.northbound().snapshot()
}
