//! Rows and the values of their columns.

mod load_ahead;
mod values;

pub use load_ahead::load_ahead;
pub use values::Values;
pub(crate) use values::ValuesBuilder;

use std::borrow::Cow;

use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::Datum;
use crate::schema::{ColumnId, TableSchema};

/// Version of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The `_uuid` column.
    pub uuid: Uuid,
    /// The `_version` column. Each commit that changes the row replaces it.
    pub version: Uuid,
    /// The other columns, by [`ColumnId`].
    pub values: Values,
}

impl Row {
    /// Returns a row with default values.
    pub fn new(uuid: Uuid, table: &TableSchema) -> Self {
        Self { uuid, version: Uuid::nil(), values: Values::new(table, []) }
    }

    /// Returns the value of a column, including `_uuid` and `_version`. The empty set if the table
    /// lacks the column.
    pub fn get(&self, column: ColumnId) -> Cow<'_, Datum> {
        match column {
            ColumnId::UUID => Cow::Owned(Datum::scalar(self.uuid)),
            ColumnId::VERSION => Cow::Owned(Datum::scalar(self.version)),
            column => self.values.get(column).map_or(Cow::Owned(Datum::EMPTY_SET), Cow::Borrowed),
        }
    }

    /// `true` if the value of a column, including `_uuid` and `_version`, is the default of its
    /// type. `table` is the table of the row.
    pub fn is_default(&self, column: ColumnId, table: &TableSchema) -> bool {
        self.values.is_absent(column) || table.column_type(column).is_default(&self.get(column))
    }

    /// Sets the value of a column, including `_version`. Has no effect on `_uuid` and on columns
    /// that the table lacks.
    pub fn set(&mut self, column: ColumnId, datum: Datum) {
        if column == ColumnId::VERSION {
            let version = datum.as_scalar().and_then(Atom::as_uuid);
            self.version = version.unwrap_or(self.version);
        } else if let Some(value) = self.values.get_mut(column) {
            *value = datum;
        }
    }
}
