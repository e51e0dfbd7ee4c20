//! What a database's schema cannot express.

use patchbay_schemas::error::OvsdbError;

/// A change that the database's schema cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The schema has no such table.
    #[error("database {database} has no table {table}")]
    NoTable {
        /// Name of the database.
        database: String,
        /// Name of the table.
        table: String,
    },
    /// The schema has no such column, and the value is not the default.
    #[error("table {table} of database {database} has no column {column} to hold {value}")]
    NoColumn {
        /// Name of the database.
        database: String,
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The value as text.
        value: String,
    },
    /// The column's type refuses the value.
    #[error("column {column} of table {table} cannot hold {value}: {source}")]
    Value {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The value as text.
        value: String,
        /// The schema's complaint.
        source: Box<OvsdbError>,
    },
}
