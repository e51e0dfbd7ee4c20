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
