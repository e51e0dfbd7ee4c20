//! Databases in this process that clients use without messages.

use std::fmt;

use tokio::sync::watch;

use crate::db::{DatabaseError, OperationResult, Snapshot};
use crate::txn::Transaction;

use super::answer;
use super::outcome::{CommitOutcome, Committed, OpError};
use super::published::Progress;

/// A database in this process. A [`Client`](super::Client) that is [embedded](super::Client::embedded) into it reads
/// the database itself, not a replica, and hands it transactions as they are: nothing is encoded, copied or waited for.
///
/// ovsdb-sim's databases are.
pub trait EmbeddedDatabase: fmt::Debug + Send + Sync {
    /// The committed state.
    fn snapshot(&self) -> Snapshot;

    /// Executes a transaction and commits it: the result of each operation. Nobody waits for a `wait` that is not
    /// satisfied.
    ///
    /// # Errors
    /// An operation or the commit failed; nothing has changed.
    fn transact(&self, transaction: &Transaction) -> Result<Vec<OperationResult>, DatabaseError>;

    /// How many transactions have changed something. Ends with the database.
    fn commits(&self) -> watch::Receiver<u64>;
}

/// Hands a transaction to the database.
pub(super) fn transact(
    database: &dyn EmbeddedDatabase,
    transaction: &Transaction,
) -> CommitOutcome {
    match database.transact(transaction) {
        Ok(results) => CommitOutcome::Committed(Committed {
            results,
            // The rows keep the UUIDs that stood for them.
            ..Committed::of(transaction.schema().clone())
        }),
        Err(error) => CommitOutcome::Rejected(rejected(transaction, error)),
    }
}

/// Tells handles of the database's changes, until the last of them or the database is gone.
pub(super) async fn follow(mut commits: watch::Receiver<u64>, progress: watch::Sender<Progress>) {
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
            answer::rejected(transaction, index, error)
        }
        other @ (DatabaseError::Commit(_) | DatabaseError::WaitUnsatisfied) => OpError {
            operation: None,
            error: other.into(),
        },
    }
}
