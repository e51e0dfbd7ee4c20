//! Checks of changes against the schema.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{ColumnId, TableId, TableSchema};
use patchbay_schemas::wire::ColumnValues;
use uuid::Uuid;

use super::builder::TxnBuilder;
use super::error::{AffectedRow, BuildError};
use super::pending_row::PendingRow;
use super::value_check::{check_value, is_default};

impl TxnBuilder {
    /// Row for an error: new or existing.
    pub(super) fn row_name(&self, row: Uuid) -> AffectedRow {
        if self.placeholders.contains(&row) { AffectedRow::New } else { AffectedRow::Existing(row) }
    }

    pub(super) fn table(&self, name: &str) -> Result<TableId, BuildError> {
        let schema = self.snapshot.schema();
        schema.table_id(name).ok_or_else(|| BuildError::NoTable {
            database: schema.name.clone(),
            table: name.to_owned(),
        })
    }

    /// Checks values of a row and looks their columns up. Default values of columns that the schema
    /// lacks are left out.
    pub(super) fn column_values<'a>(
        &self,
        table: TableId,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<ColumnValues, BuildError> {
        values
            .into_iter()
            .filter_map(|(name, datum)| {
                self.value(table, self.row_name(row), name, datum).transpose()
            })
            .collect()
    }

    /// Checks a value of a column. Returns `None` for a default value of a column that the schema
    /// lacks.
    pub(super) fn value(
        &self,
        table: TableId,
        row: AffectedRow,
        column: &str,
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let id = self.snapshot.schema().table(table).column_id(column);
        self.checked(table, row, (column, id), datum)
    }

    /// Checks a value of a column whose id was looked up.
    pub(super) fn checked(
        &self,
        table: TableId,
        row: AffectedRow,
        (column, id): (&str, Option<ColumnId>),
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let schema = self.snapshot.schema().table(table);
        let Some(id) = id else {
            return if is_default(&datum) {
                Ok(None)
            } else {
                Err(self.no_column_error(table, row, column, &datum))
            };
        };
        match check_value(&datum, schema.column_type(id)) {
            Ok(()) => Ok(Some((id, datum))),
            Err(source) => Err(self.value_error(table, row, id, datum.to_string(), source)),
        }
    }

    /// Checks that a column may change. Immutable columns may change until the insertion of the row
    /// is sealed.
    pub(super) fn check_mutable(
        &self,
        table: TableId,
        row: Uuid,
        column: ColumnId,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().table(table);
        if schema.is_mutable(column) || self.operations.has_open_insert(table, row) {
            return Ok(());
        }
        Err(BuildError::Immutable {
            table: schema.name.to_string(),
            column: schema.column_name(column).to_owned(),
            row: self.row_name(row),
        })
    }

    pub(super) fn no_column_error(
        &self,
        table: TableId,
        row: AffectedRow,
        column: &str,
        datum: &Datum,
    ) -> BuildError {
        let schema = self.snapshot.schema();
        BuildError::NoColumn {
            database: schema.name.clone(),
            table: schema.table(table).name.to_string(),
            column: column.to_owned(),
            value: datum.to_string(),
            row,
        }
    }

    pub(super) fn value_error(
        &self,
        table: TableId,
        row: AffectedRow,
        column: ColumnId,
        value: String,
        source: OvsdbError,
    ) -> BuildError {
        let schema = self.snapshot.schema().table(table);
        value_error(schema, row, column, value, source)
    }

    /// A row as the collected operations leave it.
    ///
    /// # Errors
    /// The row does not exist, or a mutation of it failed.
    pub(super) fn pending_row(
        &mut self,
        table: TableId,
        row: Uuid,
    ) -> Result<PendingRow<'_>, BuildError> {
        let name = self.row_name(row);
        let schema = self.snapshot.schema().table(table);
        let base = self.snapshot.row(table, row).map(|row| &**row);
        match self.operations.pending_row(schema, (table, row), base) {
            Ok(Some(pending)) => Ok(pending),
            Ok(None) => Err(BuildError::NoRow { table: schema.name.to_string(), row }),
            Err((column, source)) => {
                let value = "the result".to_owned();
                Err(value_error(schema, name, column, value, source))
            }
        }
    }
}

fn value_error(
    schema: &TableSchema,
    row: AffectedRow,
    column: ColumnId,
    value: String,
    source: OvsdbError,
) -> BuildError {
    BuildError::Value {
        table: schema.name.to_string(),
        column: schema.column_name(column).to_owned(),
        value,
        row,
        source: Box::new(source),
    }
}
