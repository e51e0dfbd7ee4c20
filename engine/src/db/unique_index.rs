//! Unique indexes of the schema: from the values of some columns to the row that holds them.

use std::borrow::Cow;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use uuid::Uuid;

use super::change::RowChange;
use super::index_key::IndexKey;

/// One unique index of one table.
#[derive(Clone, Debug)]
pub(super) struct UniqueIndex {
    pub(super) columns: Vec<ColumnId>,
    rows: imbl::GenericHashMap<IndexKey, Uuid, RandomState, imbl::shared_ptr::DefaultSharedPtr>,
}

impl UniqueIndex {
    pub(super) fn new(columns: Vec<ColumnId>) -> Self {
        Self {
            columns,
            rows: imbl::GenericHashMap::with_hasher(RandomState::default()),
        }
    }

    /// Key of a row. Borrowed from the row if the index has one column and the row stores a value
    /// for it.
    pub(super) fn key<'r>(&self, row: &'r Row) -> Cow<'r, [Datum]> {
        if let [column] = self.columns[..]
            && let Some(value) = row.values.get(column)
        {
            return Cow::Borrowed(std::slice::from_ref(value));
        }
        let values = self.columns.iter().map(|column| row.get(*column));
        Cow::Owned(values.map(Cow::into_owned).collect())
    }

    pub(super) fn get(&self, key: &[Datum]) -> Option<Uuid> {
        self.rows.get(key).copied()
    }

    /// Removes the key that a row loses. All keys are removed before the first one is added, because
    /// rows may swap keys.
    pub(super) fn remove_key(&mut self, change: &RowChange) {
        if let Some(old) = &change.old
            && !self.keeps_key(change)
        {
            self.remove(old);
        }
    }

    /// Adds the key that a row gains.
    pub(super) fn add_key(&mut self, change: &RowChange) {
        if let Some(new) = &change.new
            && !self.keeps_key(change)
        {
            self.insert(new);
        }
    }

    fn insert(&mut self, row: &Row) {
        let key = match self.key(row) {
            Cow::Borrowed(key) => key.iter().cloned().collect(),
            Cow::Owned(key) => key.into_iter().collect(),
        };
        self.rows.insert(key, row.uuid);
    }

    /// Removes the entry of a row unless the key belongs to another row by now.
    fn remove(&mut self, row: &Row) {
        let key = self.key(row);
        if self.rows.get(&*key) == Some(&row.uuid) {
            self.rows.remove(&*key);
        }
    }

    /// `true` if a row has the same key before and after a change.
    fn keeps_key(&self, change: &RowChange) -> bool {
        match (&change.old, &change.new) {
            (Some(old), Some(new)) => self.has_same_key(old, new),
            _ => false,
        }
    }

    /// `true` if two versions of a row have the same key.
    pub(super) fn has_same_key(&self, old: &Row, new: &Row) -> bool {
        self.columns
            .iter()
            .all(|column| old.get(*column) == new.get(*column))
    }
}
