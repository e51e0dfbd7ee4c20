//! Conditions and results of the execution of a transaction.

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableId};
use uuid::Uuid;

use super::change::ChangeSet;
use super::write_attempt::WriteRules;

/// Release of ovsdb-server whose words are used where releases word an error differently. The
/// default is the newest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerRelease {
    /// Open vSwitch 3.1, and older.
    V3_1,
    /// Open vSwitch 3.5.
    V3_5,
    /// Open vSwitch 4.0, and newer.
    #[default]
    V4_0,
}

/// Rights of the client that sent a transaction, and the age of its request.
pub struct Access<'a> {
    /// Reason why writes are refused, the text that follows `insert operation ` in the error.
    /// `None`: writes are allowed.
    pub read_only: Option<&'a str>,
    /// Rules that limit the writes of the client. `None`: there are none.
    pub rules: Option<&'a dyn WriteRules>,
    /// Returns `true` if the client owns the lock with this name (RFC 7047 §4.1.8).
    pub owns_lock: &'a dyn Fn(&str) -> bool,
    /// Milliseconds since the request arrived.
    pub elapsed_ms: u64,
    /// Release whose words errors have.
    pub release: ServerRelease,
    /// Bytes that the results of all `select` operations of the transaction may have together. A row
    /// counts with the least length of its text. One that the transaction has changed also counts
    /// with its values, because the result may be their last holder.
    pub selected_bytes: usize,
}

impl Access<'_> {
    /// Rights of a client that may write and owns no lock, for a request that has just arrived.
    pub fn unrestricted() -> Self {
        Self {
            read_only: None,
            rules: None,
            owns_lock: &|_| false,
            elapsed_ms: 0,
            release: ServerRelease::default(),
            selected_bytes: usize::MAX,
        }
    }
}

/// Outcome of [`Database::execute`](super::Database::execute).
#[derive(Debug)]
pub enum Execution {
    /// All operations succeeded, and the changes are published.
    Committed {
        /// One result for each operation.
        results: Vec<OperationResult>,
        /// Changed rows; empty if the transaction changed nothing.
        changes: ChangeSet,
    },
    /// An operation or the commit failed. Nothing has changed.
    Failed {
        /// Results of the operations before the failure. If the commit failed, there are as many
        /// results as operations.
        results: Vec<OperationResult>,
        /// Error of the operation or the commit.
        error: OvsdbError,
    },
    /// A `wait` operation is not satisfied. Nothing has changed. Execute the transaction again
    /// after the next commit and at the deadline.
    Waiting {
        /// Milliseconds after the arrival of the request at which the first `wait` times out.
        /// `None`: no `wait` times out.
        deadline_ms: Option<u64>,
    },
}

/// Result of one operation (RFC 7047 §5.2).
#[derive(Clone, Debug)]
pub enum OperationResult {
    /// Result of `insert`: UUID of the new row.
    Inserted(Uuid),
    /// Result of `update`, `mutate` and `delete`: number of matching rows.
    Count(usize),
    /// Result of `select`. It is boxed because a transaction has one result for each of its
    /// operations, of which few are `select`.
    Rows(Box<SelectedRows>),
    /// Empty result of `wait`, `commit`, `comment` and `assert`.
    Empty,
}

/// Result of `select`.
#[derive(Clone, Debug)]
pub struct SelectedRows {
    /// Table of the rows.
    pub table: TableId,
    /// Requested columns.
    pub columns: Vec<ColumnId>,
    /// Matching rows with all their columns.
    pub rows: Vec<Arc<Row>>,
}
