//! Handles of Northbound databases: read a snapshot, commit a transaction.
//!
//! | handle | rows are in | commits are visible to |
//! |---|---|---|
//! | [`Embedded`] | a simulator in this process | clients of the simulator, if it listens |
//! | [`Remote`] | an OVSDB server | all clients of the server |
//! | [`DryRun`] | a snapshot, and a copy of it after the first commit | nothing else; it collects the changed rows |

mod connects_config;
mod dry_run;
pub(crate) mod dynamic;
mod embedded;
mod networks_config;
mod remote;

use std::future::Future;
use std::time::Duration;

use patchbay_engine::client::{ClientClosed, FailedOperation, NotSent, OpError, UnknownOutcome};
use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_engine::txn::Transaction;
use thiserror::Error;

pub use connects_config::connects_config;
pub use dry_run::DryRun;
pub use embedded::{Embedded, EmbeddedError};
pub use networks_config::networks_config;
pub use remote::{OpenError, Remote};

/// Name of the Northbound database.
pub const DATABASE: &str = "OVN_Northbound";

/// Number of new rows from which on a transaction is a bulk transaction, see
/// [`Config::bulk_rows`](patchbay_engine::client::Config::bulk_rows). Below it, updates of the
/// monitor cost only some milliseconds.
pub const BULK_ROWS: usize = 4096;

/// A Northbound database that can be read and written.
pub trait Northbound: Send {
    /// Returns a consistent snapshot that contains every transaction committed through this handle.
    fn snapshot(&self) -> Snapshot;

    /// Commits a transaction atomically.
    ///
    /// # Errors
    /// The database is unchanged, or the outcome is unknown: see [`CommitError`].
    fn commit(
        &mut self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Waits after [`CommitError::Unknown`] and [`CommitError::NotSent`] until
    /// [`snapshot`](Self::snapshot) shows the outcome of the transaction and follows the database
    /// again.
    ///
    /// # Errors
    /// The connection to the database is not restored.
    fn wait_for_outcome(&mut self) -> impl Future<Output = Result<(), ReconnectError>> + Send;
}

/// An embedded or a remote database, chosen at run time.
#[derive(Debug)]
pub enum NorthboundHandle {
    /// A simulator in this process.
    Embedded(Embedded),
    /// An OVSDB server.
    Remote(Remote),
}

impl NorthboundHandle {
    /// Waits until the snapshot follows the database, for a limited time.
    ///
    /// # Errors
    /// The connection to the database is not restored.
    pub async fn wait_until_live(&self) -> Result<(), ReconnectError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Remote(database) => database.wait_until_live().await,
        }
    }

    /// Waits for the next resync after a lost connection. Never returns for an embedded database.
    ///
    /// # Cancel safety
    /// No resync is lost if the future is dropped.
    pub async fn wait_for_resync(&mut self) {
        match self {
            Self::Embedded(_) => std::future::pending().await,
            Self::Remote(database) => database.wait_for_resync().await,
        }
    }
}

impl Northbound for NorthboundHandle {
    fn snapshot(&self) -> Snapshot {
        match self {
            Self::Embedded(database) => database.snapshot(),
            Self::Remote(database) => database.snapshot(),
        }
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        match self {
            Self::Embedded(database) => database.commit(transaction).await,
            Self::Remote(database) => database.commit(transaction).await,
        }
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        match self {
            Self::Embedded(database) => database.wait_for_outcome().await,
            Self::Remote(database) => database.wait_for_outcome().await,
        }
    }
}

/// Failure of [`Northbound::commit`].
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The database rejected the transaction; nothing has changed. If another client has changed
    /// the rows concurrently, a transaction planned for the new snapshot may succeed.
    #[error(transparent)]
    Rejected(Box<OpError>),
    /// The transaction was not sent because the database cannot be reached; nothing has changed.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// The connection was lost before the reply: the transaction was committed, or it was not.
    #[error(transparent)]
    Unknown(#[from] UnknownOutcome),
    /// The server has not replied within this time: the transaction was committed, or it was not,
    /// or it will be.
    #[error(
        "the server has not replied within {} s; the transaction may be applied or not",
        .0.as_secs()
    )]
    NoReply(Duration),
    /// The rows of a dry run violate a constraint of the schema, so that a transaction cannot be
    /// tried on a copy of them. The replica of a client may have such rows if it lacks tables.
    #[error("cannot copy the database for a dry run: {0}")]
    NotCopied(#[source] Box<DatabaseError>),
}

impl From<OpError> for CommitError {
    fn from(error: OpError) -> Self {
        Self::Rejected(Box::new(error))
    }
}

impl From<DatabaseError> for CommitError {
    /// The error that a server would have replied with.
    fn from(error: DatabaseError) -> Self {
        let operation = match &error {
            DatabaseError::Operation { index, operation, .. } => Some(Box::new(FailedOperation {
                index: *index,
                operation,
                table: None,
                row: None,
                columns: Vec::new(),
            })),
            _ => None,
        };
        let error = error.into();
        OpError { operation, error }.into()
    }
}

/// The connection to a database was lost and is not restored.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ReconnectError {
    /// The replica of the database is not live again within this time.
    #[error("the database did not come back within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The client is closed.
    #[error(transparent)]
    Closed(#[from] ClientClosed),
}

impl ReconnectError {
    /// `true` if the time limit has ended.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }
}
