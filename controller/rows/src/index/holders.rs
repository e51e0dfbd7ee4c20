//! Holders of rows, by one column of one table.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use uuid::Uuid;

/// Maps held rows to the rows that hold them, by one column of one table.
#[derive(Debug)]
pub struct Holders {
    column: Option<ColumnId>,
    /// Most rows have one holder.
    first: HashMap<Uuid, Uuid, RandomState>,
    others: HashMap<Uuid, BTreeSet<Uuid>, RandomState>,
}

impl Holders {
    /// Holders by a column of references. `None`: the schema has no such column, so no row is held.
    pub fn new(column: Option<ColumnId>) -> Self {
        Self {
            column,
            first: HashMap::default(),
            others: HashMap::default(),
        }
    }

    /// Holders of a row.
    pub fn of(&self, held: Uuid) -> impl Iterator<Item = Uuid> {
        let others = self.others.get(&held).into_iter().flatten();
        self.first.get(&held).into_iter().chain(others).copied()
    }

    /// Returns `true` if one row holds another.
    pub fn has(&self, holder: Uuid, held: Uuid) -> bool {
        self.of(held).any(|have| have == holder)
    }

    /// Follows a change of a holder. Returns the rows that it lost, and those that it gained.
    pub fn follow(&mut self, old: Option<&Row>, new: Option<&Row>) -> (Vec<Uuid>, Vec<Uuid>) {
        let (mut lost, mut gained) = (Vec::new(), Vec::new());
        let Some(holder) = old.or(new).map(|row| row.uuid) else {
            return (lost, gained);
        };
        let column = self.column;
        let set =
            |row: Option<&'_ Row>| -> Option<Set> { row?.values.get(column?)?.as_set().cloned() };
        let (old, new) = (set(old).unwrap_or_default(), set(new).unwrap_or_default());
        old.diff(
            &new,
            |atom| lost.extend(Atom::as_uuid(atom)),
            |atom| gained.extend(Atom::as_uuid(atom)),
        );
        for held in &lost {
            self.remove(*held, holder);
        }
        for held in &gained {
            self.add(*held, holder);
        }
        (lost, gained)
    }

    fn add(&mut self, held: Uuid, holder: Uuid) {
        if *self.first.entry(held).or_insert(holder) != holder {
            self.others.entry(held).or_default().insert(holder);
        }
    }

    fn remove(&mut self, held: Uuid, holder: Uuid) {
        let Some(others) = self.others.get_mut(&held) else {
            if self.first.get(&held) == Some(&holder) {
                self.first.remove(&held);
            }
            return;
        };
        if !others.remove(&holder)
            && let Some(next) = others.pop_first()
        {
            self.first.insert(held, next);
        }
        if others.is_empty() {
            self.others.remove(&held);
        }
    }
}
