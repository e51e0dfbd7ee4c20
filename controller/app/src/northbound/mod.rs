//! A zone's Northbound database: read a state of it, commit a transaction.
//!
//! | | where the rows are | who else sees them |
//! |---|---|---|
//! | [`Embedded`] | in this process | clients of the simulator, if it listens |
//! | [`Remote`] | in a server | everybody |
//! | [`Rehearsal`] | in a copy of one of the others | nobody: it shows what would happen |

mod embedded;
mod rehearsal;
mod remote;

use std::future::Future;

use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use thiserror::Error;

pub use embedded::Embedded;
pub use rehearsal::Rehearsal;
pub use remote::{OpenError, Remote};

/// Name of the database.
pub const DATABASE: &str = "OVN_Northbound";

/// From so many new rows on, a server is asked to report nothing while it adds them, see
/// [`Config::bulk_rows`](patchbay_engine::client::Config::bulk_rows): below that the difference is some milliseconds.
pub const BULK_ROWS: usize = 4096;

/// A database that can be read and written.
pub trait Northbound {
    /// A consistent state, with everything that was committed through this handle.
    fn snapshot(&self) -> Snapshot;

    /// Commits a transaction as a whole or not at all.
    ///
    /// # Errors
    /// See [`CommitError`]: nothing has changed, or nobody knows yet.
    fn commit(
        &mut self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// After [`CommitError::Unknown`]: waits until [`snapshot`](Self::snapshot) shows what has become of the transaction.
    ///
    /// # Errors
    /// The database does not come back: a text that says so.
    fn look_again(&mut self) -> impl Future<Output = Result<(), String>> + Send;
}

/// A database that is embedded or a server's, as the user says.
#[derive(Debug)]
pub enum OneOf {
    /// In this process.
    Embedded(Embedded),
    /// In a server.
    Remote(Remote),
}

impl OneOf {
    /// Waits until the snapshot shows the database as it is now: not long, if it does not.
    ///
    /// # Errors
    /// The database does not come back: a text that says so.
    pub async fn live(&self) -> Result<(), String> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Remote(database) => database.live().await,
        }
    }

    /// Waits until the snapshot shows the database after a time in which nobody knows what has happened to it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn resynced(&mut self) {
        match self {
            Self::Embedded(_) => std::future::pending().await,
            Self::Remote(database) => database.resynced().await,
        }
    }
}

impl Northbound for OneOf {
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

    async fn look_again(&mut self) -> Result<(), String> {
        match self {
            Self::Embedded(database) => database.look_again().await,
            Self::Remote(database) => database.look_again().await,
        }
    }
}

/// Why a transaction is not known to be committed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CommitError {
    /// The database has refused it; nothing has changed. Another writer may have been faster: a plan for the present
    /// state may succeed.
    #[error("{0}")]
    Rejected(String),
    /// The database cannot be reached; nothing has changed.
    #[error("{0}")]
    NotSent(String),
    /// The connection was lost before the answer: it is committed, or it is not.
    #[error("{0}")]
    Unknown(String),
}
