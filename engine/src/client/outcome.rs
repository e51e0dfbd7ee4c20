//! What became of a transaction.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use crate::db::OperationResult;

use super::error::{Ended, Lost};

/// What became of a transaction.
#[derive(Debug)]
#[must_use = "a transaction may have been rejected"]
pub enum CommitOutcome {
    /// The server has made the changes, and the replica shows them.
    Committed(Committed),
    /// The server has refused the transaction; nothing has changed.
    Rejected(OpError),
    /// The transaction did not reach the server; nothing has changed.
    NotSent(NotSent),
    /// The connection was lost before the server answered: the changes are made or they are not.
    Unknown(Unknown),
}

impl CommitOutcome {
    /// The results of a transaction that was committed.
    ///
    /// # Errors
    /// It was not, or nobody knows.
    pub fn into_result(self) -> Result<Committed, CommitError> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Rejected(error) => Err(error.into()),
            Self::NotSent(error) => Err(error.into()),
            Self::Unknown(error) => Err(error.into()),
        }
    }
}

/// A transaction was not committed, or nobody knows.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// See [`CommitOutcome::Rejected`].
    #[error(transparent)]
    Rejected(#[from] OpError),
    /// See [`CommitOutcome::NotSent`].
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// See [`CommitOutcome::Unknown`].
    #[error(transparent)]
    Unknown(#[from] Unknown),
}

/// The results of a transaction that was committed.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// One for each operation.
    pub results: Vec<OperationResult>,
    /// From the placeholders of inserted rows to their UUIDs.
    pub(super) inserted: HashMap<Uuid, Uuid, RandomState>,
}

impl Committed {
    /// The row that a reference from [`TxnBuilder::insert`](crate::txn::TxnBuilder::insert) stands for.
    /// Other references stand for themselves.
    pub fn resolve<T>(&self, reference: Ref<T>) -> Ref<T> {
        self.inserted
            .get(&reference.uuid)
            .map_or(reference, |uuid| Ref::new(*uuid))
    }
}

/// Why the server refused a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    /// The operation at fault; none when the changes together break a constraint, or when the request was refused
    /// as a whole.
    pub operation: Option<FailedOperation>,
    /// The server's words.
    pub error: OvsdbError,
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOperation {
    /// Its place in the transaction, from 0.
    pub index: usize,
    /// Its name, e.g. `insert`.
    pub operation: &'static str,
    /// The table that it is about.
    pub table: Option<Arc<str>>,
}

impl OpError {
    /// Whether a row was not what the transaction [expected](crate::txn::TxnBuilder::expect): compute it anew from
    /// the present state.
    pub fn is_conflict(&self) -> bool {
        self.error.tag == "timed out"
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refused the transaction")?;
        if let Some(FailedOperation {
            index,
            operation,
            table,
        }) = &self.operation
        {
            write!(f, " at operation {index} ({operation}")?;
            if let Some(table) = table {
                write!(f, " of {table}")?;
            }
            f.write_str(")")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl std::error::Error for OpError {}

/// Why a transaction did not reach the server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not sent to the server, nothing has changed: {}", why(.lost.as_deref()))]
pub struct NotSent {
    /// What the last connection ended with; none when the client has ended.
    pub lost: Option<Arc<Lost>>,
}

/// Why nobody knows what became of a transaction.
///
/// Wait with [`Client::resynced`](super::Client::resynced) until the replica shows the database as it is now, and
/// see there whether the changes are made; or compute the transaction anew from there, which does nothing if they are.
#[derive(Clone, Debug, thiserror::Error)]
#[error("whether the changes are made is not known, the connection was lost before the server answered: {}", why(.lost.as_deref()))]
pub struct Unknown {
    /// What the connection ended with; none when the client has ended.
    pub lost: Option<Arc<Lost>>,
    /// The number of the connection.
    pub(super) session: u64,
}

fn why(lost: Option<&Lost>) -> String {
    lost.map_or_else(|| Ended.to_string(), Lost::to_string)
}
