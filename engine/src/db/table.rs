//! Committed rows of one table.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableId, TableSchema};
use patchbay_schemas::wire::Condition;
use uuid::Uuid;

use super::change::RowChange;
use super::declared_index::DeclaredIndex;
use super::unique_index::{KeyHashes, UniqueIndex};

/// Version of a table. Clones are cheap and share unchanged parts.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Rows,
    /// Unique indexes of the schema, in the schema's order.
    pub(super) unique_indexes: Vec<UniqueIndex>,
    /// Indexes that users of the database declared.
    pub(super) declared_indexes: Vec<DeclaredIndex>,
}

/// Rows by their UUIDs.
pub(super) type Rows =
    imbl::GenericHashMap<RowByUuid, (), RandomState, imbl::shared_ptr::DefaultSharedPtr>;

impl Table {
    pub(super) fn new(schema: &TableSchema) -> Self {
        let columns = schema.indexes.iter().cloned();
        Self {
            rows: imbl::GenericHashMap::with_hasher(RandomState::default()),
            unique_indexes: columns.map(UniqueIndex::new).collect(),
            declared_indexes: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// `true` if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row with a UUID. O(1).
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        let (row, ()) = self.rows.get_key_value(&uuid)?;
        Some(&row.0)
    }

    /// All rows in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.keys().map(|row| &row.0)
    }

    /// The row with the given values in the columns of a unique index. O(1).
    ///
    /// `index` is the position of the index in the table's schema, from 0. `key` has one value for
    /// each column of the index.
    pub fn find(&self, index: usize, key: &[Datum]) -> Option<&Arc<Row>> {
        self.unique_indexes.get(index)?.get(key)
    }

    /// `true` if at most one committed row has to be compared with a condition, because the
    /// condition names a UUID or all columns of a unique index.
    pub fn is_lookup(&self, condition: &Condition) -> bool {
        condition.as_uuid().is_some() || self.index_of(condition).is_some()
    }

    /// Position of a unique index of which a condition names all columns.
    fn index_of(&self, condition: &Condition) -> Option<usize> {
        let is_named = |column: &ColumnId| condition.equal_value(*column).is_some();
        self.unique_indexes.iter().position(|index| index.columns.iter().all(is_named))
    }

    /// The row, if it exists, with the key of a unique index that a condition names. `None`: there
    /// is no index of which the condition names all columns.
    pub(super) fn find_named(
        &self,
        condition: &Condition,
    ) -> Option<impl Iterator<Item = &Arc<Row>>> {
        let index = self.index_of(condition)?;
        let columns = self.unique_indexes[index].columns.iter();
        let key: Vec<Datum> =
            columns.filter_map(|column| condition.equal_value(*column).cloned()).collect();
        Some(self.find(index, &key).into_iter())
    }

    /// Adds an index and fills it with the present rows.
    pub(super) fn declare_index(&mut self, mut index: DeclaredIndex) {
        for row in self.iter() {
            index.apply(None, Some(row));
        }
        self.declared_indexes.push(index);
    }

    /// Replaces the old version of a row by the new one.
    pub(super) fn apply(&mut self, change: &RowChange) {
        for mut part in self.parts() {
            part.apply(change);
        }
    }

    /// The rows and each index, which may be changed by different threads. The parts that take
    /// longest come first.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = TablePart<'_>> {
        let unique = self
            .unique_indexes
            .iter_mut()
            .enumerate()
            .map(|(place, index)| TablePart::Unique(place, index));
        let declared = self.declared_indexes.iter_mut().map(TablePart::Declared);
        let indexes = declared.chain(unique);
        indexes.chain([TablePart::Rows(&mut self.rows)])
    }
}

/// Part of a table that changes independently of the others.
pub(super) enum TablePart<'t> {
    Rows(&'t mut Rows),
    /// Unique index, with its place in the table's schema.
    Unique(usize, &'t mut UniqueIndex),
    Declared(&'t mut DeclaredIndex),
}

impl TablePart<'_> {
    /// Replaces the old version of a row by the new one.
    pub(super) fn apply(&mut self, change: &RowChange) {
        match self {
            Self::Rows(rows) => replace_row(rows, change),
            Self::Unique(_, index) => index.apply(change),
            Self::Declared(index) => index.apply(change.old.as_deref(), change.new.as_deref()),
        }
    }

    /// Replaces the old versions of many rows of the table by the new ones.
    pub(super) fn apply_many<'c>(
        &mut self,
        table: TableId,
        changes: impl Iterator<Item = &'c RowChange>,
        key_hashes: &KeyHashes,
    ) {
        match self {
            Self::Unique(place, index) => match key_hashes.of(table, *place) {
                Some(hashes) => index.fill(changes.filter_map(|one| one.new.as_ref()), hashes),
                None => changes.for_each(|change| index.apply(change)),
            },
            part => changes.for_each(|change| part.apply(change)),
        }
    }
}

/// Replaces the old version of a row by the new one.
fn replace_row(rows: &mut Rows, change: &RowChange) {
    match (&change.old, &change.new) {
        (_, Some(new)) => {
            rows.insert(RowByUuid(new.clone()), ());
        }
        (Some(old), None) => {
            rows.remove(&old.uuid);
        }
        (None, None) => {}
    }
}

/// Row that is hashed and compared by its UUID, so that the table stores no second copy of the
/// UUID.
#[derive(Clone, Debug)]
pub(super) struct RowByUuid(Arc<Row>);

impl PartialEq for RowByUuid {
    fn eq(&self, other: &Self) -> bool {
        self.0.uuid == other.0.uuid
    }
}

impl Eq for RowByUuid {}

impl Hash for RowByUuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.uuid.hash(state);
    }
}

impl Borrow<Uuid> for RowByUuid {
    fn borrow(&self) -> &Uuid {
        &self.0.uuid
    }
}
