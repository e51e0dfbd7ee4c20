//! The committed rows of one table.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
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
    rows: imbl::GenericHashMap<ByUuid, (), RandomState, imbl::shared_ptr::DefaultSharedPtr>,
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
        let (row, ()) = self.rows.get_key_value(&uuid)?;
        Some(&row.0)
    }

    /// All rows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.keys().map(|row| &row.0)
    }

    /// The row with these values in the columns of the schema's `index`-th unique index. O(1).
    pub fn find(&self, index: usize, key: &[Datum]) -> Option<&Arc<Row>> {
        self.get(self.indexes.get(index)?.get(key)?)
    }

    /// Adds an index over the rows that are there.
    pub(super) fn declare(&mut self, mut index: DeclaredIndex) {
        for row in self.iter() {
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
                self.rows.insert(ByUuid(new.clone()), ());
            }
            (Some(old), None) => {
                self.rows.remove(&old.uuid);
            }
            (None, None) => {}
        }
    }
}

/// A row in the place of its UUID, which the table has no room for besides.
#[derive(Clone, Debug)]
struct ByUuid(Arc<Row>);

impl PartialEq for ByUuid {
    fn eq(&self, other: &Self) -> bool {
        self.0.uuid == other.0.uuid
    }
}

impl Eq for ByUuid {}

impl Hash for ByUuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.uuid.hash(state);
    }
}

impl Borrow<Uuid> for ByUuid {
    fn borrow(&self) -> &Uuid {
        &self.0.uuid
    }
}
