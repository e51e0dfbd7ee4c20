//! Errors of the transaction builder.

use std::fmt;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::typed::TypeError;
use uuid::Uuid;

use crate::db::IndexError;

/// Reason why the builder refused a change.
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
        /// Affected row.
        row: AffectedRow,
    },
    /// The column's type does not allow the value.
    #[error("column {column} of table {table} cannot hold {value}{row}: {source}")]
    Value {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// The value as text.
        value: String,
        /// Affected row.
        row: AffectedRow,
        /// Violated constraint of the column's type.
        source: Box<OvsdbError>,
    },
    /// The column is immutable: only the insertion of the row may set it (RFC 7047 §3.2,
    /// `mutable`).
    #[error("column {column} of table {table} is immutable{row}")]
    Immutable {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// Affected row.
        row: AffectedRow,
    },
    /// The change depends on the present row, but the row is neither in the snapshot nor inserted
    /// by this transaction.
    #[error("table {table} has no row {row}")]
    NoRow {
        /// Name of the table.
        table: String,
        /// UUID of the row.
        row: Uuid,
    },
    /// The look-up in an index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// An existing row holds a value that its type cannot represent.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Row that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffectedRow {
    /// A row that the transaction inserts.
    New,
    /// The existing row with this UUID.
    Existing(Uuid),
}

impl fmt::Display for AffectedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str(" (new row)"),
            Self::Existing(uuid) => write!(f, " (row {uuid})"),
        }
    }
}

/// Reason why a transaction cannot be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The operations between two places where a split is allowed exceed the limit.
    #[error("cannot split the transaction: one part has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Length of the request with these operations in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
}
