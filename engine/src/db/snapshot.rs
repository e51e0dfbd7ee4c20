//! What readers see.

use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use super::change::ChangeSet;
use super::table::Table;
use super::typed::TypedTable;

/// One committed state of a database. Clones are cheap; nothing changes under a reader.
#[derive(Clone, Debug)]
pub struct Snapshot {
    schema: Arc<DatabaseSchema>,
    pub(super) tables: Arc<Vec<Table>>,
}

impl Snapshot {
    /// An empty database.
    pub fn empty(schema: Arc<DatabaseSchema>) -> Self {
        let tables = Arc::new(schema.tables.iter().map(Table::new).collect());
        Self { schema, tables }
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// A table.
    ///
    /// # Panics
    /// When the id is of another schema.
    pub fn table(&self, table: TableId) -> &Table {
        &self.tables[table.index()]
    }

    /// A row.
    pub fn row(&self, table: TableId, uuid: Uuid) -> Option<&Arc<Row>> {
        self.table(table).get(uuid)
    }

    /// A table as typed rows; without rows when the schema has no such table.
    pub fn typed<T: TableRow>(&self) -> TypedTable<'_, T> {
        TypedTable::new(self)
    }

    /// The typed row that a reference points at.
    ///
    /// # Errors
    /// The row holds values that `T` cannot.
    pub fn get<T: TableRow>(&self, reference: Ref<T>) -> Result<Option<T>, TypeError> {
        self.typed::<T>().get(reference.uuid)
    }

    /// How many rows all tables hold.
    pub fn row_count(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Puts new versions of rows in the place of old ones, without any check.
    pub(crate) fn apply(&mut self, changes: &ChangeSet) {
        let tables = Arc::make_mut(&mut self.tables);
        for change in &changes.rows {
            tables[change.table.index()].remove_keys(change.old.as_ref(), change.new.as_ref());
        }
        for change in &changes.rows {
            tables[change.table.index()].apply(change.old.as_ref(), change.new.as_ref());
        }
    }
}
