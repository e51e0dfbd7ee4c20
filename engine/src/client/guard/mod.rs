//! Proof of what became of transactions that were not answered, on clusters too: see `docs/design/client.md`.
//!
//! The client keeps a row of its own in the database. It holds an epoch, which each connection replaces by a new one before
//! it sends transactions, and the marks of transactions that were made. Each transaction is preceded by a `wait` for the
//! connection's epoch and for the absence of its own mark, and followed by a mutation that leaves its mark.

mod notation;
#[cfg(test)]
mod takeovers;
mod taking;
#[cfg(test)]
mod tests;

pub(super) use taking::{Taken, Taking};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::outgoing::Outgoing;

use notation::{clause, is_row, map, set};

/// The key of the guard's name.
const NAME: &str = "patchbay-guard";

/// The key of the epoch.
const EPOCH: &str = "patchbay-epoch";

/// The key of the epoch in which marks of other clients were removed last.
const CLEARED: &str = "patchbay-cleared";

/// How long the marks that other clients have left stay in the row at least. A client that comes back later is not told
/// what became of its transactions.
const FOREIGN_MARKS_KEPT: Duration = Duration::from_secs(600);

/// If there are more of them, they are removed at once: processes that start again and again must not pile them up.
const FOREIGN_MARKS: usize = 2048;

/// A row of the client's own, with which it finds out what became of transactions that were not answered.
///
/// The row is found by its name, and made where it is missing. It needs a column that is a map from strings to strings, in
/// a table whose rows stay though nothing refers to them. Choose one that others seldom look at: every transaction changes
/// the row. In `OVN_Northbound`, `DNS` is such a table: `ovn-northd` ignores what no logical switch refers to.
///
/// Of all clients of one name, the one that connected last can make transactions; what its predecessors had under way is
/// not made any more. A process that takes over from another, or from itself before a restart, should use the same name.
/// If the other one comes back, it is told what became of its last transactions; but what has not been made within ten
/// minutes of another's connection is then [`Unknown`](super::CommitOutcome::Unknown), because what it had left in the
/// row may have been removed.
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
    /// The guard of this name, in this table and column.
    pub fn new(
        table: impl Into<String>,
        column: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            table: table.into(),
            column: column.into(),
            name: name.into(),
        }
    }
}

/// The guard row in the hands of one connection.
#[derive(Debug)]
pub(super) struct HeldGuard {
    guard: Guard,
    /// How a `transact` request for the database begins.
    head: Vec<u8>,
    row: Uuid,
    /// What marks of this client hold.
    client: Arc<str>,
    hold: Arc<Hold>,
    /// The transactions of former connections of this client that were made.
    made: BTreeSet<String>,
    /// Marks of this client of which everything is known that there is to know.
    settled: Vec<String>,
    /// Marks that other clients have left, who may come back and look for them.
    foreign: Vec<String>,
    /// When those are removed.
    foreign_until: Instant,
}

/// The time in which a connection holds the row.
#[derive(Debug)]
struct Hold {
    epoch: String,
    /// The epoch in which marks of other clients had been removed last when this one began.
    cleared: Option<String>,
}

/// What a transaction leaves in the row when it is made.
#[derive(Debug)]
pub(super) struct Mark {
    key: String,
    /// When the transaction was sent.
    hold: Arc<Hold>,
}

/// What became of a transaction that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was made.
    Made,
    /// It was not made, and never will be.
    NotMade,
    /// It will not be made any more, but its mark may have been there and be removed.
    Unknown,
}

impl HeldGuard {
    /// What became of a transaction of a former connection.
    pub(super) fn fate(&self, mark: &Mark) -> Fate {
        let now = self.hold.cleared.as_deref();
        if self.made.contains(&mark.key) {
            Fate::Made
        } else if now == mark.hold.cleared.as_deref() || now == Some(&*mark.hold.epoch) {
            // Nobody but this client has removed marks of others, if anybody has.
            Fate::NotMade
        } else {
            Fate::Unknown
        }
    }

    /// Everything is known of the transaction of this mark.
    pub(super) fn settle(&mut self, mark: Mark) {
        self.settled.push(mark.key);
    }

    /// Guards a request, and returns its mark.
    pub(super) fn guard(&mut self, request: &mut Outgoing) -> Mark {
        let mark = Mark {
            key: Uuid::new_v4().to_string(),
            hold: self.hold.clone(),
        };
        let (column, epoch) = (self.guard.column.as_str(), self.hold.epoch.as_str());
        let left = || map([(mark.key.as_str(), &*self.client)]);
        let wait = self.guard.wait(
            "!=",
            vec![
                is_row(self.row),
                clause(column, "includes", map([(EPOCH, epoch)])),
                clause(column, "excludes", left()),
            ],
        );
        let mut gone = std::mem::take(&mut self.settled);
        let mut mutations = vec![clause(column, "insert", left())];
        let clears = !self.foreign.is_empty()
            && (self.foreign.len() > FOREIGN_MARKS || Instant::now() >= self.foreign_until);
        if clears {
            gone.append(&mut self.foreign);
            gone.push(CLEARED.to_owned());
        }
        if !gone.is_empty() {
            let gone = set(gone.iter().map(String::as_str));
            mutations.push(clause(column, "delete", gone));
        }
        if clears {
            mutations.push(clause(column, "insert", map([(CLEARED, epoch)])));
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
