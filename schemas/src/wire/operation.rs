//! The operations of `transact` (RFC 7047 section 5.2).

mod decode;
mod insert;
mod insert_row;
mod operations;
mod row;
mod templates;
mod transaction;

pub use insert_row::InsertRow;
pub use operations::Operations;
pub use templates::RowTemplates;
pub(crate) use transaction::OperationSequence;
pub use transaction::{decode_transaction, decode_with_templates};

use uuid::Uuid;

use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::schema::{ColumnId, TableId};

use super::condition::Condition;
use super::mutation::Mutation;

/// Values of some columns of a row.
pub type ColumnValues = Vec<(ColumnId, Datum)>;

/// Operation of a transaction. Names of tables and columns, and named-uuids, are resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Inserts a row.
    Insert {
        /// Table of the row.
        table: TableId,
        /// UUID of the row.
        uuid: Uuid,
        /// Text of the member `uuid`, with which the client requests a UUID. `None`: the server
        /// chooses it.
        given: Option<String>,
        /// Values of the row.
        row: InsertRow,
    },
    /// Reads rows.
    Select {
        /// Table of the rows.
        table: TableId,
        /// Condition on the rows.
        condition: Condition,
        /// Columns of the result.
        columns: Vec<ColumnId>,
        /// Columns by which the result is sorted, ascending. An extension of ovsdb-server.
        sort: Vec<ColumnId>,
    },
    /// Overwrites columns.
    Update {
        /// Table of the rows.
        table: TableId,
        /// Condition on the rows.
        condition: Condition,
        /// New values.
        row: ColumnValues,
    },
    /// Changes columns relative to their values.
    Mutate {
        /// Table of the rows.
        table: TableId,
        /// Condition on the rows.
        condition: Condition,
        /// Mutations in order.
        mutations: Vec<Mutation>,
    },
    /// Deletes rows.
    Delete {
        /// Table of the rows.
        table: TableId,
        /// Condition on the rows.
        condition: Condition,
    },
    /// Waits until rows have, or do not have, certain values.
    Wait {
        /// Table of the rows.
        table: TableId,
        /// Timeout in milliseconds. `None`: no timeout.
        timeout: Option<u64>,
        /// Condition on the rows.
        condition: Condition,
        /// Columns that are compared.
        columns: Vec<ColumnId>,
        /// `true` for `==`: waits until the rows equal `rows`. False for `!=`: until they differ.
        equal: bool,
        /// Rows to compare with. Omitted columns have their defaults.
        rows: Vec<ColumnValues>,
    },
    /// Requests that the transaction is durable.
    Commit {
        /// `true` if the transaction must be on disk before the reply.
        durable: bool,
    },
    /// Aborts the transaction.
    Abort,
    /// Comment for the database log.
    Comment(String),
    /// Aborts the transaction unless the client owns a lock.
    Assert {
        /// Name of the lock.
        lock: String,
    },
}

impl Operation {
    /// Returns the name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Commit { .. } => "commit",
            Self::Abort => "abort",
            Self::Comment(_) => "comment",
            Self::Assert { .. } => "assert",
        }
    }

    /// Returns the table whose rows the operation reads or changes. `None`: the operation has no
    /// table.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(*table),
            Self::Commit { .. } | Self::Abort | Self::Comment(_) | Self::Assert { .. } => None,
        }
    }

    /// `true` if the operation is allowed on a read-only database. `commit` is not.
    pub fn is_read_only(&self) -> bool {
        matches!(
            self,
            Self::Select { .. }
                | Self::Wait { .. }
                | Self::Abort
                | Self::Comment(_)
                | Self::Assert { .. }
        )
    }
}

/// Operation that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationFailure {
    /// Table, requested UUID and its text, if the operation is an `insert` that requests a UUID.
    ///
    /// The error of a UUID that is in use precedes `error`.
    pub given: Option<(TableId, Uuid, String)>,
    /// Error of the operation.
    pub error: OvsdbError,
}

/// Operations of a request, up to the first that cannot be decoded.
///
/// The operations before an invalid one are executed, and the reply contains their results.
#[derive(Clone, Debug, Default)]
pub struct DecodedTransaction {
    /// The operations before `failure`, or all operations.
    pub operations: Operations,
    /// The first operation that cannot be decoded.
    pub failure: Option<OperationFailure>,
    /// Number of operations in the request.
    pub total: usize,
}

impl DecodedTransaction {
    /// `true` if an operation may wait for changes by other transactions.
    ///
    /// A `wait` with a timeout of 0 fails instead. Clients based on the C IDL verify with it what
    /// they have read, in most of their transactions.
    pub fn may_wait(&self) -> bool {
        let may_wait = |operation: &Operation| match operation {
            Operation::Wait { timeout, .. } => *timeout != Some(0),
            _ => false,
        };
        self.operations.iter().any(may_wait)
    }
}
