//! Guard row: shows whether a transaction without a reply was executed, in clusters too. See
//! `docs/design/client.md`.
//!
//! The guard row holds an epoch, which each connection replaces before it sends transactions, and
//! marks of executed transactions. Each transaction begins with a `wait` for the connection's epoch
//! and the absence of its own mark, and ends with a mutation that adds the mark.

mod acquisition;
mod json;
#[cfg(test)]
mod takeovers;
#[cfg(test)]
mod tests;

pub(super) use acquisition::{AcquisitionProgress, GuardAcquisition};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::outgoing::Outgoing;

use json::{clause, is_row, map, set};

/// Key of the guard's name.
const NAME_KEY: &str = "patchbay-guard";

/// Key of the epoch.
const EPOCH_KEY: &str = "patchbay-epoch";

/// Key of the epoch in which marks of other clients were last removed.
const CLEARED_KEY: &str = "patchbay-cleared";

/// Minimum time for which marks of other clients stay in the row. A client that reconnects later
/// gets [`ExecutionStatus::Unknown`]. Ten minutes cover a restart or a fail-over of its process.
const FOREIGN_MARK_RETENTION: Duration = Duration::from_secs(600);

/// Number of foreign marks above which they are removed at once, so that processes that restart in
/// a loop do not accumulate them. About 160 KB of row contents.
const MAX_FOREIGN_MARKS: usize = 2048;

/// A row of the database with which a client resolves transactions whose reply was lost.
///
/// The row is identified by the guard's name and inserted if it is missing. It needs a column that
/// is a map from strings to strings, in a root table. Choose a table that few clients monitor,
/// because every transaction changes the row. In `OVN_Northbound`, `DNS` is such a table:
/// `ovn-northd` ignores `DNS` rows without a logical switch.
///
/// Only the client of a name that connected last can commit transactions; outstanding transactions
/// of its predecessors are never executed. A process that takes over from another, or from itself
/// after a restart, should use the same name. A predecessor that reconnects learns the outcome of
/// its last transactions. After ten minutes a transaction that was not executed may become
/// [`Unknown`](super::CommitOutcome::Unknown), because its mark, had there been one, may have been
/// removed.
///
/// ```
/// use patchbay_engine::client::{Config, Guard};
///
/// let mut config = Config::new("unix:/run/ovn/ovnnb_db.sock".parse()?, "OVN_Northbound");
/// config.guard = Some(Guard::new("DNS", "external_ids", "my-controller"));
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    table: String,
    column: String,
    name: String,
}

impl Guard {
    /// A guard with this name in a table's map column.
    pub fn new(
        table: impl Into<String>,
        column: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { table: table.into(), column: column.into(), name: name.into() }
    }
}

/// The guard row, held by one connection.
#[derive(Debug)]
pub(super) struct HeldGuard {
    guard: Guard,
    /// Beginning of a `transact` request, up to the database name.
    head: Vec<u8>,
    row: Uuid,
    /// Value of this client's marks.
    client: Arc<str>,
    epoch: Arc<GuardEpoch>,
    /// Marks of this client's earlier transactions, which were executed.
    executed: BTreeSet<String>,
    /// Marks of this client that the next transaction removes, because their outcome was delivered.
    obsolete_marks: Vec<String>,
    /// Marks of other clients, which may reconnect and look for them.
    foreign_marks: Vec<String>,
    /// Time from which foreign marks may be removed.
    foreign_marks_expiry: Instant,
}

/// The epoch in which a connection holds the row.
#[derive(Debug)]
struct GuardEpoch {
    id: String,
    /// Value of [`CLEARED_KEY`] when this epoch began.
    cleared: Option<String>,
}

/// Mark that a transaction adds to the row.
#[derive(Debug)]
pub(super) struct TransactionMark {
    key: String,
    /// Epoch in which the transaction was sent.
    epoch: Arc<GuardEpoch>,
}

/// Status of a transaction without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutionStatus {
    /// Executed.
    Executed,
    /// Not executed, and never will be.
    NotExecuted,
    /// Will not be executed any more. It may have been, because its mark may have been removed.
    Unknown,
}

impl HeldGuard {
    /// Returns the status of a transaction of an earlier connection.
    pub(super) fn execution_status(&self, mark: &TransactionMark) -> ExecutionStatus {
        let now = self.epoch.cleared.as_deref();
        if self.executed.contains(&mark.key) {
            ExecutionStatus::Executed
        } else if now == mark.epoch.cleared.as_deref() || now == Some(&*mark.epoch.id) {
            // No other client has removed foreign marks since.
            ExecutionStatus::NotExecuted
        } else {
            ExecutionStatus::Unknown
        }
    }

    /// Schedules the removal of a mark whose transaction is resolved.
    pub(super) fn release_mark(&mut self, mark: TransactionMark) {
        self.obsolete_marks.push(mark.key);
    }

    /// Adds the guard operations to a request, and returns its mark.
    pub(super) fn guard_request(&mut self, request: &mut Outgoing) -> TransactionMark {
        let mark = TransactionMark { key: Uuid::new_v4().to_string(), epoch: self.epoch.clone() };
        let (column, epoch) = (self.guard.column.as_str(), self.epoch.id.as_str());
        let own_mark = || map([(mark.key.as_str(), &*self.client)]);
        let wait = self.guard.wait(
            "!=",
            vec![
                is_row(self.row),
                clause(column, "includes", map([(EPOCH_KEY, epoch)])),
                clause(column, "excludes", own_mark()),
            ],
        );
        let mut gone = std::mem::take(&mut self.obsolete_marks);
        let mut mutations = vec![clause(column, "insert", own_mark())];
        let clears_foreign_marks = !self.foreign_marks.is_empty()
            && (self.foreign_marks.len() > MAX_FOREIGN_MARKS
                || Instant::now() >= self.foreign_marks_expiry);
        if clears_foreign_marks {
            gone.append(&mut self.foreign_marks);
            gone.push(CLEARED_KEY.to_owned());
        }
        if !gone.is_empty() {
            let gone = set(gone.iter().map(String::as_str));
            mutations.push(clause(column, "delete", gone));
        }
        if clears_foreign_marks {
            mutations.push(clause(column, "insert", map([(CLEARED_KEY, epoch)])));
        }
        let leave_mark = self.guard.mutate(self.row, mutations);
        let mut before = b",".to_vec();
        wait.write(&mut before);
        let at = self.head.len();
        request.text.splice(at..at, before);
        let end = request.end();
        end.pop();
        end.push(b',');
        leave_mark.write(end);
        end.push(b']');
        mark
    }
}
