//! Row changes between the snapshots of a database.
//!
//! Each state of a database is a [`HistoryState`], linked to its successor. The links point
//! forward, so an early snapshot keeps the changes since then. Without an early snapshot no changes
//! are kept.

use std::sync::{Arc, OnceLock};

use super::change::RowChange;

/// Number of row changes that are kept even if the database has few rows.
const MIN_KEPT_CHANGES: usize = 1024;

/// State of a database, identified by its address.
#[derive(Debug, Default)]
pub(super) struct HistoryState {
    next: OnceLock<Transition>,
}

/// Changes that lead from one state to the next.
#[derive(Debug)]
struct Transition {
    changes: Box<[RowChange]>,
    to: Arc<HistoryState>,
}

impl Drop for HistoryState {
    /// Releases a long chain in a loop, because recursion would exhaust the stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(transition) = next {
            next = Arc::into_inner(transition.to).and_then(|mut state| state.next.take());
        }
    }
}

/// Place of a snapshot in the chain of states of its database.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    state: Arc<HistoryState>,
    /// Number of row changes in the chain that leads to `state`.
    kept_changes: usize,
}

impl History {
    /// Appends a commit. `rows` is the number of rows of the database after it.
    ///
    /// The chain breaks if it has more changes than twice `rows`, because reading all rows is
    /// cheaper.
    pub(super) fn record(&mut self, changes: &[RowChange], rows: usize) {
        // Clones of the present state are made only through this handle, so no other snapshot has
        // it.
        if Arc::strong_count(&self.state) == 1 {
            self.kept_changes = 0;
            return;
        }
        let to = Arc::new(HistoryState::default());
        self.kept_changes += changes.len();
        if self.kept_changes <= MIN_KEPT_CHANGES.max(2 * rows) {
            let transition = Transition { changes: changes.into(), to: to.clone() };
            // Of two writers that start from one state, only the first one is linked.
            drop(self.state.next.set(transition));
        } else {
            self.kept_changes = 0;
        }
        self.state = to;
    }

    /// Row changes since an earlier state in commit order; `None` if no chain leads from it to
    /// here.
    pub(super) fn since(&self, earlier: &Self) -> Option<Vec<RowChange>> {
        let mut changes = Vec::new();
        let mut state = &earlier.state;
        while !Arc::ptr_eq(state, &self.state) {
            let transition = state.next.get()?;
            changes.extend_from_slice(&transition.changes);
            state = &transition.to;
        }
        Some(changes)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb::{self, AddressSet};

    use crate::db::{Database, Snapshot};
    use crate::txn::TxnBuilder;

    fn add(database: &mut Database, name: &str) {
        let mut txn = TxnBuilder::new(&database.snapshot());
        let row = AddressSet { name: name.to_owned(), ..AddressSet::default() };
        txn.insert(&row).unwrap();
        database.transact(txn.finish().operations()).unwrap();
    }

    fn delete_all(database: &mut Database) {
        let snapshot = database.snapshot();
        let mut txn = TxnBuilder::new(&snapshot);
        for row in snapshot.typed::<AddressSet>().iter() {
            txn.delete(row.unwrap().0).unwrap();
        }
        database.transact(txn.finish().operations()).unwrap();
    }

    fn count_changes(from: &Snapshot, to: &Snapshot) -> Option<usize> {
        to.changes_since(from).map(|changes| changes.len())
    }

    #[test]
    fn changes_since_any_snapshot_that_still_exists_are_known() {
        let mut database = Database::new(nb::schema());
        add(&mut database, "before");
        let first = database.snapshot();
        assert_eq!(count_changes(&first, &first), Some(0));
        add(&mut database, "a");
        let second = database.snapshot();
        add(&mut database, "b");
        add(&mut database, "c");
        let last = database.snapshot();
        assert_eq!(count_changes(&first, &last), Some(3));
        assert_eq!(count_changes(&second, &last), Some(2));
        assert_eq!(count_changes(&last, &first), None);
        let other = Database::new(nb::schema()).snapshot();
        assert_eq!(count_changes(&other, &last), None);
        let changes = last.changes_since(&second).unwrap();
        assert!(changes.iter().all(|change| change.old.is_none()));
    }

    #[test]
    fn a_chain_that_is_too_long_breaks_and_a_new_one_begins() {
        let mut database = Database::new(nb::schema());
        let first = database.snapshot();
        let mut snapshot = first.clone();
        let mut lost = 0;
        for _ in 0..1500 {
            // The database always has few rows, so that few changes are kept.
            add(&mut database, "short-lived");
            delete_all(&mut database);
            let next = database.snapshot();
            // A reader that keeps up only rarely has to read all rows again.
            lost += usize::from(count_changes(&snapshot, &next).is_none());
            snapshot = next;
        }
        assert_eq!(count_changes(&first, &snapshot), None);
        assert!(lost <= 2, "{lost}");
    }

    #[test]
    fn a_long_chain_is_released_without_recursion() {
        let mut history = super::History::default();
        let first = history.clone();
        for _ in 0..200_000 {
            history.record(&[], 0);
        }
        assert!(history.since(&first).is_some());
        drop(history);
        drop(first);
    }
}
