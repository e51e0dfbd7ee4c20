//! Rows that a running transaction has touched, layered over the committed ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

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
    /// Change of the number of strong references to the row. Threads that count the references of
    /// different columns add to it.
    strong_delta: AtomicI64,
}

impl TouchedRow {
    pub(super) fn new(old: Option<Arc<Row>>, new: Option<Arc<Row>>) -> Self {
        Self { old, new, strong_delta: AtomicI64::new(0) }
    }

    /// `true` if this transaction inserted the row and rows refer to it.
    pub(super) fn is_new_and_referred_to(&self) -> bool {
        self.old.is_none() && self.strong_delta() > 0
    }

    /// Change of the number of strong references to the row.
    pub(super) fn strong_delta(&self) -> i64 {
        self.strong_delta.load(Ordering::Relaxed)
    }

    pub(super) fn add_strong_delta(&self, delta: i64) {
        self.strong_delta.fetch_add(delta, Ordering::Relaxed);
    }
}

/// State that the operations of one transaction see.
#[derive(Debug)]
pub(super) struct Overlay<'a> {
    pub(super) base: &'a Snapshot,
    /// Touched tables, sorted. Most transactions touch few of a schema's tables.
    pub(super) tables: Vec<TouchedTable>,
}

/// Table of which a transaction has touched rows.
#[derive(Debug)]
pub(super) struct TouchedTable {
    pub(super) id: TableId,
    /// Touched rows in the order in which the transaction touched them first, unless it deletes one
    /// that it inserted. When many rows are inserted, this is also their order in memory.
    pub(super) rows: TouchedRows,
}

/// Touched rows of one table by their UUIDs.
pub(super) type TouchedRows = IndexMap<Uuid, TouchedRow, RandomState>;

impl<'a> Overlay<'a> {
    pub(super) fn new(base: &'a Snapshot) -> Self {
        Self { base, tables: Vec::new() }
    }

    /// Reserves room for rows that are about to be inserted.
    pub(super) fn reserve(&mut self, table: TableId, rows: usize) {
        self.touched_rows_mut(table).reserve(rows);
    }

    /// Number of touched rows of all tables.
    pub(super) fn touched_count(&self) -> usize {
        self.tables.iter().map(|touched| touched.rows.len()).sum()
    }

    /// Touched rows of a table. `None`: the transaction has touched none.
    fn touched_rows(&self, table: TableId) -> Option<&TouchedRows> {
        let touched = self.tables.iter().find(|touched| touched.id == table);
        touched.map(|touched| &touched.rows)
    }

    fn touched_rows_mut(&mut self, table: TableId) -> &mut TouchedRows {
        let place = self.tables.partition_point(|touched| touched.id < table);
        if self.tables.get(place).is_none_or(|touched| touched.id != table) {
            let rows = IndexMap::default();
            self.tables.insert(place, TouchedTable { id: table, rows });
        }
        &mut self.tables[place].rows
    }

    pub(super) fn get(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        match self.touched(RowId::new(table, uuid)) {
            Some(touched) => touched.new.as_ref(),
            None => self.base.row(table, uuid),
        }
    }

    /// `true` if a row with this UUID may be inserted: the table has none, and this transaction has
    /// not deleted one.
    pub(super) fn may_insert(&self, table: TableId, uuid: Uuid) -> bool {
        self.touched(RowId::new(table, uuid)).is_none() && self.base.row(table, uuid).is_none()
    }

    /// `true` if this transaction has touched rows of the table.
    pub(super) fn has_touched(&self, table: TableId) -> bool {
        self.touched_rows(table).is_some_and(|rows| !rows.is_empty())
    }

    /// The row if this transaction has touched it.
    pub(super) fn touched(&self, row: RowId) -> Option<&TouchedRow> {
        self.touched_rows(row.table)?.get(&row.uuid)
    }

    /// Present rows of a table.
    pub(super) fn rows(&self, table: TableId) -> impl Iterator<Item = &Arc<Row>> {
        let touched = self.touched_rows(table);
        let untouched = self
            .base
            .table(table)
            .iter()
            .filter(move |row| touched.is_none_or(|touched| !touched.contains_key(&row.uuid)));
        untouched.chain(self.present_touched_rows(table))
    }

    /// Present rows that may satisfy a condition, if it names all columns of a unique index: the
    /// committed row with that key, and the touched ones. `None`: it does not.
    pub(super) fn rows_by_key(
        &self,
        table: TableId,
        condition: &Condition,
    ) -> Option<impl Iterator<Item = &Arc<Row>>> {
        let touched = self.touched_rows(table);
        let committed = self.base.table(table).find_named(condition)?;
        let untouched = committed
            .filter(move |row| touched.is_none_or(|touched| !touched.contains_key(&row.uuid)));
        Some(untouched.chain(self.present_touched_rows(table)))
    }

    /// Rows of a table that the transaction has touched and not deleted.
    fn present_touched_rows(&self, table: TableId) -> impl Iterator<Item = &Arc<Row>> {
        let touched = self.touched_rows(table).into_iter().flatten();
        touched.filter_map(|(_, touched)| touched.new.as_ref())
    }

    /// Number of present rows of a table.
    pub(super) fn len(&self, table: TableId) -> usize {
        let touched = self.touched_rows(table).into_iter().flatten();
        touched.fold(self.base.table(table).len(), |len, (_, row)| {
            len + usize::from(row.new.is_some()) - usize::from(row.old.is_some())
        })
    }

    pub(super) fn insert(&mut self, table: TableId, row: Row) {
        let uuid = row.uuid;
        let touched = TouchedRow::new(None, Some(Arc::new(row)));
        self.touched_rows_mut(table).insert(uuid, touched);
    }

    /// Touches a row and returns its present version for modification; `None` if it does not exist.
    pub(super) fn modify(&mut self, table: TableId, uuid: Uuid) -> Option<&mut Row> {
        let base = self.base;
        let touched = match self.touched_rows_mut(table).entry(uuid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let row = base.row(table, uuid)?;
                entry.insert(TouchedRow::new(Some(row.clone()), Some(row.clone())))
            }
        };
        touched.new.as_mut().map(Arc::make_mut)
    }

    pub(super) fn delete(&mut self, table: TableId, uuid: Uuid) {
        let base = self.base;
        let rows = self.touched_rows_mut(table);
        if let Some(touched) = rows.get_mut(&uuid) {
            touched.new = None;
            if touched.old.is_none() {
                rows.swap_remove(&uuid);
            }
        } else if let Some(row) = base.row(table, uuid) {
            rows.insert(uuid, TouchedRow::new(Some(row.clone()), None));
        }
    }
}
