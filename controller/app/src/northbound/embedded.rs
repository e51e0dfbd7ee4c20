//! The database of a simulator in this process.

use ovsdb_sim::{Sim, SimBuildError, SimDatabase};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use thiserror::Error;

use super::{CommitError, DATABASE, Northbound};

/// An embedded database that cannot be started.
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// The simulator does not start.
    #[error(transparent)]
    Build(#[from] SimBuildError),
    /// The simulator has no Northbound database.
    #[error("the simulator does not serve {DATABASE}")]
    NotServed,
}

/// An in-memory database. Its simulator may serve it to others.
#[derive(Clone, Debug)]
pub struct Embedded {
    sim: Sim,
    database: SimDatabase,
}

impl Embedded {
    /// An empty database. The UUIDs that it draws follow from the seed.
    ///
    /// # Errors
    /// The simulator does not start.
    pub fn new(seed: u64) -> Result<Self, EmbeddedError> {
        let sim = Sim::builder().seed(seed).build()?;
        let database = sim.database(DATABASE).ok_or(EmbeddedError::NotServed)?;
        Ok(Self { sim, database })
    }

    /// The simulator, to serve the database to others.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }
}

impl Northbound for Embedded {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let done = self.database.transact(&transaction);
        done.map(|_| ())
            .map_err(|error| CommitError::Rejected(error.to_string()))
    }

    async fn look_again(&mut self) -> Result<(), String> {
        Ok(())
    }
}
