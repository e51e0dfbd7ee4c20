//! Reverse index of references from routers and switches to rows.

use std::collections::{BTreeSet, HashMap};

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::reconcile::ReferenceColumn;
use foldhash::fast::RandomState;

/// Rows that refer to a row (its holders) by one column of one table.
#[derive(Debug)]
pub(crate) struct Holders {
    pub(crate) column: ReferenceColumn,
    /// First holder; most rows have only one.
    first: HashMap<Uuid, Uuid, RandomState>,
    others: HashMap<Uuid, BTreeSet<Uuid>, RandomState>,
}

impl Holders {
    pub(super) fn new(column: ReferenceColumn) -> Self {
        Self {
            column,
            first: HashMap::default(),
            others: HashMap::default(),
        }
    }

    /// Holders of a row.
    pub(crate) fn of(&self, held: Uuid) -> impl Iterator<Item = Uuid> {
        let others = self.others.get(&held).into_iter().flatten();
        self.first.get(&held).into_iter().chain(others).copied()
    }

    /// True if `holder` refers to `held`.
    pub(crate) fn has(&self, holder: Uuid, held: Uuid) -> bool {
        self.of(held).any(|have| have == holder)
    }

    /// Applies a change of a holder. Returns the rows to which it gained or lost a reference.
    pub(super) fn update(&mut self, old: Option<&Row>, new: Option<&Row>) -> Vec<Uuid> {
        let Some(holder) = old.or(new).map(|row| row.uuid) else {
            return Vec::new();
        };
        let set = |row| self.column.set(row).unwrap_or(&Set::EMPTY);
        let (mut lost, mut gained) = (Vec::new(), Vec::new());
        let old = old.map_or(&Set::EMPTY, set);
        let new = new.map_or(&Set::EMPTY, set);
        old.diff(
            new,
            |atom| lost.extend(Atom::as_uuid(atom)),
            |atom| gained.extend(Atom::as_uuid(atom)),
        );
        for held in &lost {
            self.remove(*held, holder);
        }
        for held in &gained {
            self.add(*held, holder);
        }
        lost.append(&mut gained);
        lost
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
