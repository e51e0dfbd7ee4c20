//! The rows that a transaction has touched, over the committed ones.

use std::cell::Cell;
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use indexmap::map::Entry;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use uuid::Uuid;

use super::snapshot::Snapshot;

/// A row before and after (so far).
#[derive(Debug)]
pub(super) struct Touched {
    /// None when this transaction inserted it.
    pub(super) old: Option<Arc<Row>>,
    /// None when this transaction deleted it.
    pub(super) new: Option<Arc<Row>>,
    /// By how much the number of strong references to it changes.
    pub(super) strong: Cell<i64>,
}

impl Touched {
    fn new(old: Option<Arc<Row>>, new: Option<Arc<Row>>) -> Self {
        Self {
            old,
            new,
            strong: Cell::new(0),
        }
    }

    /// Whether rows refer to a row that this transaction inserted.
    pub(super) fn is_new_and_referred_to(&self) -> bool {
        self.old.is_none() && self.strong.get() > 0
    }
}

/// In the order in which they were touched first, which is that of their places in memory when many are inserted.
pub(super) type TouchedRows = IndexMap<Uuid, Touched, RandomState>;

/// The state that the operations of one transaction see.
#[derive(Debug)]
pub(super) struct Overlay<'a> {
    pub(super) base: &'a Snapshot,
    pub(super) tables: Vec<TouchedRows>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(base: &'a Snapshot) -> Self {
        Self {
            base,
            tables: base.tables.iter().map(|_| TouchedRows::default()).collect(),
        }
    }

    /// Makes room for rows that are to be inserted.
    pub(super) fn reserve(&mut self, table: TableId, rows: usize) {
        self.tables[table.index()].reserve(rows);
    }

    pub(super) fn get(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        match self.tables[table.index()].get(&uuid) {
            Some(touched) => touched.new.as_ref(),
            None => self.base.row(table, uuid),
        }
    }

    /// Whether a row of this UUID may be inserted: none is there, and none was deleted by this transaction.
    pub(super) fn may_insert(&self, table: TableId, uuid: Uuid) -> bool {
        !self.tables[table.index()].contains_key(&uuid) && self.base.row(table, uuid).is_none()
    }

    /// The row, if this transaction has touched it.
    pub(super) fn touched(&self, table: TableId, uuid: Uuid) -> Option<&Touched> {
        self.tables[table.index()].get(&uuid)
    }

    /// All rows there are now.
    pub(super) fn rows(&self, table: TableId) -> impl Iterator<Item = &Arc<Row>> {
        let touched = &self.tables[table.index()];
        let untouched = self
            .base
            .table(table)
            .iter()
            .filter(|row| !touched.contains_key(&row.uuid));
        untouched.chain(touched.values().filter_map(|touched| touched.new.as_ref()))
    }

    /// How many rows there are now.
    pub(super) fn len(&self, table: TableId) -> usize {
        let touched = self.tables[table.index()].values();
        touched.fold(self.base.table(table).len(), |len, row| {
            len + usize::from(row.new.is_some()) - usize::from(row.old.is_some())
        })
    }

    pub(super) fn insert(&mut self, table: TableId, row: Row) {
        self.tables[table.index()].insert(row.uuid, Touched::new(None, Some(Arc::new(row))));
    }

    /// The row for change; none when it is not there.
    pub(super) fn modify(&mut self, table: TableId, uuid: Uuid) -> Option<&mut Row> {
        let base = self.base;
        let touched = match self.tables[table.index()].entry(uuid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let row = base.row(table, uuid)?;
                entry.insert(Touched::new(Some(row.clone()), Some(row.clone())))
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
            rows.insert(uuid, Touched::new(Some(row.clone()), None));
        }
    }
}
