//! Reconciliation of one zone's Northbound database with the objects of a cluster.

mod capabilities;
mod central;
mod controllers;
mod error;
mod missing;
mod pass;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use patchbay_connects::{ConnectReport, RowDifference, RowPurpose, ZonePlan};
use patchbay_model::{Databases, ObjectProblem};
use patchbay_networks::SkippedNetwork;
use patchbay_rows::{Counts, KeptRow, ObjectName};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::{ZoneObjects, ZoneRows};

use crate::Cluster;
use crate::northbound::Northbound;

use central::CentralControllers;
use controllers::ZoneControllers;

pub use capabilities::{capabilities, rows};
pub use error::ZoneError;
pub(crate) use missing::specifies;

/// Reconciles the Northbound database of one zone: first the rows of the networks, then those of
/// their pods and services, then those of each ClusterNetworkConnect.
///
/// It keeps the controllers between passes, so that a later [`reconcile`](Self::reconcile) plans
/// only what follows from changed objects and rows.
#[derive(Debug)]
pub struct ZoneReconciler<N> {
    northbound: N,
    /// On the heap, because futures hold them.
    controllers: Box<ZoneControllers>,
    /// Controllers of the one database of all nodes, for a cluster that has one.
    central: Box<CentralControllers>,
}

/// Result of [`ZoneReconciler::reconcile`].
#[derive(Debug, Default)]
pub struct ZoneOutcome {
    /// Numbers of inserted, changed and deleted rows by connect, deleted connects included.
    pub counts: BTreeMap<String, Counts>,
    /// Reports by connect.
    pub reports: BTreeMap<String, Arc<ConnectReport>>,
    /// Networks that have no rows of their own in the zone, each with the reason.
    pub skipped_networks: Vec<SkippedNetwork>,
    /// Reasons why pods, policies, services, EgressIPs and other objects do not apply as they
    /// specify.
    pub problems: Vec<ObjectProblem>,
    /// Rows of objects that are neither in the manifests nor recorded:
    /// [`ZoneReconciler::set_recorded`].
    pub kept: Vec<KeptRow>,
    /// Transactions that were applied although their reply was lost, one sentence each.
    pub warnings: Vec<String>,
    /// Errors about the rows of single subjects, which are not committed. Only
    /// [`ZoneReconciler::reconcile_watched`] returns them here.
    pub rejections: Vec<ZoneError>,
    /// Time at which another pass has to remove a network without users on the zone's node.
    /// `None`: there is none.
    pub next_removal: Option<Timestamp>,
}

impl<N> ZoneReconciler<N> {
    /// Creates a reconciler for the database of a zone, which is named for its node; or for that of
    /// all nodes, which is named [`Databases::CENTRAL`]. `uuids` are the placeholders of new rows.
    pub fn new(zone: impl Into<String>, northbound: N, mut uuids: UuidSource) -> Self {
        let all = capabilities(&mut uuids);
        Self::with_capabilities(zone, northbound, uuids, all)
    }

    /// Creates a reconciler that runs these capabilities before the connects.
    pub fn with_capabilities(
        zone: impl Into<String>,
        northbound: N,
        mut uuids: UuidSource,
        capabilities: Vec<Box<dyn ZoneRows<ZoneObjects>>>,
    ) -> Self {
        Self {
            northbound,
            central: Box::new(CentralControllers::new(uuids.fork())),
            controllers: Box::new(ZoneControllers::new(zone.into(), uuids, capabilities)),
        }
    }

    /// The reconciler of the rows of connects only. Another program writes the other ones.
    #[must_use]
    pub fn with_only_connects(mut self) -> Self {
        self.controllers.set_only_connects();
        self
    }

    /// Name of the zone.
    pub fn zone(&self) -> &str {
        self.controllers.zone()
    }

    /// The database.
    pub fn northbound(&self) -> &N {
        &self.northbound
    }

    /// The database, to commit or to wait.
    pub fn northbound_mut(&mut self) -> &mut N {
        &mut self.northbound
    }

    /// Sets the objects of earlier passes, whose rows go if the objects are gone. Rows of objects
    /// that are neither in the cluster nor here stay, and are in [`ZoneOutcome::kept`]. `None`:
    /// all rows go that nothing wants.
    pub fn set_recorded(&mut self, recorded: Option<Arc<BTreeSet<ObjectName>>>) {
        self.central.set_recorded(recorded.clone());
        self.controllers.set_recorded(recorded);
    }

    /// Inputs of the pods' rows. `None`: the objects contain no pods, and specify nothing about the
    /// ports of pods that are there.
    pub fn pods(&mut self, cluster: &Cluster) -> Option<&ZoneObjects> {
        self.controllers.pods(cluster)
    }
}

impl<N: Northbound> ZoneReconciler<N> {
    /// Makes the rows of networks, pods, policies, services, EgressIPs and connects what the
    /// objects of the cluster define. A rejected transaction is planned and committed again, at
    /// most three times. After a lost connection it is planned and committed again for as long as
    /// the database comes back within its time limit.
    ///
    /// # Errors
    /// A plan does not fit the database, or a transaction is not applied: see [`ZoneError`].
    /// Rejected rows do not stop those of other subjects. Applied transactions stay; the next pass
    /// completes them.
    pub async fn reconcile(&mut self, cluster: &Cluster) -> Result<ZoneOutcome, ZoneError> {
        let northbound = &mut self.northbound;
        match cluster.settings().databases {
            Databases::Zone => self.controllers.reconcile(northbound, cluster).await,
            Databases::Central => self.central.reconcile(northbound, cluster).await,
        }
    }

    /// [`reconcile`](Self::reconcile) with the rejected rows in [`ZoneOutcome::rejections`]. If the
    /// objects are [watched](Cluster::watched), the inputs of a later pass cost as much as the
    /// objects have changed.
    ///
    /// # Errors
    /// The database cannot be used. Applied transactions stay; the next pass completes them.
    pub async fn reconcile_watched(&mut self, cluster: &Cluster) -> Result<ZoneOutcome, ZoneError> {
        let northbound = &mut self.northbound;
        self.controllers.reconcile_watched(northbound, cluster).await
    }

    /// Makes only the rows of the networks what the objects of the cluster define.
    ///
    /// # Errors
    /// As for [`reconcile`](Self::reconcile).
    pub async fn reconcile_networks(&mut self, cluster: &Cluster) -> Result<(), ZoneError> {
        let northbound = &mut self.northbound;
        self.controllers.reconcile_networks(northbound, cluster).await
    }

    /// Plans the rows of the connects for the present snapshot, and commits nothing.
    pub fn plan_connects(&mut self, objects: &ZoneObjects) -> ZonePlan {
        let snapshot = self.northbound.snapshot();
        self.controllers.plan_connects(objects, &snapshot)
    }

    /// Rows of connects in the present snapshot that are not as the objects of the cluster define
    /// them, by connect, each with its purpose.
    pub fn connect_differences(
        &mut self,
        cluster: &Cluster,
    ) -> BTreeMap<String, Vec<(RowPurpose, RowDifference)>> {
        let snapshot = self.northbound.snapshot();
        self.controllers.connect_differences(cluster, &snapshot)
    }

    /// `true` if [`reconcile`](Self::reconcile) would commit nothing.
    pub fn is_reconciled(&mut self, cluster: &Cluster) -> bool {
        let snapshot = self.northbound.snapshot();
        match cluster.settings().databases {
            Databases::Zone => self.controllers.is_reconciled(cluster, &snapshot),
            Databases::Central => self.central.is_reconciled(cluster, &snapshot),
        }
    }
}

#[cfg(test)]
mod tests;
