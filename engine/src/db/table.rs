//! The committed rows of one table.

use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use uuid::Uuid;

use super::change::RowChange;
use super::declared::DeclaredIndex;
use super::index::Index;

/// One version of a table. Clones are cheap and share what is unchanged.
#[derive(Clone, Debug)]
pub struct Table {
    rows: imbl::GenericHashMap<Uuid, Arc<Row>, RandomState, imbl::shared_ptr::DefaultSharedPtr>,
    pub(super) indexes: Vec<Index>,
    /// Those that users of the database declared.
    pub(super) declared: Vec<DeclaredIndex>,
}

impl Table {
    pub(super) fn new(schema: &TableSchema) -> Self {
        Self {
            rows: imbl::GenericHashMap::with_hasher(RandomState::default()),
            indexes: schema.indexes.iter().cloned().map(Index::new).collect(),
            declared: Vec::new(),
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of a UUID.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// All rows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    /// The row with these values in the columns of the schema's `index`-th unique index. O(1).
    pub fn find(&self, index: usize, key: &[Datum]) -> Option<&Arc<Row>> {
        self.get(self.indexes.get(index)?.get(key)?)
    }

    /// Adds an index over the rows that are there.
    pub(super) fn declare(&mut self, mut index: DeclaredIndex) {
        for row in self.rows.values() {
            index.apply(None, Some(row));
        }
        self.declared.push(index);
    }

    /// Removes the index keys that a row loses. All rows of a transaction lose theirs before any gains new ones,
    /// so that rows can swap keys.
    pub(super) fn remove_keys(&mut self, change: &RowChange) {
        let Some(old) = &change.old else { return };
        for index in &mut self.indexes {
            let new = change.new.as_ref();
            if new.is_none_or(|new| !index.same_key(old, new)) {
                index.remove(old);
            }
        }
    }

    /// Puts the new version of a row in the place of the old one and enters the index keys that it gains.
    pub(super) fn apply(&mut self, change: &RowChange) {
        for index in &mut self.declared {
            index.apply(change.old.as_deref(), change.new.as_deref());
        }
        match (&change.old, &change.new) {
            (old, Some(new)) => {
                for index in &mut self.indexes {
                    if old.as_ref().is_none_or(|old| !index.same_key(old, new)) {
                        index.insert(new);
                    }
                }
                self.rows.insert(new.uuid, new.clone());
            }
            (Some(old), None) => {
                self.rows.remove(&old.uuid);
            }
            (None, None) => {}
        }
    }
}
