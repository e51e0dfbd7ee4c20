//! Outcomes of transactions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use crate::db::{OperationResult, Snapshot};

use super::error::{ClientClosed, ConnectionFailure};

/// Outcome of a transaction.
#[derive(Debug)]
#[must_use = "a transaction may have been rejected"]
pub enum CommitOutcome {
    /// The server has committed the changes, and the replica shows them.
    Committed(Committed),
    /// The server has rejected the transaction. Nothing has changed.
    Rejected(OpError),
    /// The transaction did not reach the server or was not executed. Nothing has changed, and
    /// nothing will.
    NotSent(NotSent),
    /// The connection was lost before the reply. The changes may or may not have been made.
    ///
    /// With a [`Guard`](super::Guard) this happens only if the client is closed before it
    /// reconnects, or if another client has removed the transaction's mark or the guard row.
    Unknown(UnknownOutcome),
}

impl CommitOutcome {
    /// Value for logs and metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::Rejected(_) => "rejected",
            Self::NotSent(_) => "not_sent",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The results of a committed transaction.
    ///
    /// # Errors
    /// The transaction was not committed, or its outcome is unknown.
    pub fn into_result(self) -> Result<Committed, CommitError> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Rejected(error) => Err(error.into()),
            Self::NotSent(error) => Err(error.into()),
            Self::Unknown(error) => Err(error.into()),
        }
    }
}

/// The transaction was not committed, or its outcome is unknown.
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
    Unknown(#[from] UnknownOutcome),
}

/// The results of a committed transaction.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Results by operation. Empty if the reply was lost and the client's [`Guard`](super::Guard)
    /// has shown that the transaction was committed.
    pub results: Vec<OperationResult>,
    /// `None`: the transaction had no operations.
    pub(super) schema: Option<Arc<DatabaseSchema>>,
    /// UUIDs of inserted rows, by placeholder.
    pub(super) inserted: HashMap<Uuid, Uuid, RandomState>,
}

impl Committed {
    /// Resolves a reference from [`TxnBuilder::insert`](crate::txn::TxnBuilder::insert) to the
    /// inserted row. Other references are returned as they are.
    pub fn resolve<T>(&self, reference: Ref<T>) -> Ref<T> {
        self.inserted.get(&reference.uuid).map_or(reference, |uuid| Ref::new(*uuid))
    }

    /// Resolves a placeholder from [`TxnBuilder::insert_row`](crate::txn::TxnBuilder::insert_row)
    /// to the UUID of the inserted row. Other UUIDs are returned as they are.
    pub fn resolve_row(&self, row: Uuid) -> Uuid {
        self.inserted.get(&row).copied().unwrap_or(row)
    }

    /// A row of this transaction as a snapshot shows it. The snapshot must not be older than the
    /// commit; the client's current one is not.
    ///
    /// # Errors
    /// The row has a value that `T` cannot hold.
    pub fn row<T: TableRow>(
        &self,
        snapshot: &Snapshot,
        reference: Ref<T>,
    ) -> Result<Option<T>, TypeError> {
        snapshot.get(self.resolve(reference))
    }

    /// The rows of `T`'s table that [`TxnBuilder::read`](crate::txn::TxnBuilder::read) has read, in
    /// order.
    ///
    /// # Errors
    /// A row has a value that `T` cannot hold.
    pub fn read<T: TableRow>(&self) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let schema = self.schema.as_deref();
        let found = schema.and_then(|schema| schema.table_by_name(T::TABLE));
        let of_table = move |result: &OperationResult| {
            let (id, schema) = found?;
            let OperationResult::Rows(selected) = result else {
                return None;
            };
            (selected.table == id).then(|| (schema, selected.rows.clone()))
        };
        let rows = self.results.iter().filter_map(of_table);
        rows.flat_map(|(schema, rows)| {
            rows.into_iter().map(move |row| {
                let value = |place: usize| {
                    let column = schema.column_id(T::COLUMNS.get(place)?)?;
                    row.values.get(column)
                };
                Ok((Ref::new(row.uuid), T::from_data(value)?))
            })
        })
    }

    pub(super) fn of(schema: Arc<DatabaseSchema>) -> Self {
        Self { schema: Some(schema), ..Self::default() }
    }

    /// Appends the results of a later transaction.
    pub(super) fn append(&mut self, later: Self) {
        self.results.extend(later.results);
        self.inserted.extend(later.inserted);
        self.schema = later.schema.or_else(|| self.schema.take());
    }
}

/// Outcome of a transaction that was split into parts.
#[derive(Debug)]
#[must_use = "some parts may not be committed"]
pub struct PartsOutcome {
    /// Number of committed parts. The next part, if any, failed.
    pub parts: usize,
    /// Results of the committed parts.
    pub committed: Committed,
    /// Error of the part that failed. The parts after it were not sent. `None`: all parts were
    /// committed.
    pub error: Option<CommitError>,
}

/// Error with which the server rejected a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    /// The operation that failed. `None`: the changes together violate a constraint, or the server
    /// rejected the request as a whole.
    pub operation: Option<Box<FailedOperation>>,
    /// The server's error.
    pub error: OvsdbError,
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOperation {
    /// Index of the operation in the transaction, from 0.
    pub index: usize,
    /// Name of the operation, e.g. `insert`.
    pub operation: &'static str,
    /// Table of the operation.
    pub table: Option<Arc<str>>,
    /// Row of the operation. `None`: the transaction inserts the row, or the condition is not a
    /// UUID.
    pub row: Option<Uuid>,
    /// Columns that the server's error names, or all columns of the operation if it names none.
    pub columns: Vec<Arc<str>>,
}

impl OpError {
    /// `true` if a row was not as the transaction [expected](crate::txn::TxnBuilder::expect).
    /// Compute the transaction again from the current snapshot.
    pub fn is_conflict(&self) -> bool {
        self.error.tag == "timed out"
    }

    /// `true` if the client did not own a lock that the transaction
    /// [asserts](crate::txn::TxnBuilder::assert_lock).
    pub fn is_not_owner(&self) -> bool {
        self.error.tag == "not owner"
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refused the transaction")?;
        if let Some(FailedOperation { index, operation, table, row, columns }) =
            self.operation.as_deref()
        {
            write!(f, " at operation {index} ({operation}")?;
            if let Some(table) = table {
                write!(f, " of {table}")?;
            }
            if let Some(row) = row {
                write!(f, ", row {row}")?;
            }
            if let [column] = &columns[..] {
                write!(f, ", column {column}")?;
            }
            f.write_str(")")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl std::error::Error for OpError {}

/// The transaction was not executed and never will be: it did not reach the server, or the client's
/// [`Guard`](super::Guard) has shown that it was not executed. It can be repeated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not sent to the server, nothing has changed: {}", describe(.cause.as_deref()))]
pub struct NotSent {
    /// Failure of the last connection. `None`: the client is closed.
    pub cause: Option<Arc<ConnectionFailure>>,
}

/// The outcome of a transaction is unknown.
///
/// Wait with [`Client::wait_for_resync`](super::Client::wait_for_resync) for a snapshot that is up
/// to date, and look for the changes there. Or compute the transaction again from that snapshot,
/// which gives an empty transaction if the changes were made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("whether the changes are made is not known, the connection was lost before the server answered: {}", describe(.cause.as_deref()))]
pub struct UnknownOutcome {
    /// Failure of the connection. `None`: the client is closed.
    pub cause: Option<Arc<ConnectionFailure>>,
    /// Number of the connection.
    pub session: u64,
}

fn describe(cause: Option<&ConnectionFailure>) -> String {
    cause.map_or_else(|| ClientClosed.to_string(), ConnectionFailure::to_string)
}
