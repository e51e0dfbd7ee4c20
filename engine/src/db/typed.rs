//! Typed views of tables.

use std::marker::PhantomData;
use std::sync::Arc;

use patchbay_schemas::row::Row;
use patchbay_schemas::schema::ColumnId;
use patchbay_schemas::typed::{Ref, TableRow, TypeError};
use uuid::Uuid;

use super::snapshot::Snapshot;
use super::table::Table;

/// The rows of one table as `T`s. Columns that the database's schema lacks get their defaults.
#[derive(Debug)]
pub struct TypedTable<'a, T> {
    table: Option<&'a Table>,
    /// For each of `T`'s columns, its place in this database's rows.
    columns: Vec<Option<ColumnId>>,
    row: PhantomData<fn() -> T>,
}

impl<'a, T: TableRow> TypedTable<'a, T> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let found = snapshot.schema().table_by_name(T::TABLE);
        let columns = found.map_or_else(Vec::new, |(_, table)| {
            T::COLUMNS.iter().map(|c| table.column_id(c)).collect()
        });
        Self {
            table: found.map(|(id, _)| snapshot.table(id)),
            columns,
            row: PhantomData,
        }
    }

    /// Whether the database's schema has this table.
    pub fn exists(&self) -> bool {
        self.table.is_some()
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.table.map_or(0, Table::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row of a UUID.
    ///
    /// # Errors
    /// The row holds values that `T` cannot.
    pub fn get(&self, uuid: Uuid) -> Result<Option<T>, TypeError> {
        let row = self.table.and_then(|table| table.get(uuid));
        row.map(|row| self.read(row)).transpose()
    }

    /// All rows with their references, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Ref<T>, T), TypeError>> {
        let rows = self.table.into_iter().flat_map(Table::iter);
        rows.map(|row| Ok((Ref::new(row.uuid), self.read(row)?)))
    }

    /// The untyped rows, in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = &'a Arc<Row>> {
        self.table.into_iter().flat_map(Table::iter)
    }

    /// A row as a `T`.
    ///
    /// # Errors
    /// The row holds values that `T` cannot.
    pub fn read(&self, row: &Row) -> Result<T, TypeError> {
        T::from_data(|place| row.values.get(self.columns.get(place).copied().flatten()?))
    }
}
