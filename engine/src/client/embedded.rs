//! Databases in the client's own process.

use std::fmt;

use tokio::sync::watch;

use crate::db::{DatabaseError, OperationResult, Snapshot};
use crate::txn::Transaction;

use super::outcome::{CommitOutcome, Committed, OpError};
use super::progress::ReplicaProgress;
use super::transact_reply;

/// A database in the client's own process, for [`Client::embedded`](super::Client::embedded).
///
/// An embedded client reads the database itself, not a replica, and passes it transactions as they
/// are: nothing is encoded or copied, and no call waits.
///
/// `ovsdb_sim::SimDatabase` implements this trait.
pub trait EmbeddedDatabase: fmt::Debug + Send + Sync {
    /// The last committed state.
    fn snapshot(&self) -> Snapshot;

    /// Executes and commits a transaction. Returns one result per operation.
    ///
    /// A `wait` that is not satisfied fails at once, whatever its timeout.
    ///
    /// # Errors
    /// An operation or the commit failed. Nothing has changed.
    fn transact(&self, transaction: &Transaction) -> Result<Vec<OperationResult>, DatabaseError>;

    /// Number of transactions that have changed the database. The channel closes with the database.
    fn commits(&self) -> watch::Receiver<u64>;
}

/// Executes a transaction on the database.
pub(super) fn transact(
    database: &dyn EmbeddedDatabase,
    transaction: &Transaction,
) -> CommitOutcome {
    match database.transact(transaction) {
        Ok(results) => CommitOutcome::Committed(Committed {
            results,
            // Inserted rows have the UUIDs of their placeholders.
            ..Committed::of(transaction.schema().clone())
        }),
        Err(error) => CommitOutcome::Rejected(rejected(transaction, error)),
    }
}

/// Publishes the database's commits to handles, until the last handle or the database is dropped.
pub(super) async fn follow(
    mut commits: watch::Receiver<u64>,
    progress: watch::Sender<ReplicaProgress>,
) {
    loop {
        tokio::select! {
            changed = commits.changed() => {
                if changed.is_err() {
                    return;
                }
                progress.send_modify(|progress| progress.changes += 1);
            }
            () = progress.closed() => return,
        }
    }
}

fn rejected(transaction: &Transaction, error: DatabaseError) -> OpError {
    match error {
        DatabaseError::Operation { index, error, .. } => {
            transact_reply::operation_error(transaction, index, error)
        }
        other @ (DatabaseError::Commit(_) | DatabaseError::WaitUnsatisfied) => {
            OpError { operation: None, error: other.into() }
        }
    }
}
