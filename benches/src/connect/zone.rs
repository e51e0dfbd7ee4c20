//! A zone whose database is in this process, and what passes over it take.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use patchbay_controller::zone::{Counts, Inputs, ZoneController};
use patchbay_engine::db::Database;
use patchbay_schemas::nb::{self, LogicalRouterPort};
use patchbay_schemas::uuids::UuidSource;

use super::Size;
use crate::process::cpu;

/// From here on the scheduler's count of CPU time, which moves with its ticks, says more than the clock on the wall,
/// which runs on while others have the processor.
const COUNTED: Duration = Duration::from_millis(50);

/// A zone with its database in this process.
#[derive(Debug)]
pub struct Zone {
    /// What the controller is given.
    pub inputs: Inputs,
    /// The database.
    pub database: Database,
    /// The controller.
    pub controller: ZoneController,
}

/// What one pass took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// To find out what to do: CPU time, or, of less than 50 ms, wall-clock time.
    pub plan: Duration,
    /// To do it, measured likewise.
    pub commit: Duration,
    /// How many rows changed.
    pub counts: Counts,
}

/// What the only thread at work takes.
struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Result<Self> {
        Ok(Self {
            cpu: cpu(std::process::id())?,
            wall: Instant::now(),
        })
    }

    /// CPU time of what takes long, wall-clock time of what is over at once.
    fn stop(self) -> Result<Duration> {
        let wall = self.wall.elapsed();
        let cpu = cpu(std::process::id())?.saturating_sub(self.cpu);
        Ok(if wall < COUNTED { wall } else { cpu })
    }
}

impl Pass {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.plan + self.commit
    }

    /// How many rows came, changed or went.
    pub fn rows(&self) -> usize {
        self.counts.inserted + self.counts.changed + self.counts.deleted
    }
}

impl Zone {
    /// A database with what others have written, and a controller that knows nothing.
    ///
    /// # Errors
    /// The database refuses a row.
    pub fn new(size: Size, inputs: Inputs) -> Result<Self> {
        let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(1));
        let surroundings = size.surroundings(&database.snapshot())?;
        database.transact(surroundings.operations())?;
        Ok(Self {
            inputs,
            database,
            controller: ZoneController::default(),
        })
    }

    /// Plans and commits.
    ///
    /// # Errors
    /// A plan or a transaction fails, or something is not connected.
    pub fn pass(&mut self) -> Result<Pass> {
        let snapshot = self.database.snapshot();
        let started = Stopwatch::start()?;
        let plan = self.controller.plan(&self.inputs, &snapshot);
        let mut pass = Pass {
            plan: started.stop()?,
            ..Pass::default()
        };
        // The writer changes in place what nobody else holds.
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

    /// Passes until nothing is left to do.
    ///
    /// # Errors
    /// A pass fails, or there is no end.
    pub fn settle(&mut self) -> Result<()> {
        for _ in 0..5 {
            if self.pass()?.counts == Counts::default() {
                return Ok(());
            }
        }
        bail!("there is always something left to do")
    }

    /// How many router ports there are.
    pub fn ports(&self) -> usize {
        self.database.snapshot().typed::<LogicalRouterPort>().len()
    }
}
