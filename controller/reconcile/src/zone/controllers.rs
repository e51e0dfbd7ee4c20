//! Capabilities of one zone with their inputs.
//!
//! They know the database as a [`DynNorthbound`], so that their code is compiled once, and not with
//! each program for each kind of database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use patchbay_connects::{RowDifference, RowPurpose, ZoneController, ZonePlan};
use patchbay_engine::db::Snapshot;
use patchbay_model::{NetworkActivity, RenderedNetworks, object_kind};
use patchbay_networks::{SkippedNetworks, Topologies};
use patchbay_rows::{Counts, KeptRow, ObjectName};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::{ZoneObjects, ZoneRows};

use super::capabilities::{Capabilities, commit, rows, stays};
use super::error::CONNECT;
use super::missing::specifies;
use super::pass::Pass;
use super::{ZoneError, ZoneOutcome};
use crate::Cluster;
use crate::activity::FollowedActivity;
use crate::northbound::dynamic::DynNorthbound;
use crate::zone_inputs::ZoneInputs;

/// Capabilities of one zone, and what they remember between two passes.
#[derive(Debug)]
pub(super) struct ZoneControllers {
    zone: String,
    capabilities: Capabilities<ZoneObjects>,
    connects: ZoneController,
    activity: FollowedActivity,
    rendered: RenderedNetworks,
    /// On the heap, because futures hold them.
    inputs: Box<ZoneInputs>,
    skipped: SkippedNetworks,
}

impl ZoneControllers {
    /// Capabilities of the zone of a node. `uuids` are the placeholders of new rows.
    pub(super) fn new(
        zone: String,
        uuids: UuidSource,
        capabilities: Vec<Box<dyn ZoneRows<ZoneObjects>>>,
    ) -> Self {
        Self {
            zone,
            capabilities: Capabilities::new(capabilities),
            connects: ZoneController::new(uuids),
            activity: FollowedActivity::default(),
            rendered: RenderedNetworks::default(),
            inputs: Box::default(),
            skipped: SkippedNetworks::default(),
        }
    }

    /// Restricts the capabilities to that of connects.
    pub(super) fn set_only_connects(&mut self) {
        self.inputs.has_only_connects = true;
    }

    /// Name of the zone.
    pub(super) fn zone(&self) -> &str {
        &self.zone
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. `None`: all rows
    /// go that nothing wants.
    pub(super) fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.capabilities.set_recorded(recorded);
    }

    fn set_scope(&mut self, cluster: &Cluster) {
        let scope = self.capabilities.scope(cluster).map(Arc::new);
        self.connects.set_scope(scope);
    }

    /// Makes the rows of networks, pods, policies, services, EgressIPs and connects what the
    /// objects of the cluster define. A rejected transaction is planned and committed again, at
    /// most three times. After a lost connection it is planned and committed again for as long as
    /// the database comes back within its time limit.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Rejected rows do not stop those of other subjects. Applied transactions stay; the next pass
    /// completes them.
    pub(super) fn reconcile<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            let mut pass = Pass::new(northbound, &self.zone);
            let outcome = self.commit(&mut pass, cluster).await?;
            pass.end()?;
            Ok(outcome)
        })
    }

    /// [`reconcile`](Self::reconcile) with the rejected rows in [`ZoneOutcome::rejections`].
    ///
    /// # Errors
    /// The database cannot be used. Applied transactions stay; the next pass completes them.
    pub(super) fn reconcile_watched<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<ZoneOutcome, ZoneError>> {
        Box::pin(async move {
            let mut pass = Pass::new(northbound, &self.zone);
            let outcome = self.commit(&mut pass, cluster).await?;
            Ok(ZoneOutcome { rejections: pass.errors, ..outcome })
        })
    }

    /// Commits the rows of all capabilities that are written. Rejected rows are in the pass.
    pub(super) async fn commit(
        &mut self,
        pass: &mut Pass<'_>,
        cluster: &Cluster,
    ) -> Result<ZoneOutcome, ZoneError> {
        self.update_inputs(cluster);
        self.set_scope(cluster);
        let objects = self.inputs.objects.clone();
        let outcome = if self.inputs.has_only_connects {
            ZoneOutcome::default()
        } else {
            ZoneOutcome {
                problems: self.capabilities.commit(pass, &objects, cluster).await?,
                skipped_networks: self.skipped.update(&objects),
                ..ZoneOutcome::default()
            }
        };
        let mut reports = BTreeMap::new();
        if !stays(&self.connects, cluster) {
            commit(&mut self.connects, pass, &objects).await?;
            reports = self.connects.reports();
        }
        let unchanged = reports.keys().map(|connect| (connect.clone(), Counts::default()));
        let changed =
            std::mem::take(&mut pass.counts).into_iter().filter_map(|(subject, counts)| {
                Some((subject.strip_prefix(CONNECT)?.to_owned(), counts))
            });
        let mut kept: Vec<KeptRow> = self.capabilities.kept().collect();
        kept.extend(self.connects.kept());
        kept.sort_by(|one, other| {
            (&one.object, one.table, one.row).cmp(&(&other.object, other.table, other.row))
        });
        Ok(ZoneOutcome {
            counts: unchanged.chain(changed).collect(),
            reports,
            kept,
            warnings: std::mem::take(&mut pass.warnings),
            next_removal: self.rendered.next_removal(grace_period(cluster)),
            ..outcome
        })
    }

    /// Inputs of the pods' rows. `None`: the objects contain no pods, and specify nothing about the
    /// ports of pods that are there.
    pub(super) fn pods(&mut self, cluster: &Cluster) -> Option<&ZoneObjects> {
        self.update_inputs(cluster);
        specifies(cluster, &[object_kind::POD]).then_some(&self.inputs.objects)
    }

    fn update_inputs(&mut self, cluster: &Cluster) {
        let activity = self.network_activity(cluster);
        self.inputs.update(cluster, &self.zone, activity);
    }

    /// Makes only the rows of the networks what the objects of the cluster define.
    ///
    /// # Errors
    /// As for [`reconcile`](Self::reconcile).
    pub(super) fn reconcile_networks<'a>(
        &'a mut self,
        northbound: &'a mut dyn DynNorthbound,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<(), ZoneError>> {
        Box::pin(async move {
            let activity = self.network_activity(cluster);
            let inputs = ZoneInputs::read(cluster, &self.zone, activity);
            let mut networks =
                Capabilities::new(vec![rows::<Topologies>(&mut UuidSource::random())]);
            let mut pass = Pass::new(northbound, &self.zone);
            networks.commit(&mut pass, &inputs.objects, cluster).await?;
            pass.end()
        })
    }

    /// Plans the rows of the connects for the present snapshot, and commits nothing.
    pub(super) fn plan_connects(&mut self, objects: &ZoneObjects, snapshot: &Snapshot) -> ZonePlan {
        self.connects.plan(objects, snapshot)
    }

    /// Rows of connects that are not as the objects of the cluster define them, by connect.
    pub(super) fn connect_differences(
        &mut self,
        cluster: &Cluster,
        snapshot: &Snapshot,
    ) -> BTreeMap<String, Vec<(RowPurpose, RowDifference)>> {
        self.update_inputs(cluster);
        self.connects.differences(&self.inputs.objects, snapshot)
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing. Rows that objects hold back do
    /// not count.
    pub(super) fn is_reconciled(&mut self, cluster: &Cluster, snapshot: &Snapshot) -> bool {
        self.update_inputs(cluster);
        self.set_scope(cluster);
        let objects = &self.inputs.objects;
        self.capabilities.is_reconciled(objects, cluster, snapshot)
            && (stays(&self.connects, cluster) || self.connects.plan(objects, snapshot).is_empty())
    }

    /// Nodes on which networks are rendered. `None`: all. A network that the zone has rendered
    /// stays for the grace period after its last user.
    fn network_activity(&mut self, cluster: &Cluster) -> Option<NetworkActivity> {
        let mut activity = self.activity.update(cluster)?;
        let grace_period = grace_period(cluster);
        let rendered = &mut self.rendered;
        rendered.update(&mut activity, &self.zone, grace_period, cluster.now());
        Some(activity)
    }
}

fn grace_period(cluster: &Cluster) -> SignedDuration {
    cluster.settings().udn_deletion_grace_period
}
