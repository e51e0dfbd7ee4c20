//! Whether the schema can express a change.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{ColumnId, TableId, TableSchema};
use uuid::Uuid;

use super::error::RowName;
use super::so_far::SoFar;
use super::value::{check, is_default};
use super::{BuildError, TxnBuilder};

impl TxnBuilder {
    /// Whether the transaction makes a row or it is there already.
    pub(super) fn name(&self, row: Uuid) -> RowName {
        if self.placeholders.contains(&row) {
            RowName::New
        } else {
            RowName::Existing(row)
        }
    }

    pub(super) fn table(&self, name: &str) -> Result<TableId, BuildError> {
        let schema = self.snapshot.schema();
        schema.table_id(name).ok_or_else(|| BuildError::NoTable {
            database: schema.name.clone(),
            table: name.to_owned(),
        })
    }

    /// A value that the schema can hold; none for a default value of a column that the schema lacks.
    pub(super) fn value(
        &self,
        table: TableId,
        row: RowName,
        column: &str,
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let id = self.snapshot.schema().table(table).column_id(column);
        self.checked(table, row, (column, id), datum)
    }

    /// The same of a column that was looked up.
    pub(super) fn checked(
        &self,
        table: TableId,
        row: RowName,
        (column, id): (&str, Option<ColumnId>),
        datum: Datum,
    ) -> Result<Option<(ColumnId, Datum)>, BuildError> {
        let schema = self.snapshot.schema().table(table);
        let Some(id) = id else {
            return if is_default(&datum) {
                Ok(None)
            } else {
                Err(self.no_column(table, row, column, &datum))
            };
        };
        match check(&datum, schema.column_type(id)) {
            Ok(()) => Ok(Some((id, datum))),
            Err(source) => Err(self.refused(table, row, id, datum.to_string(), source)),
        }
    }

    /// Whether a column may be changed after its row was inserted.
    pub(super) fn may_change(
        &self,
        table: TableId,
        row: Uuid,
        column: ColumnId,
    ) -> Result<(), BuildError> {
        let schema = self.snapshot.schema().table(table);
        if schema.is_mutable(column) || self.operations.is_inserted(table, row) {
            return Ok(());
        }
        Err(BuildError::Immutable {
            table: schema.name.to_string(),
            column: schema.column_name(column).to_owned(),
            row: self.name(row),
        })
    }

    pub(super) fn no_column(
        &self,
        table: TableId,
        row: RowName,
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

    pub(super) fn refused(
        &self,
        table: TableId,
        row: RowName,
        column: ColumnId,
        value: String,
        source: OvsdbError,
    ) -> BuildError {
        let schema = self.snapshot.schema().table(table);
        refused(schema, row, column, value, source)
    }

    /// A row as the transaction has it so far.
    ///
    /// # Errors
    /// There is no such row, or changes to it cannot be made.
    pub(super) fn row_so_far(
        &mut self,
        table: TableId,
        row: Uuid,
    ) -> Result<SoFar<'_>, BuildError> {
        let name = self.name(row);
        let schema = self.snapshot.schema().table(table);
        let base = self.snapshot.row(table, row).map(|row| &**row);
        match self.operations.row_so_far(schema, (table, row), base) {
            Ok(Some(so_far)) => Ok(so_far),
            Ok(None) => Err(BuildError::NoRow {
                table: schema.name.to_string(),
                row,
            }),
            Err((column, source)) => {
                let value = "the result".to_owned();
                Err(refused(schema, name, column, value, source))
            }
        }
    }
}

fn refused(
    schema: &TableSchema,
    row: RowName,
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
