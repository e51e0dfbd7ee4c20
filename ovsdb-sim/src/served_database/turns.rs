//! Turns of the sessions: one request at a time uses a database, in order of arrival. Those that
//! wait block no thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use patchbay_engine::db::Table;
use patchbay_schemas::schema::{DatabaseSchema, RefType};
use patchbay_schemas::wire::{Condition, DecodedTransaction, Mutator, Operation};
use tokio::sync::{Mutex, MutexGuard as Turn};

use crate::long_work::run_long;

use super::{DatabaseState, ServedDatabase};

/// Number of rows from which work on all rows is long: about two milliseconds.
const LONG_ROWS: usize = 2_000;
/// Number of comparisons of rows with clauses from which they are long work.
const LONG_COMPARISONS: usize = 100_000;
/// Number of operations, or of elements of their values, from which they are long work.
const LONG_OPERATIONS: usize = 500;
/// Product of operations and groups of monitors from which their updates are long work.
const LONG_UPDATES: usize = 2_000;
/// Time with the database after which a request is logged.
const LONG_TURN: Duration = Duration::from_secs(1);

/// Turns of a database, with the longest wait for one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    turn: Mutex<()>,
    /// Turn of long transactions that only read, which work beside the others.
    pub(super) reading: Mutex<()>,
    longest_wait_us: AtomicU64,
}

/// Turn of a session.
pub(crate) struct DatabaseTurn<'a> {
    database: &'a ServedDatabase,
    is_long: bool,
    _turn: Turn<'a, ()>,
}

impl DatabaseTurn<'_> {
    /// Does the work, and ends the turn.
    pub(crate) fn work<T>(self, work: impl FnOnce() -> T) -> T {
        if !self.is_long {
            return work();
        }
        let begin = Instant::now();
        let done = run_long(work);
        let elapsed = begin.elapsed();
        if elapsed >= LONG_TURN {
            let database = self.database.name();
            tracing::warn!(database, ?elapsed, "a request kept the database for long");
        }
        done
    }
}

impl ServedDatabase {
    /// Waits for the turn to use the database.
    pub(crate) async fn turn(&self) -> Turn<'_, ()> {
        if let Ok(turn) = self.turns.turn.try_lock() {
            return turn;
        }
        let begin = Instant::now();
        let turn = self.turns.turn.lock().await;
        let wait_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let longest = &self.turns.longest_wait_us;
        longest.fetch_max(wait_us, Ordering::Relaxed);
        turn
    }

    /// Longest time that a request has waited for its turn.
    #[cfg(feature = "control-api")]
    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.turns.longest_wait_us.load(Ordering::Relaxed))
    }

    /// Waits for the turn. The work is long if `is_long` returns `true`, or if the server's owner
    /// uses the database.
    pub(crate) async fn begin_turn(
        &self,
        is_long: impl FnOnce(&DatabaseState) -> bool,
    ) -> DatabaseTurn<'_> {
        let turn = self.turn().await;
        let is_short = self.try_state().is_some_and(|state| !is_long(&state));
        DatabaseTurn { database: self, is_long: !is_short, _turn: turn }
    }

    /// Does work in a [turn](Self::begin_turn).
    pub(crate) async fn in_turn<T>(
        &self,
        is_long: impl FnOnce(&DatabaseState) -> bool,
        work: impl FnOnce() -> T,
    ) -> T {
        self.begin_turn(is_long).await.work(work)
    }

    /// Locks the state unless another thread has locked it.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, DatabaseState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl DatabaseState {
    /// `true` if this is the schema of the database.
    pub(crate) fn has_schema(&self, schema: &Arc<DatabaseSchema>) -> bool {
        Arc::ptr_eq(schema, self.database.schema())
    }

    /// `true` if work on all rows is long.
    pub(crate) fn is_large(&self) -> bool {
        self.database.snapshot().row_count() > LONG_ROWS
    }

    /// `true` if a transaction may take long: it reads or changes many rows, or its commit may
    /// remove many, or many monitors or waiting transactions may depend on it.
    pub(crate) fn is_long(&self, transaction: &DecodedTransaction) -> bool {
        let operations = &transaction.operations;
        if operations.len() > LONG_OPERATIONS
            || operations.len() * self.monitors.group_count() > LONG_UPDATES
            || self.waiting.count_all() > LONG_OPERATIONS
        {
            return true;
        }
        let snapshot = self.database.snapshot();
        let schema = snapshot.schema();
        let is_large = snapshot.row_count() > LONG_ROWS;
        // Whether the removal of a reference removes rows shows at the commit.
        let holds_references = |table, column| {
            let ty = schema.table(table).column_type(column);
            let bases = [Some(&ty.key), ty.value.as_ref()].into_iter().flatten();
            let mut references = bases.filter_map(|base| base.reference());
            references.any(|reference| reference.ref_type == RefType::Strong)
        };
        operations.iter().any(|operation| {
            let scan = |condition: &Condition| {
                let table = operation.table().map(|table| snapshot.table(table));
                let scanned = table.filter(|table| !table.is_lookup(condition));
                let rows = scanned.map_or(1, Table::len);
                rows > LONG_ROWS || rows * (1 + condition.clauses().len()) > LONG_COMPARISONS
            };
            match operation {
                Operation::Select { condition, .. } => scan(condition),
                Operation::Wait { condition, rows, .. } => {
                    rows.len() > LONG_OPERATIONS || scan(condition)
                }
                Operation::Delete { condition, .. } => is_large || scan(condition),
                Operation::Update { table, condition, row } => {
                    scan(condition)
                        || row.iter().any(|(column, value)| {
                            value.len() > LONG_OPERATIONS
                                || is_large
                                    && !column.is_implicit()
                                    && holds_references(*table, *column)
                        })
                }
                Operation::Mutate { table, condition, mutations } => {
                    scan(condition)
                        || mutations.len() > LONG_OPERATIONS
                        || mutations.iter().any(|mutation| {
                            mutation.argument.len() > LONG_OPERATIONS
                                || is_large
                                    && mutation.mutator == Mutator::Delete
                                    && holds_references(*table, mutation.column)
                        })
                }
                Operation::Insert { .. }
                | Operation::Commit { .. }
                | Operation::Comment(_)
                | Operation::Abort
                | Operation::Assert { .. } => false,
            }
        })
    }
}
