//! Columns of typed rows in a database's schema.

use std::sync::Arc;

use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use patchbay_schemas::typed::TableRow;

/// For each of [`TableRow::COLUMNS`], the column of the database. `None`: the schema lacks the
/// column.
#[derive(Clone, Debug)]
pub(super) struct TypedColumns(Arc<[Option<ColumnId>]>);

impl TypedColumns {
    pub(super) fn new<T: TableRow>(schema: &TableSchema) -> Self {
        let columns = T::COLUMNS.iter().map(|name| schema.column_id(name));
        Self(columns.collect())
    }

    /// Column at a position of [`TableRow::COLUMNS`]; `None` if the schema lacks it.
    pub(super) fn get(&self, position: usize) -> Option<ColumnId> {
        self.0.get(position).copied().flatten()
    }

    /// Names, columns and values of a typed row.
    pub(super) fn values<T: TableRow>(
        &self,
        row: &T,
    ) -> impl Iterator<Item = (&'static str, Option<ColumnId>, Datum)> {
        let columns = T::COLUMNS.iter().zip(&*self.0).zip(row.to_data());
        columns.map(|((name, column), datum)| (*name, *column, datum))
    }
}
