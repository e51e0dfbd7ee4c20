//! How one snapshot became another.
//!
//! Each state of a database is a [`Moment`], and each moment leads to the one after it. The way is kept from the front:
//! whoever holds an early snapshot keeps the changes since then, and when nobody does, nothing is kept.

use std::sync::{Arc, OnceLock};

use super::change::RowChange;

/// So many row changes are worth keeping even for a database with few rows.
const AT_LEAST: usize = 1024;

/// A state of a database.
#[derive(Debug, Default)]
pub(super) struct Moment {
    next: OnceLock<Step>,
}

/// The way to the next state.
#[derive(Debug)]
struct Step {
    changes: Box<[RowChange]>,
    to: Arc<Moment>,
}

impl Drop for Moment {
    /// Releases a long way step by step: the call stack would not hold it.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(step) = next {
            next = Arc::into_inner(step.to).and_then(|mut moment| moment.next.take());
        }
    }
}

/// Where a snapshot is in the life of its database.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    now: Arc<Moment>,
    /// How many row changes have been kept since somebody began to follow.
    kept: usize,
}

impl History {
    /// Takes the next step. `rows` says how many rows there are then: a way that is longer than the database twice is
    /// not worth keeping, reading all rows is shorter.
    pub(super) fn step(&mut self, changes: &[RowChange], rows: usize) {
        // Nobody else can come to hold the present state: only through this handle.
        if Arc::strong_count(&self.now) == 1 {
            self.kept = 0;
            return;
        }
        let to = Arc::new(Moment::default());
        self.kept += changes.len();
        if self.kept <= AT_LEAST.max(2 * rows) {
            let step = Step {
                changes: changes.into(),
                to: to.clone(),
            };
            // Two writers that start from one state are two databases; the way leads to the first.
            drop(self.now.next.set(step));
        } else {
            self.kept = 0;
        }
        self.now = to;
    }

    /// The changes that lead here, in their order; none when the way is not known.
    pub(super) fn since(&self, earlier: &Self) -> Option<Vec<RowChange>> {
        let mut changes = Vec::new();
        let mut at = &earlier.now;
        while !Arc::ptr_eq(at, &self.now) {
            let step = at.next.get()?;
            changes.extend_from_slice(&step.changes);
            at = &step.to;
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
        let row = AddressSet {
            name: name.to_owned(),
            ..AddressSet::default()
        };
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

    fn changed(from: &Snapshot, to: &Snapshot) -> Option<usize> {
        to.changes_since(from).map(|changes| changes.len())
    }

    #[test]
    fn the_way_from_any_snapshot_that_is_held_is_known() {
        let mut database = Database::new(nb::schema());
        add(&mut database, "before");
        let first = database.snapshot();
        assert_eq!(changed(&first, &first), Some(0));
        add(&mut database, "a");
        let second = database.snapshot();
        add(&mut database, "b");
        add(&mut database, "c");
        let last = database.snapshot();
        assert_eq!(changed(&first, &last), Some(3));
        assert_eq!(changed(&second, &last), Some(2));
        assert_eq!(changed(&last, &first), None);
        let other = Database::new(nb::schema()).snapshot();
        assert_eq!(changed(&other, &last), None);
        let way = last.changes_since(&second).unwrap();
        assert!(way.iter().all(|change| change.old.is_none()));
    }

    #[test]
    fn a_way_that_is_too_long_is_forgotten_and_a_new_one_begins() {
        let mut database = Database::new(nb::schema());
        let first = database.snapshot();
        let mut snapshot = first.clone();
        let mut lost = 0;
        for _ in 0..1500 {
            // There are few rows all the time, so that few changes are kept.
            add(&mut database, "short-lived");
            delete_all(&mut database);
            let next = database.snapshot();
            // One who keeps up has to start anew now and then at most.
            lost += usize::from(changed(&snapshot, &next).is_none());
            snapshot = next;
        }
        assert_eq!(changed(&first, &snapshot), None);
        assert!(lost <= 2, "{lost}");
    }

    #[test]
    fn a_long_way_is_released_without_a_deep_stack() {
        let mut history = super::History::default();
        let first = history.clone();
        for _ in 0..200_000 {
            history.step(&[], 0);
        }
        assert!(history.since(&first).is_some());
        drop(history);
        drop(first);
    }
}
