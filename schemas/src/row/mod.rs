//! Rows.

mod values;

pub use values::Values;
pub(crate) use values::ValuesBuilder;

use std::borrow::Cow;

use uuid::Uuid;

use crate::atom::Atom;
use crate::datum::Datum;
use crate::schema::{ColumnId, TableSchema};

/// One version of one row: a value for each column, in the order of the table's schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which row.
    pub uuid: Uuid,
    /// Changes with every commit that changes the row.
    pub version: Uuid,
    /// The columns, by [`ColumnId`].
    pub values: Values,
}

impl Row {
    /// A row with all columns at their defaults.
    pub fn new(uuid: Uuid, table: &TableSchema) -> Self {
        Self {
            uuid,
            version: Uuid::nil(),
            values: Values::new(table, []),
        }
    }

    /// The value of a column, `_uuid` and `_version` included.
    pub fn get(&self, column: ColumnId) -> Cow<'_, Datum> {
        match column {
            ColumnId::UUID => Cow::Owned(Datum::scalar(self.uuid)),
            ColumnId::VERSION => Cow::Owned(Datum::scalar(self.version)),
            column => self
                .values
                .get(column)
                .map_or(Cow::Owned(Datum::EMPTY_SET), Cow::Borrowed),
        }
    }
    /// Sets a column. A row keeps its UUID whatever is said.
    pub fn set(&mut self, column: ColumnId, datum: Datum) {
        if column == ColumnId::VERSION {
            let version = datum.as_scalar().and_then(Atom::as_uuid);
            self.version = version.unwrap_or(self.version);
        } else if let Some(value) = self.values.get_mut(column) {
            *value = datum;
        }
    }
}
