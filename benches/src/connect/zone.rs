//! Zone with a database in this process, and the costs of its passes.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use patchbay_connects::{Counts, ZoneController};
use patchbay_engine::db::Database;
use patchbay_schemas::nb::{self, LogicalRouterPort};
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::ZoneObjects;

use super::ClusterSize;
use crate::stopwatch::Stopwatch;

/// Zone with a database in this process.
#[derive(Debug)]
pub struct ConnectZone {
    /// Objects of the zone.
    pub objects: ZoneObjects,
    /// Northbound of the zone.
    pub database: Database,
    /// Controller under measurement.
    pub controller: ZoneController,
}

/// Costs of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectPass {
    /// Time of the plan, as [`Stopwatch`] measures it.
    pub plan: Duration,
    /// Time of the commits, as [`Stopwatch`] measures it.
    pub commit: Duration,
    /// Changed rows.
    pub counts: Counts,
}

impl ConnectPass {
    /// Total time.
    pub fn total(&self) -> Duration {
        self.plan + self.commit
    }

    /// Number of inserted, changed and deleted rows.
    pub fn rows(&self) -> usize {
        self.counts.inserted + self.counts.changed + self.counts.deleted
    }
}

impl ConnectZone {
    /// Creates a database with [`ClusterSize::prerequisites`], and a new controller.
    ///
    /// # Errors
    /// The database refuses a row.
    pub fn new(size: ClusterSize, objects: ZoneObjects) -> Result<Self> {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let prerequisites = size.prerequisites(&database.snapshot())?;
        database.transact(prerequisites.operations())?;
        Ok(Self { objects, database, controller: ZoneController::default() })
    }

    /// Plans and commits once.
    ///
    /// # Errors
    /// A plan or a transaction fails, or a network is not connected.
    pub fn pass(&mut self) -> Result<ConnectPass> {
        let snapshot = self.database.snapshot();
        let started = Stopwatch::start()?;
        let plan = self.controller.plan(&self.objects, &snapshot);
        let mut pass = ConnectPass { plan: started.stop()?, ..ConnectPass::default() };
        // The database changes rows in place that no snapshot holds.
        drop(snapshot);
        let started = Stopwatch::start()?;
        for connect in plan.connects {
            if let Some(report) = connect.report {
                ensure!(report.is_complete(), "{:?}", report.messages());
            }
            let change = connect.change?;
            pass.counts += change.counts;
            if let Some(transaction) = change.transaction {
                self.database.transact(transaction.operations())?;
            }
        }
        pass.commit = started.stop()?;
        Ok(pass)
    }

    /// Repeats passes until one changes nothing.
    ///
    /// # Errors
    /// A pass fails, or the fifth one still changes rows.
    pub fn settle(&mut self) -> Result<()> {
        for _ in 0..5 {
            if self.pass()?.counts == Counts::default() {
                return Ok(());
            }
        }
        bail!("five passes do not settle the database")
    }

    /// Number of router ports in the database.
    pub fn ports(&self) -> usize {
        self.database.snapshot().typed::<LogicalRouterPort>().len()
    }
}
