//! Holders of rows, by one column of one table.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use uuid::Uuid;

/// Maps held rows to the rows that hold them, by one column of one table.
#[derive(Debug)]
pub(crate) struct Holders {
    column: Option<ColumnId>,
    numbers: HolderNumbers,
    /// Most rows have one holder.
    first: HashMap<Uuid, u32, RandomState>,
    others: HashMap<Uuid, BTreeSet<u32>, RandomState>,
}

/// Numbers of holders, because many rows have the same one. Numbers of holders that are gone are
/// used again.
#[derive(Debug, Default)]
struct HolderNumbers {
    holders: Vec<Uuid>,
    numbers: HashMap<Uuid, u32, RandomState>,
    free: Vec<u32>,
}

impl HolderNumbers {
    fn number(&mut self, holder: Uuid) -> u32 {
        *self.numbers.entry(holder).or_insert_with(|| {
            let number = self.free.pop().unwrap_or_else(|| {
                self.holders.push(holder);
                u32::try_from(self.holders.len() - 1).unwrap_or(u32::MAX)
            });
            self.holders[number as usize] = holder;
            number
        })
    }

    fn forget(&mut self, holder: Uuid) {
        self.free.extend(self.numbers.remove(&holder));
    }
}

impl Holders {
    /// Holders by a column of references. `None`: the schema has no such column, so no row is held.
    pub(crate) fn new(column: Option<ColumnId>) -> Self {
        Self {
            column,
            numbers: HolderNumbers::default(),
            first: HashMap::default(),
            others: HashMap::default(),
        }
    }

    /// Holders of a row.
    pub(crate) fn of(&self, held: Uuid) -> impl Iterator<Item = Uuid> {
        let first = self.first.get(&held);
        let others = first.and_then(|_| self.others.get(&held));
        let numbers = first.into_iter().chain(others.into_iter().flatten());
        numbers.filter_map(|number| self.numbers.holders.get(*number as usize).copied())
    }

    /// Returns `true` if a row holds this one.
    pub(crate) fn is_held(&self, row: Uuid) -> bool {
        self.first.contains_key(&row)
    }

    /// Returns `true` if one row holds another.
    pub(crate) fn has(&self, holder: Uuid, held: Uuid) -> bool {
        self.of(held).any(|have| have == holder)
    }

    /// Follows a change of a holder. Returns the rows that it lost, and those that it gained.
    pub(crate) fn follow(
        &mut self,
        old: Option<&Arc<Row>>,
        new: Option<&Arc<Row>>,
    ) -> (Vec<Uuid>, Vec<Uuid>) {
        let (mut lost, mut gained) = (Vec::new(), Vec::new());
        let Some(holder) = old.or(new).map(|row| row.uuid) else {
            return (lost, gained);
        };
        let column = self.column;
        let set = |row: Option<&'_ Arc<Row>>| -> Option<Set> {
            row?.values.get(column?)?.as_set().cloned()
        };
        let (old, new) = (set(old).unwrap_or_default(), set(new).unwrap_or_default());
        old.diff(
            &new,
            |atom| lost.extend(Atom::as_uuid(atom)),
            |atom| gained.extend(Atom::as_uuid(atom)),
        );
        if lost.is_empty() && gained.is_empty() {
            return (lost, gained);
        }
        let number = self.numbers.number(holder);
        for held in &lost {
            self.remove(*held, number);
        }
        self.first.reserve(gained.len());
        for held in &gained {
            self.add(*held, number);
        }
        if new.is_empty() {
            self.numbers.forget(holder);
        }
        (lost, gained)
    }

    fn add(&mut self, held: Uuid, holder: u32) {
        if *self.first.entry(held).or_insert(holder) != holder {
            self.others.entry(held).or_default().insert(holder);
        }
    }

    fn remove(&mut self, held: Uuid, holder: u32) {
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
