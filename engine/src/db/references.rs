//! References between rows: counts of strong references, back links of weak ones (RFC 7047 §3.2).

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, RefType, TableId};
use uuid::Uuid;

/// Table and UUID of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowId {
    pub(super) table: TableId,
    pub(super) uuid: Uuid,
}

impl RowId {
    pub(super) fn new(table: TableId, uuid: Uuid) -> Self {
        Self { table, uuid }
    }
}

/// References between committed rows. A row that is not referred to has no entry.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    /// Number of strong references to each row. References of a row to itself do not count.
    strong: HashMap<RowId, u32, RandomState>,
    /// For each target of weak references, the number of references from each row.
    weak: HashMap<RowId, HashMap<RowId, u32, RandomState>, RandomState>,
}

impl References {
    pub(super) fn strong_count(&self, row: RowId) -> u32 {
        self.strong.get(&row).copied().unwrap_or(0)
    }

    /// Rows with weak references to this row.
    pub(super) fn weak_referrers(&self, row: RowId) -> impl Iterator<Item = RowId> {
        self.weak.get(&row).into_iter().flat_map(|referrers| referrers.keys().copied())
    }

    /// Adds changes to the numbers of strong references.
    pub(super) fn add_strong(&mut self, deltas: Vec<(RowId, i64)>) {
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

    /// Adds a change to the number of weak references from one row to another.
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

/// Reference columns of each table.
#[derive(Clone, Debug)]
pub(super) struct ReferenceColumns {
    tables: Vec<Vec<ReferenceColumn>>,
}

/// A column whose elements, keys or values are references.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceColumn {
    pub(super) column: ColumnId,
    pub(super) ref_type: RefType,
    pub(super) target: TableId,
    /// `false` if the values of a map are the references.
    pub(super) by_key: bool,
}

impl ReferenceColumns {
    pub(super) fn new(schema: &DatabaseSchema) -> Self {
        let columns_of = |table: TableId| {
            let table = schema.table(table);
            let parts = table.column_ids().flat_map(|column| {
                let ty = table.column_type(column);
                [(column, Some(&ty.key), true), (column, ty.value.as_ref(), false)]
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
        Self { tables: schema.table_ids().map(columns_of).collect() }
    }

    pub(super) fn of(
        &self,
        table: TableId,
        ref_type: RefType,
    ) -> impl Iterator<Item = ReferenceColumn> {
        self.tables[table.index()].iter().copied().filter(move |column| column.ref_type == ref_type)
    }

    /// `true` if a row holds a weak reference.
    pub(super) fn has_weak(&self, table: TableId, row: &Row) -> bool {
        self.of(table, RefType::Weak).any(|reference| !row.values[reference.column].is_empty())
    }
}

impl ReferenceColumn {
    /// Calls `change(target, 1)` for each reference that the new version of a row gains and
    /// `change(target, -1)` for each that it loses. The cost is proportional to the difference.
    pub(super) fn diff<'a>(
        self,
        old: Option<&'a Row>,
        new: Option<&'a Row>,
        change: impl FnMut(Uuid, i64),
    ) {
        let value = |row: &'a Row| &row.values[self.column];
        let change = RefCell::new(change);
        let report = |atom: &Atom, delta: i64| {
            if let Some(uuid) = atom.as_uuid() {
                change.borrow_mut()(uuid, delta);
            }
        };
        match (old.map(value), new.map(value)) {
            (Some(Datum::Set(old)), Some(Datum::Set(new))) => {
                old.diff(new, |gone| report(gone, -1), |added| report(added, 1));
            }
            (Some(Datum::Map(old)), Some(Datum::Map(new))) => {
                old.diff(new, |key, before, after| {
                    if !self.by_key {
                        if let Some(value) = before {
                            report(value, -1);
                        }
                        if let Some(value) = after {
                            report(value, 1);
                        }
                    } else if before.is_some() != after.is_some() {
                        report(key, if after.is_some() { 1 } else { -1 });
                    }
                });
            }
            (Some(old), None) => self.for_each(old, |atom| report(atom, -1)),
            (None, Some(new)) => self.for_each(new, |atom| report(atom, 1)),
            _ => {}
        }
    }

    /// Calls `visit` for each reference in a value.
    fn for_each(self, value: &Datum, mut visit: impl FnMut(&Atom)) {
        match value {
            Datum::Set(set) => set.iter().for_each(visit),
            Datum::Map(map) => {
                map.iter().for_each(|(key, value)| visit(if self.by_key { key } else { value }));
            }
        }
    }

    /// Removes references to `targets`, which are sorted, from a value. Returns the number of
    /// removed elements or pairs.
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
