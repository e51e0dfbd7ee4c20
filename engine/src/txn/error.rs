//! What a database's schema cannot express.

use std::fmt;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::typed::TypeError;
use uuid::Uuid;

use crate::db::IndexError;

/// A change that cannot be made.
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
    #[error("table {table} of database {database} has no column {column} to hold {value}{row}")]
    NoColumn {
        /// Name of the database.
        database: String,
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The value as text.
        value: String,
        /// The row.
        row: RowName,
    },
    /// The column's type refuses the value.
    #[error("column {column} of table {table} cannot hold {value}{row}: {source}")]
    Value {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The value as text.
        value: String,
        /// The row.
        row: RowName,
        /// The schema's complaint.
        source: Box<OvsdbError>,
    },
    /// A column that is set once, when the row is inserted, was to be changed.
    #[error("column {column} of table {table} never changes{row}")]
    Immutable {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The row.
        row: RowName,
    },
    /// A row was to be changed from what it is, but is neither in the snapshot nor inserted by this transaction.
    #[error("table {table} has no row {row}")]
    NoRow {
        /// Name of the table.
        table: String,
        /// The row.
        row: Uuid,
    },
    /// The index by which a row was looked for does not tell.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A row that is there holds values that its type cannot.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Which row an error is about: one that is there, or one that the transaction makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowName {
    /// One that the transaction inserts.
    New,
    /// One of this UUID.
    Existing(Uuid),
}

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str(" (new row)"),
            Self::Existing(uuid) => write!(f, " (row {uuid})"),
        }
    }
}

/// Why a transaction cannot be split into parts that are small enough.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// What is between two places where the transaction may be split is too large.
    #[error("{bytes} bytes of the transaction must go together, the limit is {limit}")]
    TooLarge {
        /// The length of the request.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}
