//! What monitors report, read: the bodies of `update`, `update2` and `update3` and of a monitor's first reply.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use crate::atom::parse_uuid;
use crate::datum::Datum;
use crate::delta::Delta;
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::row::Row;
use crate::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use crate::strings::Strings;

use super::arrived::ArrivedRows;
use super::column_order::ColumnOrder;
use super::monitor::MonitorVersion;
use super::notation::NotationReader;
use super::operation::ColumnValues;

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
    version: MonitorVersion,
    notation: NotationReader<'a, 'a, 'static>,
    place: Place,
    /// The last row that was inserted into the table. Servers write rows alike: it tells what the next one may share.
    like: Option<Arc<Row>>,
    order: ColumnOrder,
    unknown_columns: BTreeSet<String>,
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
            version,
            notation: NotationReader::new(strings),
            place: Place::Start,
            like: None,
            order: ColumnOrder::default(),
            unknown_columns: BTreeSet::new(),
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

    /// Begins at the object with rows of one table; `like` is the row before.
    pub(super) fn of_table(
        mut reader: Reader<'a>,
        schema: &'a DatabaseSchema,
        version: MonitorVersion,
        strings: &'a mut Strings,
        table: TableId,
        like: Option<Arc<Row>>,
    ) -> Self {
        reader.enter_object();
        Self {
            place: Place::Rows(table),
            like,
            ..Self::new(reader, schema, version, strings)
        }
    }

    /// The last row that was inserted, and the unknown columns.
    pub(super) fn into_parts(self) -> (Option<Arc<Row>>, BTreeSet<String>) {
        (self.like, self.unknown_columns)
    }

    /// The columns that the schema lacks, as `table.column`; their values were skipped.
    pub fn unknown_columns(&self) -> impl Iterator<Item = &str> {
        self.unknown_columns.iter().map(String::as_str)
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
                    self.like = None;
                    self.order = ColumnOrder::default();
                    if let Some(early) = self.arrived.taken_at(self.reader.place()) {
                        self.early = early.rows.into_iter().flatten();
                        self.early_error = early.error;
                        self.like = early.like;
                        self.unknown_columns.extend(early.unknown_columns);
                    }
                }
                Place::Rows(id) => {
                    if let Some((uuid, update)) = self.early.next() {
                        return Ok(Some((id, uuid, update)));
                    }
                    if let Some(error) = self.early_error.take() {
                        return Err(error);
                    }
                    let Some(name) = self.reader.next_member() else {
                        self.place = Place::Tables;
                        continue;
                    };
                    let table = self.schema.table(id);
                    let uuid = parse_uuid(&name)
                        .ok_or_else(|| malformed(Some(table), "a row's name is not a UUID"))?;
                    let update = match self.version {
                        MonitorVersion::V1 => self.old_and_new(table, uuid)?,
                        _ => self.row_update2(table, uuid)?,
                    };
                    return Ok(Some((id, uuid, update)));
                }
                Place::End => return Ok(None),
            }
        }
    }

    /// A `<row-update>` of `update`.
    fn old_and_new(&mut self, table: &TableSchema, uuid: Uuid) -> Result<RowUpdate, UpdateError> {
        let (mut old, mut new) = (None, None);
        if !self.reader.enter_object() {
            return Err(malformed(Some(table), "a row update is not an object"));
        }
        while let Some(name) = self.reader.next_member() {
            match &*name {
                b"old" => old = Some(self.reader),
                b"new" => new = Some(self.reader),
                _ => return Err(malformed(Some(table), "a row update has an unknown member")),
            }
            self.reader.skip();
        }
        match (old, new) {
            (None, Some(mut new)) => Ok(RowUpdate::Insert(self.row(&mut new, table, uuid)?)),
            (Some(_), Some(new)) => Ok(RowUpdate::Update(self.values(new, table, uuid)?)),
            (Some(_), None) => Ok(RowUpdate::Delete),
            (None, None) => Err(malformed(
                Some(table),
                "a row update has neither old nor new",
            )),
        }
    }

    /// A `<row-update2>`, which has exactly one member.
    fn row_update2(&mut self, table: &TableSchema, uuid: Uuid) -> Result<RowUpdate, UpdateError> {
        let one = "a row update is not an object of one member";
        if !self.reader.enter_object() {
            return Err(malformed(Some(table), one));
        }
        let name = self
            .reader
            .next_member()
            .ok_or_else(|| malformed(Some(table), one))?;
        let mut at = self.reader;
        let update = match &*name {
            b"initial" | b"insert" => RowUpdate::Insert(self.row(&mut at, table, uuid)?),
            b"modify" => {
                let mut deltas = Vec::new();
                self.columns(&mut at, table, uuid, |column, reader, notation| {
                    deltas.push((
                        column,
                        Delta::decode(reader, table.column_type(column), notation)?,
                    ));
                    Ok(())
                })?;
                RowUpdate::Modify(deltas)
            }
            b"delete" => {
                at.skip();
                RowUpdate::Delete
            }
            _ => return Err(malformed(Some(table), "a row update has an unknown member")),
        };
        self.reader = at;
        if self.reader.next_member().is_some() {
            return Err(malformed(Some(table), one));
        }
        Ok(update)
    }

    /// A row whose columns are defaults where nothing else is said.
    fn row(
        &mut self,
        at: &mut Reader<'a>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<Arc<Row>, UpdateError> {
        let mut row = Row::new(uuid, table);
        let like = self.like.take();
        self.columns(at, table, uuid, |column, reader, notation| {
            let likely = like.as_ref().and_then(|row| row.values.get(column.index()));
            let datum = notation.datum_like(reader, table.column_type(column), likely)?;
            // One atom shares what it can by itself.
            let same = likely.filter(|likely| likely.len() > 1 && **likely == datum);
            row.set(column, same.cloned().unwrap_or(datum));
            Ok(())
        })?;
        let row = Arc::new(row);
        self.like = Some(row.clone());
        Ok(row)
    }

    fn values(
        &mut self,
        mut at: Reader<'a>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<ColumnValues, UpdateError> {
        let mut values: Vec<(ColumnId, Datum)> = Vec::new();
        self.columns(&mut at, table, uuid, |column, reader, notation| {
            values.push((column, notation.datum(reader, table.column_type(column))?));
            Ok(())
        })?;
        Ok(values)
    }

    /// Calls `read` for each member of the object at `at` that is a known column, and passes the object.
    fn columns(
        &mut self,
        at: &mut Reader<'a>,
        table: &TableSchema,
        uuid: Uuid,
        mut read: impl FnMut(
            ColumnId,
            &mut Reader<'a>,
            &mut NotationReader<'_, '_, '_>,
        ) -> Result<(), OvsdbError>,
    ) -> Result<(), UpdateError> {
        if !at.enter_object() {
            return Err(malformed(Some(table), "a row is not an object"));
        }
        self.order.begin_row();
        loop {
            // Names of columns are identifiers.
            let expected = self.order.expected();
            let expected = expected.filter(|column| at.is_plain_member(table.column_name(*column)));
            let column = if let Some(column) = expected {
                column
            } else {
                let Some(name) = at.next_member() else {
                    return Ok(());
                };
                let column = std::str::from_utf8(&name)
                    .ok()
                    .and_then(|name| table.column_id(name));
                let Some(column) = column else {
                    let name = format!("{}.{}", table.name, String::from_utf8_lossy(&name));
                    self.unknown_columns.insert(name);
                    at.skip();
                    continue;
                };
                column
            };
            self.order.came(column);
            read(column, at, &mut self.notation)
                .map_err(|error| value_error(table, uuid, column, error))?;
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

fn malformed(table: Option<&TableSchema>, problem: &'static str) -> UpdateError {
    UpdateError::Malformed {
        table: table.map(|table| table.name.clone()),
        problem,
    }
}

fn value_error(table: &TableSchema, row: Uuid, column: ColumnId, error: OvsdbError) -> UpdateError {
    UpdateError::Value {
        table: table.name.clone(),
        row,
        column: Arc::from(table.column_name(column)),
        error,
    }
}
