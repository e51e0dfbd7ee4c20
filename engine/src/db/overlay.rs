//! Rows that a running transaction has touched, layered over the committed ones.

use std::cell::Cell;
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use indexmap::map::Entry;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::wire::Condition;
use uuid::Uuid;

use super::references::RowId;
use super::snapshot::Snapshot;

/// A touched row before the transaction and at its present point.
#[derive(Debug)]
pub(super) struct TouchedRow {
    /// `None`: this transaction inserted the row.
    pub(super) old: Option<Arc<Row>>,
    /// `None`: this transaction deleted the row.
    pub(super) new: Option<Arc<Row>>,
    /// Change of the number of strong references to the row.
    pub(super) strong_delta: Cell<i64>,
}

impl TouchedRow {
    fn new(old: Option<Arc<Row>>, new: Option<Arc<Row>>) -> Self {
        Self {
            old,
            new,
            strong_delta: Cell::new(0),
        }
    }

    /// `true` if this transaction inserted the row and rows refer to it.
    pub(super) fn is_new_and_referred_to(&self) -> bool {
        self.old.is_none() && self.strong_delta.get() > 0
    }
}

/// State that the operations of one transaction see.
#[derive(Debug)]
pub(super) struct Overlay<'a> {
    pub(super) base: &'a Snapshot,
    /// Touched rows of each table in the order in which the transaction touched them first. When
    /// many rows are inserted, this is also their order in memory.
    pub(super) tables: Vec<IndexMap<Uuid, TouchedRow, RandomState>>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(base: &'a Snapshot) -> Self {
        Self {
            base,
            tables: base.tables.iter().map(|_| IndexMap::default()).collect(),
        }
    }

    /// Reserves room for rows that are about to be inserted.
    pub(super) fn reserve(&mut self, table: TableId, rows: usize) {
        self.tables[table.index()].reserve(rows);
    }

    pub(super) fn get(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        match self.tables[table.index()].get(&uuid) {
            Some(touched) => touched.new.as_ref(),
            None => self.base.row(table, uuid),
        }
    }

    /// `true` if a row with this UUID may be inserted: the table has none, and this transaction has
    /// not deleted one.
    pub(super) fn may_insert(&self, table: TableId, uuid: Uuid) -> bool {
        !self.tables[table.index()].contains_key(&uuid) && self.base.row(table, uuid).is_none()
    }

    /// The row if this transaction has touched it.
    pub(super) fn touched(&self, row: RowId) -> Option<&TouchedRow> {
        self.tables[row.table.index()].get(&row.uuid)
    }

    /// Present rows of a table.
    pub(super) fn rows(&self, table: TableId) -> impl Iterator<Item = &Arc<Row>> {
        let touched = &self.tables[table.index()];
        let untouched = self
            .base
            .table(table)
            .iter()
            .filter(|row| !touched.contains_key(&row.uuid));
        untouched.chain(touched.values().filter_map(|touched| touched.new.as_ref()))
    }

    /// Present rows that may satisfy a condition, if it names all columns of a unique index: the
    /// committed row with that key, and the touched ones. `None`: it does not.
    pub(super) fn rows_by_key(
        &self,
        table: TableId,
        condition: &Condition,
    ) -> Option<impl Iterator<Item = &Arc<Row>>> {
        let touched = &self.tables[table.index()];
        let committed = self.base.table(table).find_named(condition)?;
        let untouched = committed.filter(|row| !touched.contains_key(&row.uuid));
        let present = touched.values().filter_map(|touched| touched.new.as_ref());
        Some(untouched.chain(present))
    }

    /// Number of present rows of a table.
    pub(super) fn len(&self, table: TableId) -> usize {
        let touched = self.tables[table.index()].values();
        touched.fold(self.base.table(table).len(), |len, row| {
            len + usize::from(row.new.is_some()) - usize::from(row.old.is_some())
        })
    }

    pub(super) fn insert(&mut self, table: TableId, row: Row) {
        self.tables[table.index()].insert(row.uuid, TouchedRow::new(None, Some(Arc::new(row))));
    }

    /// Touches a row and returns its present version for modification; `None` if it does not exist.
    pub(super) fn modify(&mut self, table: TableId, uuid: Uuid) -> Option<&mut Row> {
        let base = self.base;
        let touched = match self.tables[table.index()].entry(uuid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let row = base.row(table, uuid)?;
                entry.insert(TouchedRow::new(Some(row.clone()), Some(row.clone())))
            }
        };
        touched.new.as_mut().map(Arc::make_mut)
    }

    pub(super) fn delete(&mut self, table: TableId, uuid: Uuid) {
        let rows = &mut self.tables[table.index()];
        if let Some(touched) = rows.get_mut(&uuid) {
            touched.new = None;
            if touched.old.is_none() {
                rows.swap_remove(&uuid);
            }
        } else if let Some(row) = self.base.row(table, uuid) {
            rows.insert(uuid, TouchedRow::new(Some(row.clone()), None));
        }
    }
}
