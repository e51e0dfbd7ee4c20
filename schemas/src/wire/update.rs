//! Decoding of `<table-updates>`: the content of `update`, `update2` and `update3`, and of the
//! first reply of a monitor.

use std::sync::Arc;

use uuid::Uuid;

use crate::delta::Delta;
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::row::Row;
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::streaming::StreamedRows;
use crate::strings::StringCache;

use super::monitor::MonitorVersion;
use super::operation::ColumnValues;
use super::row_update_reader::{LastRow, RowReader, malformed, value_error};

/// Change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowUpdate {
    /// The row exists when the monitor starts (`initial`) or was inserted (`insert`). Omitted
    /// columns have their defaults.
    Insert(Arc<Row>),
    /// New values of columns ([`MonitorVersion::V1`]). Some may be unchanged.
    Update(ColumnValues),
    /// Differences of columns ([`MonitorVersion::V2`] and later). There may be none.
    Modify(Vec<(ColumnId, Delta)>),
    /// The row was deleted.
    Delete,
}

/// Reason why an update cannot be decoded or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The schema lacks the table.
    #[error("update of unknown table {0}")]
    UnknownTable(String),
    /// The JSON does not have the form of an update.
    #[error("malformed update{}: {problem}", .table.as_ref().map(|table| format!(" of table {table}")).unwrap_or_default())]
    Malformed {
        /// The table, if it is known.
        table: Option<Arc<str>>,
        /// Description.
        problem: &'static str,
    },
    /// A value does not have the type of its column.
    #[error("update of row {row} in table {table}: column {column}: {error}")]
    Value {
        /// Table.
        table: Arc<str>,
        /// Row.
        row: Uuid,
        /// Column.
        column: Arc<str>,
        /// The violation.
        error: OvsdbError,
    },
    /// The update contradicts the updates before it.
    #[error("update of row {row} in table {table}: {problem}")]
    Contradiction {
        /// Table.
        table: Arc<str>,
        /// Row.
        row: Uuid,
        /// Description.
        problem: &'static str,
    },
}

impl RowUpdate {
    /// Applies the update to the version `old` of the row `uuid`. `None`: the row is deleted.
    ///
    /// Without a change the result is `old` itself.
    ///
    /// # Errors
    /// An existing row is inserted, a missing row is changed or deleted, or a difference does not
    /// fit the value.
    pub fn apply(
        self,
        table: &TableSchema,
        uuid: Uuid,
        old: Option<&Arc<Row>>,
    ) -> Result<Option<Arc<Row>>, UpdateError> {
        let contradiction =
            |problem| UpdateError::Contradiction { table: table.name.clone(), row: uuid, problem };
        let Some(old) = old else {
            return match self {
                Self::Insert(row) => Ok(Some(row)),
                _ => Err(contradiction("it is changed or deleted but is not there")),
            };
        };
        let changes = match self {
            Self::Insert(_) => return Err(contradiction("it is inserted but is there already")),
            Self::Delete => return Ok(None),
            Self::Update(values) => values,
            Self::Modify(deltas) => {
                let apply = |(column, delta): (ColumnId, Delta)| {
                    let new = delta.apply(&old.get(column), table.column_type(column));
                    Ok((column, new.map_err(|error| value_error(table, uuid, column, error))?))
                };
                deltas.into_iter().map(apply).collect::<Result<_, _>>()?
            }
        };
        let mut new = old.clone();
        for (column, value) in changes {
            if *old.get(column) != value {
                Arc::make_mut(&mut new).set(column, value);
            }
        }
        Ok(Some(new))
    }
}

/// Iterator over the rows of a `<table-updates>`, decoded without building a tree. It ends after
/// the first error.
///
/// ```
/// use patchbay_schemas::json::{Reader, TextBuf};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::strings::StringCache;
/// use patchbay_schemas::wire::{MonitorVersion, RowUpdate, UpdateReader};
///
/// let text = TextBuf::parse(br#"{"Logical_Switch":{
///     "550e8400-e29b-41d4-a716-446655440000":{"insert":{"name":"sw0","later":1}},
///     "550e8400-e29b-41d4-a716-446655440001":{"delete":null}}}"#.to_vec())?;
/// let (schema, mut strings) = (nb::schema(), StringCache::default());
/// let reader = Reader::new(text.as_text());
/// let mut updates = UpdateReader::new(reader, &schema, MonitorVersion::V2, &mut strings);
/// let rows = updates.by_ref().collect::<Result<Vec<_>, _>>()?;
/// assert!(matches!(rows[0].2, RowUpdate::Insert(_)));
/// assert!(matches!(rows[1].2, RowUpdate::Delete));
/// assert_eq!(updates.unknown_columns().collect::<Vec<_>>(), ["Logical_Switch.later"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UpdateReader<'a> {
    reader: Reader<'a>,
    schema: &'a DatabaseSchema,
    rows: RowReader<'a>,
    position: Position,
    /// Rows that were removed from the text and decoded earlier.
    streamed: StreamedRows,
    /// Streamed rows of the current table, which precede the next row of the text.
    streamed_rows: std::iter::Flatten<std::vec::IntoIter<Vec<(Uuid, RowUpdate)>>>,
    streamed_error: Option<UpdateError>,
}

/// Position of the reader.
#[derive(Clone, Copy)]
enum Position {
    Start,
    /// Between two tables.
    Tables,
    /// Between two rows of a table.
    Rows(TableId),
    End,
}

impl<'a> UpdateReader<'a> {
    /// Returns an iterator over the `<table-updates>` that is the next value of `reader`.
    pub fn new(
        reader: Reader<'a>,
        schema: &'a DatabaseSchema,
        version: MonitorVersion,
        strings: &'a mut StringCache,
    ) -> Self {
        Self {
            reader,
            schema,
            rows: RowReader::new(version, strings),
            position: Position::Start,
            streamed: StreamedRows::default(),
            streamed_rows: Vec::new().into_iter().flatten(),
            streamed_error: None,
        }
    }

    /// Adds the rows that were removed from the text while it was being received.
    #[must_use]
    pub fn with_streamed(self, streamed: StreamedRows) -> Self {
        Self { streamed, ..self }
    }

    /// Iterates over the columns that the schema lacks, as `table.column`. Their values were
    /// skipped.
    pub fn unknown_columns(&self) -> impl Iterator<Item = &str> {
        self.rows.unknown_columns.iter().map(String::as_str)
    }

    fn next_row(&mut self) -> Result<Option<(TableId, Uuid, RowUpdate)>, UpdateError> {
        loop {
            match self.position {
                Position::Start => {
                    if !self.reader.enter_object() {
                        return Err(malformed(None, "it is not an object"));
                    }
                    self.position = Position::Tables;
                }
                Position::Tables => {
                    let Some(name) = self.reader.next_member() else {
                        return Ok(None);
                    };
                    let name = String::from_utf8_lossy(&name);
                    let Some((id, table)) = self.schema.table_by_name(&name) else {
                        return Err(UpdateError::UnknownTable(name.into_owned()));
                    };
                    if !self.reader.enter_object() {
                        return Err(malformed(Some(table), "it is not an object"));
                    }
                    self.position = Position::Rows(id);
                    self.rows.last = LastRow::default();
                    if let Some(table) = self.streamed.take_table(self.reader.position()) {
                        self.streamed_rows = table.rows.into_iter().flatten();
                        self.streamed_error = table.error;
                        self.rows.last = table.last;
                        self.rows.unknown_columns.extend(table.unknown_columns);
                    }
                }
                Position::Rows(id) => {
                    if let Some((uuid, update)) = self.streamed_rows.next() {
                        return Ok(Some((id, uuid, update)));
                    }
                    if let Some(error) = self.streamed_error.take() {
                        return Err(error);
                    }
                    let table = self.schema.table(id);
                    let Some((uuid, update)) = self.rows.next(&mut self.reader, table)? else {
                        self.position = Position::Tables;
                        continue;
                    };
                    return Ok(Some((id, uuid, update)));
                }
                Position::End => return Ok(None),
            }
        }
    }
}

impl Iterator for UpdateReader<'_> {
    type Item = Result<(TableId, Uuid, RowUpdate), UpdateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_row().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.position = Position::End;
        }
        next
    }
}
