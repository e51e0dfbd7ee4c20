//! Unique indexes of the schema: from the values of some columns to the row that holds them.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::Equivalent;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableId};

use super::change::RowChange;

/// One unique index of one table.
///
/// The index stores the rows and the hashes of their keys. The keys themselves are values of the
/// rows.
#[derive(Clone, Debug)]
pub(super) struct UniqueIndex {
    pub(super) columns: Vec<ColumnId>,
    hasher: RandomState,
    rows: imbl::GenericHashMap<HashedRow, (), RandomState, imbl::shared_ptr::DefaultSharedPtr>,
}

/// Row with the hash of its key. Rows are equal if they are versions of one row with one hash.
#[derive(Clone, Debug)]
struct HashedRow {
    key_hash: u64,
    row: Arc<Row>,
}

/// Hashes of the keys that rows gain, known from the comparison of the keys. Only long transactions
/// have them.
#[derive(Debug, Default)]
pub(super) struct KeyHashes {
    /// Table and place of an index, with the hashes in the order of the table's new rows.
    indexes: Vec<(TableId, usize, Vec<u64>)>,
}

impl KeyHashes {
    pub(super) fn push(&mut self, table: TableId, place: usize, hashes: Vec<u64>) {
        self.indexes.push((table, place, hashes));
    }

    /// The hashes of an index. `None`: they are not known.
    pub(super) fn of(&self, table: TableId, place: usize) -> Option<&[u64]> {
        let mut indexes = self.indexes.iter();
        let (.., hashes) = indexes.find(|index| (index.0, index.1) == (table, place))?;
        Some(hashes)
    }
}

impl UniqueIndex {
    pub(super) fn new(columns: Vec<ColumnId>) -> Self {
        Self {
            columns,
            hasher: RandomState::default(),
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

    /// The row with a key.
    pub(super) fn get(&self, key: &[Datum]) -> Option<&Arc<Row>> {
        let found = self.find(key, self.hasher.hash_one(key))?;
        Some(&found.row)
    }

    fn find(&self, key: &[Datum], hash: u64) -> Option<&HashedRow> {
        let key = Key { hash, values: key, columns: &self.columns };
        let (found, ()) = self.rows.get_key_value(&key)?;
        Some(found)
    }

    /// Replaces the old version of a row by the new one.
    ///
    /// The order of the changes of a transaction does not matter, although rows may swap keys.
    pub(super) fn apply(&mut self, change: &RowChange) {
        let RowChange { old, new, .. } = change;
        let keeps_key = |old| {
            let new = new.as_ref();
            new.is_some_and(|new| self.has_same_key(old, new))
        };
        if let Some(old) = old.as_ref().filter(|old| !keeps_key(old)) {
            self.rows.remove(&self.hashed(old));
        }
        if let Some(new) = new {
            self.insert(new);
        }
    }

    /// Adds a row, or replaces its former version. Another row with the same key is removed,
    /// because it is about to lose the key. In a replica that lacks columns of the index, all rows
    /// may have the same key.
    fn insert(&mut self, row: &Arc<Row>) {
        let new = self.hashed(row);
        let found = self.find(&self.key(row), new.key_hash);
        if let Some(other) = found.filter(|found| **found != new).cloned() {
            self.rows.remove(&other);
        }
        self.rows.insert(new, ());
    }

    /// Adds rows to an index without rows. `key_hashes` are those of their keys.
    pub(super) fn fill<'c>(
        &mut self,
        rows: impl Iterator<Item = &'c Arc<Row>>,
        key_hashes: &[u64],
    ) {
        for (row, key_hash) in rows.zip(key_hashes) {
            let (row, key_hash) = (row.clone(), *key_hash);
            self.rows.insert(HashedRow { key_hash, row }, ());
        }
    }

    fn hashed(&self, row: &Arc<Row>) -> HashedRow {
        HashedRow { key_hash: self.key_hash(row), row: row.clone() }
    }

    /// Hash of the key of a row. Rows with the same key have the same hash.
    pub(super) fn key_hash(&self, row: &Row) -> u64 {
        self.hasher.hash_one(&*self.key(row))
    }

    /// `true` if there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// `true` if two versions of a row have the same key.
    pub(super) fn has_same_key(&self, old: &Row, new: &Row) -> bool {
        self.columns.iter().all(|column| old.get(*column) == new.get(*column))
    }
}

impl PartialEq for HashedRow {
    fn eq(&self, other: &Self) -> bool {
        self.key_hash == other.key_hash && self.row.uuid == other.row.uuid
    }
}

impl Eq for HashedRow {}

impl Hash for HashedRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key_hash.hash(state);
    }
}

/// Key that is looked up.
struct Key<'k> {
    hash: u64,
    values: &'k [Datum],
    columns: &'k [ColumnId],
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl Equivalent<HashedRow> for Key<'_> {
    fn equivalent(&self, other: &HashedRow) -> bool {
        let mut values = self.columns.iter().zip(self.values);
        self.hash == other.key_hash
            && self.columns.len() == self.values.len()
            && values.all(|(column, value)| *other.row.get(*column) == *value)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_key_leads_to_the_newest_version_of_its_row_in_any_order_of_changes() {
        let schema = nb::schema();
        let (id, table) = schema.table_by_name("Logical_Router_Port").unwrap();
        let name = table.column_id("name").unwrap();
        let row = |uuid: u128, text: &str| {
            let mut row = Row::new(Uuid::from_u128(uuid), table);
            row.values[name] = Datum::scalar(text);
            Some(Arc::new(row))
        };
        let change = |old, new| RowChange { table: id, old, new };
        let changes = [
            change(row(1, "a"), row(1, "b")),
            change(row(2, "b"), row(2, "a")),
            change(row(3, "c"), None),
            change(None, row(4, "c")),
            change(row(5, "e"), row(5, "e")),
        ];
        for first in 0..changes.len() {
            let mut index = UniqueIndex::new(vec![name]);
            for old in changes.iter().filter_map(|change| change.old.clone()) {
                index.apply(&change(None, Some(old)));
            }
            for change in changes.iter().cycle().skip(first).take(changes.len()) {
                index.apply(change);
            }
            let found = |text: &str| index.get(&[Datum::scalar(text)]).cloned();
            for (text, uuid) in [("a", 2), ("b", 1), ("c", 4), ("e", 5)] {
                assert_eq!(found(text), row(uuid, text), "{text}");
            }
            assert!(Arc::ptr_eq(&found("e").unwrap(), changes[4].new.as_ref().unwrap()));
            assert_eq!(found("d"), None);
            assert_eq!(index.rows.len(), 4);
        }
    }

    #[test]
    fn of_many_rows_with_one_key_one_is_kept() {
        let schema = nb::schema();
        let (id, table) = schema.table_by_name("Logical_Router_Port").unwrap();
        let mut index = UniqueIndex::new(vec![table.column_id("name").unwrap()]);
        for uuid in 0..100 {
            index.apply(&RowChange {
                table: id,
                old: None,
                new: Some(Arc::new(Row::new(Uuid::from_u128(uuid), table))),
            });
        }
        assert_eq!(index.rows.len(), 1);
        let found = index.get(&[Datum::scalar("")]);
        assert_eq!(found.map(|row| row.uuid), Some(Uuid::from_u128(99)));
    }
}
