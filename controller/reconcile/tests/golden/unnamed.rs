//! Manifests that name none of a recorded state's objects.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::DryRun;
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::object::Time;
use patchbay_schemas::uuids::UuidSource;

/// Applies two nodes and a connect to a database of other objects, as `patchbay apply` does without
/// a state folder, once with all features and once without.
///
/// # Errors
/// A row is deleted, or the rows that stay are not what would be deleted otherwise.
pub(crate) fn check(snapshot: &Snapshot, zone: &str) -> Result<(), String> {
    for features in [BTreeSet::new(), Feature::ALL.into()] {
        let settings = ClusterSettings { features, ..ClusterSettings::default() };
        let cluster = cluster(zone, settings)?;
        let kept = deleted(snapshot, zone, &cluster, true)?;
        if let [first, ..] = &*kept.deleted {
            let count = kept.deleted.len();
            return Err(format!("{count} rows of other objects are deleted: {first}"));
        }
        let all = deleted(snapshot, zone, &cluster, false)?;
        if kept.kept == 0 && !all.deleted.is_empty() {
            return Err(format!("rows stay that are not named: {:?}", all.deleted));
        }
    }
    Ok(())
}

fn cluster(zone: &str, settings: ClusterSettings) -> Result<Cluster, String> {
    let manifests = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {zone}}}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {{name: zz-other}}\n---\n\
         apiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect\nmetadata: {{name: zz-new}}\n\
         spec:\n  connectivity: [PodNetwork]\n  connectSubnets:\n  \
         - {{cidr: 192.168.0.0/16, networkPrefix: 24}}\n  networkSelectors:\n  \
         - networkSelectionType: ClusterUserDefinedNetworks\n    \
         clusterUserDefinedNetworkSelector:\n      \
         networkSelector: {{matchLabels: {{none: has}}}}\n"
    );
    let now = Time(Timestamp::UNIX_EPOCH);
    let stdin = ["-".into()];
    let cluster = Cluster::from_manifests(&stdin, &mut manifests.as_bytes(), None, settings, now);
    Ok(cluster.map_err(|error| error.to_string())?.with_every_kind())
}

/// Rows that an apply deletes, and the number of those that it names because they stay.
struct Applied {
    deleted: Vec<String>,
    kept: usize,
}

fn deleted(
    snapshot: &Snapshot,
    zone: &str,
    cluster: &Cluster,
    is_limited: bool,
) -> Result<Applied, String> {
    let dry_run = DryRun::new(snapshot.clone());
    let mut reconciler = ZoneReconciler::new(zone, dry_run, UuidSource::seeded(0));
    reconciler.set_recorded(is_limited.then(Default::default));
    // A dry run never waits.
    let outcome = reconciler
        .reconcile(cluster)
        .now_or_never()
        .ok_or("the dry run waits")?
        .map_err(|error| error.to_string())?;
    let changes = reconciler.northbound().changes();
    let deleted = changes.rows.iter().filter(|row| row.new.is_none()).map(|row| {
        let schema = snapshot.schema().table(row.table);
        format!("{} {:?}", schema.name, row.old)
    });
    Ok(Applied { deleted: deleted.collect(), kept: outcome.kept.len() })
}
