//! What became of a transaction.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use crate::db::{OperationResult, Snapshot};

use super::error::{Ended, Lost};

/// What became of a transaction.
#[derive(Debug)]
#[must_use = "a transaction may have been rejected"]
pub enum CommitOutcome {
    /// The server has made the changes, and the replica shows them.
    Committed(Committed),
    /// The server has refused the transaction; nothing has changed.
    Rejected(OpError),
    /// The transaction did not reach the server, or was not executed; nothing has changed, and nothing will.
    NotSent(NotSent),
    /// The connection was lost before the server answered: the changes are made or they are not. With a
    /// [`Guard`](super::Guard), only when the client ends before it can tell, or when the guard row shows neither, because
    /// another client of the guard's name has tidied it up, or somebody has deleted it.
    Unknown(Unknown),
}

impl CommitOutcome {
    /// A word for logs and metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::Rejected(_) => "rejected",
            Self::NotSent(_) => "not_sent",
            Self::Unknown(_) => "unknown",
        }
    }

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
    /// One for each operation. None when the server's answer was lost, and the client's [`Guard`](super::Guard) has shown
    /// later that the changes are made.
    pub results: Vec<OperationResult>,
    /// None when there was nothing to do.
    pub(super) schema: Option<Arc<DatabaseSchema>>,
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

    /// The UUID that a row was given, by what [`TxnBuilder::insert_row`](crate::txn::TxnBuilder::insert_row) returned.
    /// Others stand for themselves.
    pub fn resolve_row(&self, row: Uuid) -> Uuid {
        self.inserted.get(&row).copied().unwrap_or(row)
    }

    /// A row of this transaction as it is in a snapshot, which must not be older: the client's is not.
    ///
    /// # Errors
    /// `T` cannot hold it.
    pub fn row<T: TableRow>(
        &self,
        snapshot: &Snapshot,
        reference: Ref<T>,
    ) -> Result<Option<T>, TypeError> {
        snapshot.get(self.resolve(reference))
    }

    /// What [`TxnBuilder::read`](crate::txn::TxnBuilder::read) has read of `T`'s table, in order.
    ///
    /// # Errors
    /// `T` cannot hold a row.
    pub fn read<T: TableRow>(&self) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let schema = self.schema.as_deref();
        let found = schema.and_then(|schema| schema.table_by_name(T::TABLE));
        let of_table = move |result: &OperationResult| {
            let (id, schema) = found?;
            let OperationResult::Rows { table, rows, .. } = result else {
                return None;
            };
            (*table == id).then(|| (schema, rows.clone()))
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
        Self {
            schema: Some(schema),
            ..Self::default()
        }
    }

    /// Adds the results of a transaction that came after this one.
    pub(super) fn append(&mut self, later: Self) {
        self.results.extend(later.results);
        self.inserted.extend(later.inserted);
        self.schema = later.schema.or_else(|| self.schema.take());
    }
}

/// What became of a transaction that was split into parts.
#[derive(Debug)]
#[must_use = "some parts may not be committed"]
pub struct PartsOutcome {
    /// How many parts were committed; then came the one that was not.
    pub parts: usize,
    /// Their results.
    pub committed: Committed,
    /// Why not all were: the parts that follow were not sent.
    pub stopped: Option<CommitError>,
}

/// Why the server refused a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    /// The operation at fault; none when the changes together break a constraint, or when the request was refused
    /// as a whole.
    pub operation: Option<Box<FailedOperation>>,
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
    /// The row that it is about; none when the transaction makes it.
    pub row: Option<Uuid>,
    /// The columns that it is about: those that the server names, or all that are in the operation.
    pub columns: Vec<Arc<str>>,
}

impl OpError {
    /// Whether a row was not what the transaction [expected](crate::txn::TxnBuilder::expect): compute it anew from
    /// the present state.
    pub fn is_conflict(&self) -> bool {
        self.error.tag == "timed out"
    }

    /// Whether the client did not own a lock that the transaction [asserts](crate::txn::TxnBuilder::assert_lock).
    pub fn is_not_owner(&self) -> bool {
        self.error.tag == "not owner"
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server refused the transaction")?;
        if let Some(FailedOperation {
            index,
            operation,
            table,
            row,
            columns,
        }) = self.operation.as_deref()
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

/// Why a transaction was not made and never will be: it did not reach the server, or the client's
/// [`Guard`](super::Guard) has shown later that it was not executed. It can be repeated.
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
