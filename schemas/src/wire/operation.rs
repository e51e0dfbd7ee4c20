//! The operations of `transact` (RFC 7047 §5.2).

mod arriving;
mod decode;
mod insert;
mod insert_row;
mod row;
mod transaction;

pub use arriving::{ArrivedOperations, ArrivingTransaction, DecodedOperations, LastOperations};
pub use insert_row::InsertRow;
pub use transaction::decode_transaction;

use uuid::Uuid;

use crate::datum::Datum;
use crate::error::OvsdbError;
use crate::schema::{ColumnId, TableId};

use super::condition::Condition;
use super::mutation::Mutation;

/// Values for some columns of a row.
pub type ColumnValues = Vec<(ColumnId, Datum)>;

/// One operation, all names resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a row.
    Insert {
        /// To this table.
        table: TableId,
        /// With this UUID.
        uuid: Uuid,
        /// The `uuid` member as it was sent: the caller chose the UUID, and it may be taken.
        given: Option<String>,
        /// Its values.
        row: InsertRow,
    },
    /// Reads rows.
    Select {
        /// From this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// Which columns.
        columns: Vec<ColumnId>,
        /// By which columns to sort, ascending.
        sort: Vec<ColumnId>,
    },
    /// Overwrites columns.
    Update {
        /// In this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// The new values.
        row: ColumnValues,
    },
    /// Changes columns relative to what they hold.
    Mutate {
        /// In this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
        /// The changes, in order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// From this table.
        table: TableId,
        /// Which rows.
        condition: Condition,
    },
    /// Waits until rows look as said.
    Wait {
        /// In this table.
        table: TableId,
        /// Milliseconds; none waits for ever.
        timeout: Option<u64>,
        /// Which rows.
        condition: Condition,
        /// Which columns to compare.
        columns: Vec<ColumnId>,
        /// Until the rows are (`==`), or are not (`!=`), the expected ones.
        equal: bool,
        /// The expected rows; what they do not say is the default.
        rows: Vec<ColumnValues>,
    },
    /// Asks for durability; in memory there is nothing to do.
    Commit {
        /// Whether the transaction must be on disk before the reply.
        durable: bool,
    },
    /// Fails on purpose.
    Abort,
    /// A text for the log.
    Comment(String),
    /// Fails unless the client owns a lock.
    Assert {
        /// Name of the lock.
        lock: String,
    },
}

impl Operation {
    /// The name on the wire.
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

    /// The table whose rows it reads or changes.
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

    /// Whether it is allowed on a read-only database. (`commit` is not.)
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

/// The operation at which decoding stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// An `insert` that gave this UUID (as sent) for this table: whether it is taken matters before `error`.
    pub given: Option<(TableId, Uuid, String)>,
    /// What is wrong with the operation.
    pub error: OvsdbError,
}

/// The operations of a request, up to the first that could not be decoded.
///
/// A broken operation does not keep those before it from running: their results are in the reply.
#[derive(Clone, Debug, Default)]
pub struct DecodedTransaction {
    /// The operations before `failure`, or all.
    pub operations: Vec<Operation>,
    /// The operation after them, if it could not be decoded.
    pub failure: Option<Failure>,
    /// How many operations the request holds.
    pub total: usize,
}

impl DecodedTransaction {
    /// Whether it may have to wait for others.
    pub fn may_block(&self) -> bool {
        let wait = |operation: &Operation| matches!(operation, Operation::Wait { .. });
        self.operations.iter().any(wait)
    }
}
