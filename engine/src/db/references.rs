//! Who refers to whom: counts of strong references, back links of weak ones.

use std::cell::RefCell;
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
/// By how much the number of strong references to rows changes.
pub(super) type StrongDeltas = Vec<(RowId, i64)>;

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

    /// Changes counts by so much.
    pub(super) fn add_strong(&mut self, deltas: StrongDeltas) {
        let gained = deltas.iter().filter(|(_, delta)| *delta > 0);
        self.strong.reserve(gained.count());
        for (row, delta) in deltas {
            let count = i64::from(self.strong_count(row)) + delta;
            if count > 0 {
                self.strong.insert(row, count as u32);
            } else {
                self.strong.remove(&row);
            }
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

    /// Whether a row holds any weak reference.
    pub(super) fn has_weak(&self, table: TableId, row: &Row) -> bool {
        self.of(table, RefType::Weak)
            .any(|reference| !row.values[reference.column].is_empty())
    }
}

impl ReferenceColumn {
    /// Calls `change(target, +1)` for each reference that the new version of a row has more than the old one,
    /// `change(target, -1)` for each it has less. The cost is that of the difference.
    pub(super) fn diff<'a>(
        self,
        old: Option<&'a Row>,
        new: Option<&'a Row>,
        change: impl FnMut(Uuid, i64),
    ) {
        let value = |row: &'a Row| &row.values[self.column];
        let change = RefCell::new(change);
        let see = |atom: &Atom, delta: i64| {
            if let Some(uuid) = atom.as_uuid() {
                change.borrow_mut()(uuid, delta);
            }
        };
        match (old.map(value), new.map(value)) {
            (Some(Datum::Set(old)), Some(Datum::Set(new))) => {
                old.diff(new, |gone| see(gone, -1), |added| see(added, 1));
            }
            (Some(Datum::Map(old)), Some(Datum::Map(new))) => {
                old.diff(new, |key, before, after| {
                    if !self.by_key {
                        if let Some(value) = before {
                            see(value, -1);
                        }
                        if let Some(value) = after {
                            see(value, 1);
                        }
                    } else if before.is_some() != after.is_some() {
                        see(key, if after.is_some() { 1 } else { -1 });
                    }
                });
            }
            (Some(old), None) => self.each(old, |atom| see(atom, -1)),
            (None, Some(new)) => self.each(new, |atom| see(atom, 1)),
            _ => {}
        }
    }

    /// Calls `see` for each reference in a value.
    fn each(self, value: &Datum, mut see: impl FnMut(&Atom)) {
        match value {
            Datum::Set(set) => set.iter().for_each(see),
            Datum::Map(map) => map
                .iter()
                .for_each(|(key, value)| see(if self.by_key { key } else { value })),
        }
    }

    /// Removes references to any of some rows, which are sorted, from a value; how many elements or pairs that took.
    pub(super) fn remove(self, value: &mut Datum, targets: &[Uuid]) -> usize {
        let before = value.len();
        match value {
            Datum::Set(set) => {
                for target in targets {
                    set.remove(&Atom::Uuid(*target));
                }
            }
            Datum::Map(map) if self.by_key => {
                for target in targets {
                    map.remove(&Atom::Uuid(*target));
                }
            }
            Datum::Map(map) => {
                let refers = |value: &Atom| {
                    let uuid = value.as_uuid();
                    uuid.is_some_and(|uuid| targets.binary_search(&uuid).is_ok())
                };
                let keys: Vec<Atom> = map
                    .iter()
                    .filter(|(_, value)| refers(value))
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in &keys {
                    map.remove(key);
                }
            }
        }
        before - value.len()
    }
}
