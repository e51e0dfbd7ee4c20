//! What monitors report, read: the bodies of `update`, `update2` and `update3` and of a monitor's first reply.

use std::sync::Arc;

use uuid::Uuid;

use crate::delta::Delta;
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::row::Row;
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::strings::Strings;

use super::arrived::ArrivedRows;
use super::monitor::MonitorVersion;
use super::operation::ColumnValues;
use super::update_row::{LastRow, RowReader, malformed, value_error};

/// What happened to one row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowUpdate {
    /// It is there: since the monitor began (`initial`) or from now on (`insert`). What was not said
    /// is the default.
    Insert(Arc<Row>),
    /// Columns have these values now ([`MonitorVersion::V1`]); some may have had them before.
    Update(ColumnValues),
    /// Columns differ ([`MonitorVersion::V2`] and later). There may be none.
    Modify(Vec<(ColumnId, Delta)>),
    /// It is gone.
    Delete,
}

/// Why an update cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// It names a table that the schema lacks.
    #[error("update of unknown table {0}")]
    UnknownTable(String),
    /// It has not the shape of one.
    #[error("malformed update{}: {problem}", .table.as_ref().map(|table| format!(" of table {table}")).unwrap_or_default())]
    Malformed {
        /// In this table, where that is known.
        table: Option<Arc<str>>,
        /// What is wrong.
        problem: &'static str,
    },
    /// A value is not what the column's type says.
    #[error("update of row {row} in table {table}: column {column}: {error}")]
    Value {
        /// Table.
        table: Arc<str>,
        /// Row.
        row: Uuid,
        /// Column.
        column: Arc<str>,
        /// What is wrong.
        error: OvsdbError,
    },
    /// It does not follow from what was reported before.
    #[error("update of row {row} in table {table}: {problem}")]
    Contradiction {
        /// Table.
        table: Arc<str>,
        /// Row.
        row: Uuid,
        /// What is wrong.
        problem: &'static str,
    },
}

impl RowUpdate {
    /// The version of the row `uuid` that follows `old`; none when it is deleted. Without a change it is `old`.
    ///
    /// # Errors
    /// A row that is there is inserted, one that is not is changed or deleted, or a difference does not fit.
    pub fn apply(
        self,
        table: &TableSchema,
        uuid: Uuid,
        old: Option<&Arc<Row>>,
    ) -> Result<Option<Arc<Row>>, UpdateError> {
        let contradiction = |problem| UpdateError::Contradiction {
            table: table.name.clone(),
            row: uuid,
            problem,
        };
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
                    Ok((
                        column,
                        new.map_err(|error| value_error(table, uuid, column, error))?,
                    ))
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

/// Reads a `<table-updates>` row by row, without building a tree. Ends after the first error.
///
/// ```
/// use patchbay_schemas::json::{Reader, TextBuf};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::strings::Strings;
/// use patchbay_schemas::wire::{MonitorVersion, RowUpdate, UpdateReader};
///
/// let text = TextBuf::parse(br#"{"Logical_Switch":{
///     "550e8400-e29b-41d4-a716-446655440000":{"insert":{"name":"sw0","later":1}},
///     "550e8400-e29b-41d4-a716-446655440001":{"delete":null}}}"#.to_vec())?;
/// let (schema, mut strings) = (nb::schema(), Strings::default());
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
    place: Place,
    /// What was taken out of the text before.
    arrived: ArrivedRows,
    /// What of that comes before the next row.
    early: std::iter::Flatten<std::vec::IntoIter<Vec<(Uuid, RowUpdate)>>>,
    early_error: Option<UpdateError>,
}

/// Where the reader is.
#[derive(Clone, Copy)]
enum Place {
    Start,
    /// Among the tables.
    Tables,
    /// Among the rows of a table.
    Rows(TableId),
    End,
}

impl<'a> UpdateReader<'a> {
    /// Begins at the `<table-updates>` that `reader` reads next.
    pub fn new(
        reader: Reader<'a>,
        schema: &'a DatabaseSchema,
        version: MonitorVersion,
        strings: &'a mut Strings,
    ) -> Self {
        Self {
            reader,
            schema,
            rows: RowReader::new(version, strings),
            place: Place::Start,
            arrived: ArrivedRows::default(),
            early: Vec::new().into_iter().flatten(),
            early_error: None,
        }
    }

    /// The same with what was taken out of the text before.
    #[must_use]
    pub fn with_arrived(self, arrived: ArrivedRows) -> Self {
        Self { arrived, ..self }
    }

    /// The columns that the schema lacks, as `table.column`; their values were skipped.
    pub fn unknown_columns(&self) -> impl Iterator<Item = &str> {
        self.rows.unknown_columns.iter().map(String::as_str)
    }

    fn next_row(&mut self) -> Result<Option<(TableId, Uuid, RowUpdate)>, UpdateError> {
        loop {
            match self.place {
                Place::Start => {
                    if !self.reader.enter_object() {
                        return Err(malformed(None, "it is not an object"));
                    }
                    self.place = Place::Tables;
                }
                Place::Tables => {
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
                    self.place = Place::Rows(id);
                    self.rows.last = LastRow::default();
                    if let Some(early) = self.arrived.taken_at(self.reader.place()) {
                        self.early = early.rows.into_iter().flatten();
                        self.early_error = early.error;
                        self.rows.last = early.last;
                        self.rows.unknown_columns.extend(early.unknown_columns);
                    }
                }
                Place::Rows(id) => {
                    if let Some((uuid, update)) = self.early.next() {
                        return Ok(Some((id, uuid, update)));
                    }
                    if let Some(error) = self.early_error.take() {
                        return Err(error);
                    }
                    let table = self.schema.table(id);
                    let Some((uuid, update)) = self.rows.next(&mut self.reader, table)? else {
                        self.place = Place::Tables;
                        continue;
                    };
                    return Ok(Some((id, uuid, update)));
                }
                Place::End => return Ok(None),
            }
        }
    }
}

impl Iterator for UpdateReader<'_> {
    type Item = Result<(TableId, Uuid, RowUpdate), UpdateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_row().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.place = Place::End;
        }
        next
    }
}
