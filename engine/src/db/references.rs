//! Who refers to whom: counts of strong references, back links of weak ones.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, RefType, TableId};
use uuid::Uuid;

/// A row of a table.
pub(super) type RowId = (TableId, Uuid);
type RowMap<V> = HashMap<RowId, V, RandomState>;

/// References between committed rows. Rows with none of a kind have no entry.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    /// How often strong references name a row; references to itself do not count.
    strong: RowMap<u32>,
    /// How often each row's weak references name a row.
    weak: RowMap<RowMap<u32>>,
}

impl References {
    pub(super) fn strong_count(&self, row: RowId) -> u32 {
        self.strong.get(&row).copied().unwrap_or(0)
    }

    /// The rows whose weak references name this one.
    pub(super) fn weak_referrers(&self, row: RowId) -> impl Iterator<Item = RowId> {
        self.weak
            .get(&row)
            .into_iter()
            .flat_map(|referrers| referrers.keys().copied())
    }

    pub(super) fn add_strong(&mut self, row: RowId, delta: i64) {
        let count = i64::from(self.strong_count(row)) + delta;
        if count > 0 {
            self.strong.insert(row, count as u32);
        } else {
            self.strong.remove(&row);
        }
    }

    pub(super) fn add_weak(&mut self, target: RowId, from: RowId, delta: i64) {
        let referrers = self.weak.entry(target).or_default();
        let count = i64::from(referrers.get(&from).copied().unwrap_or(0)) + delta;
        if count > 0 {
            referrers.insert(from, count as u32);
        } else {
            referrers.remove(&from);
            if referrers.is_empty() {
                self.weak.remove(&target);
            }
        }
    }
}

/// The columns of each table that refer to rows.
#[derive(Clone, Debug)]
pub(super) struct ReferenceColumns {
    tables: Vec<Vec<ReferenceColumn>>,
}

/// A column that refers to rows, with its keys or its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceColumn {
    pub(super) column: ColumnId,
    pub(super) ref_type: RefType,
    pub(super) target: TableId,
    /// False when the values of a map refer.
    pub(super) by_key: bool,
}

impl ReferenceColumns {
    pub(super) fn new(schema: &DatabaseSchema) -> Self {
        let columns_of = |table: TableId| {
            let table = schema.table(table);
            let parts = table.column_ids().flat_map(|column| {
                let ty = table.column_type(column);
                [
                    (column, Some(&ty.key), true),
                    (column, ty.value.as_ref(), false),
                ]
            });
            let refer = parts.filter_map(|(column, base, by_key)| {
                let reference = base?.reference()?;
                Some(ReferenceColumn {
                    column,
                    ref_type: reference.ref_type,
                    target: reference.table,
                    by_key,
                })
            });
            refer.collect()
        };
        Self {
            tables: schema.table_ids().map(columns_of).collect(),
        }
    }

    pub(super) fn of(
        &self,
        table: TableId,
        ref_type: RefType,
    ) -> impl Iterator<Item = ReferenceColumn> {
        self.tables[table.index()]
            .iter()
            .copied()
            .filter(move |column| column.ref_type == ref_type)
    }
}

impl ReferenceColumn {
    /// Calls `change(target, +1)` for each reference that the new version of a row has more than the old one,
    /// `change(target, -1)` for each it has less. The cost is that of the difference.
    pub(super) fn diff(
        self,
        old: Option<&Row>,
        new: Option<&Row>,
        mut change: impl FnMut(Uuid, i64),
    ) {
        let value = |row: Option<&Row>| row.map(|row| &row.values[self.column.index()]).cloned();
        let mut atom = |atom: Option<&Atom>, delta: i64| {
            if let Some(uuid) = atom.and_then(Atom::as_uuid) {
                change(uuid, delta);
            }
        };
        match (value(old), value(new)) {
            (Some(Datum::Set(old)), Some(Datum::Set(new))) => {
                let change = std::cell::RefCell::new(atom);
                old.diff(
                    &new,
                    |gone| change.borrow_mut()(Some(gone), -1),
                    |added| change.borrow_mut()(Some(added), 1),
                );
            }
            (Some(Datum::Map(old)), Some(Datum::Map(new))) => {
                old.diff(&new, |key, before, after| {
                    if self.by_key {
                        match (before, after) {
                            (None, Some(_)) => atom(Some(key), 1),
                            (Some(_), None) => atom(Some(key), -1),
                            _ => {}
                        }
                    } else {
                        atom(before, -1);
                        atom(after, 1);
                    }
                })
            }
            (Some(old), None) => self.each(&old, |uuid| atom(Some(&Atom::Uuid(uuid)), -1)),
            (None, Some(new)) => self.each(&new, |uuid| atom(Some(&Atom::Uuid(uuid)), 1)),
            _ => {}
        }
    }

    /// Calls `see` for each reference in a value.
    fn each(self, value: &Datum, mut see: impl FnMut(Uuid)) {
        match value {
            Datum::Set(set) => set.iter().filter_map(Atom::as_uuid).for_each(see),
            Datum::Map(map) => {
                for (key, value) in map {
                    if let Some(uuid) = if self.by_key { key } else { value }.as_uuid() {
                        see(uuid);
                    }
                }
            }
        }
    }

    /// Removes references to a row from a value; how many elements or pairs that took.
    pub(super) fn remove(self, value: &mut Datum, target: Uuid) -> usize {
        let target = Atom::Uuid(target);
        match value {
            Datum::Set(set) => usize::from(set.remove(&target)),
            Datum::Map(map) if self.by_key => usize::from(map.remove(&target).is_some()),
            Datum::Map(map) => {
                let keys: Vec<Atom> = map
                    .iter()
                    .filter(|(_, value)| **value == target)
                    .map(|(key, _)| key.clone())
                    .collect();
                keys.iter().for_each(|key| {
                    map.remove(key);
                });
                keys.len()
            }
        }
    }
}
