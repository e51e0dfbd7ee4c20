//! A database in a simulator in this process.

use ovsdb_sim::{Sim, SimBuildError, SimDatabase, TransactError};
use patchbay_engine::client::OpError;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_schemas::error::OvsdbError;
use thiserror::Error;

use super::{CommitError, DATABASE, Northbound, ReconnectError};

/// Failure of [`Embedded::new`].
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// The simulator cannot be built.
    #[error(transparent)]
    Build(#[from] SimBuildError),
    /// The simulator has no Northbound database.
    #[error("the simulator does not serve {DATABASE}")]
    NotServed,
}

/// An in-memory database. Its simulator can serve it to OVSDB clients.
#[derive(Clone, Debug)]
pub struct Embedded {
    sim: Sim,
    database: SimDatabase,
}

impl Embedded {
    /// Creates an empty database. Equal seeds give equal UUIDs of rows.
    ///
    /// # Errors
    /// The simulator cannot be built.
    pub fn new(seed: u64) -> Result<Self, EmbeddedError> {
        let sim = Sim::builder().seed(seed).build()?;
        let database = sim.database(DATABASE).ok_or(EmbeddedError::NotServed)?;
        Ok(Self { sim, database })
    }

    /// The simulator of the database, for example to let it listen.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }
}

impl Northbound for Embedded {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        self.database.commit(transaction).await
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.database.wait_for_outcome().await
    }
}

/// A database of any simulator. Its commits end at once.
impl Northbound for SimDatabase {
    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let error = match Self::transact(self, &transaction) {
            Ok(_) => return Ok(()),
            Err(TransactError::Rejected(error)) => error,
            Err(error @ TransactError::WaitNotSatisfied) => {
                OvsdbError::new("timed out", error.to_string())
            }
        };
        let operation = None;
        Err(OpError { operation, error }.into())
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        Ok(())
    }
}
