//! Typed views of tables.

use std::marker::PhantomData;
use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use super::table::Table;

/// Rows of one table as `T`s, from [`Snapshot::typed`](super::Snapshot::typed).
///
/// Columns that the database's schema lacks read as their defaults.
#[derive(Debug)]
pub struct TypedTable<'a, T> {
    /// `None`: the schema has no such table.
    table: Option<&'a Table>,
    /// For each of `T`'s columns, the column of this database. `None`: the schema lacks the column.
    columns: Vec<Option<ColumnId>>,
    row: PhantomData<fn() -> T>,
}

impl<'a, T: TableRow> TypedTable<'a, T> {
    pub(super) fn new(table: Option<(&TableSchema, &'a Table)>) -> Self {
        let columns = table.map_or_else(Vec::new, |(schema, _)| {
            T::COLUMNS.iter().map(|c| schema.column_id(c)).collect()
        });
        Self { table: table.map(|(_, table)| table), columns, row: PhantomData }
    }

    /// `true` if the database's schema has this table.
    pub fn exists(&self) -> bool {
        self.table.is_some()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.map_or(0, Table::len)
    }

    /// `true` if the table has no rows or the schema has no such table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row with a UUID. O(1).
    ///
    /// # Errors
    /// The row holds a value that `T` cannot represent.
    pub fn get(&self, uuid: Uuid) -> Result<Option<T>, TypeError> {
        let row = self.table.and_then(|table| table.get(uuid));
        row.map(|row| self.read(row)).transpose()
    }

    /// All rows with their references, in no particular order. A row with a value that `T` cannot
    /// represent yields an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let rows = self.table.into_iter().flat_map(Table::iter);
        rows.map(|row| Ok((Ref::new(row.uuid), self.read(row)?)))
    }

    /// The untyped rows in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = &'a Arc<Row>> {
        self.table.into_iter().flat_map(Table::iter)
    }

    /// Reads a row of this table as a `T`.
    ///
    /// # Errors
    /// The row holds a value that `T` cannot represent.
    pub fn read(&self, row: &Row) -> Result<T, TypeError> {
        T::from_data(|place| row.values.get(self.columns.get(place).copied().flatten()?))
    }
}
