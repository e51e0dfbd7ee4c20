//! Decoding of the rows of a `<table-update>`.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use crate::atom::parse_uuid;
use crate::datum::Datum;
use crate::delta::Delta;
use crate::error::OvsdbError;
use crate::json::Reader;
use crate::row::{Row, ValuesBuilder};
use crate::schema::{ColumnId, TableSchema};
use crate::strings::StringCache;

use super::column_order::ColumnOrder;
use super::monitor::MonitorVersion;
use super::notation::NotationReader;
use super::operation::ColumnValues;
use super::update::{RowUpdate, UpdateError};

/// Decoder of the row updates of a table.
pub(crate) struct RowReader<'s> {
    version: MonitorVersion,
    notation: NotationReader<'s, 's, 'static>,
    values: ValuesBuilder,
    pub(crate) last: LastRow,
    /// Columns that the schema lacks, as `table.column`.
    pub(crate) unknown_columns: BTreeSet<String>,
}

/// Previous row of a table. Servers write all rows in the same form, so that the next row may share
/// parts with it.
#[derive(Debug, Default)]
pub(crate) struct LastRow {
    /// The row that was inserted last.
    row: Option<Arc<Row>>,
    order: ColumnOrder,
}

impl<'s> RowReader<'s> {
    /// Returns a decoder at the start of a table.
    pub(crate) fn new(version: MonitorVersion, strings: &'s mut StringCache) -> Self {
        Self {
            version,
            notation: NotationReader::new(strings),
            values: ValuesBuilder::default(),
            last: LastRow::default(),
            unknown_columns: BTreeSet::new(),
        }
    }

    /// Returns the next row of the object with the rows of a table. `None`: the object has ended.
    pub(crate) fn next<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        table: &TableSchema,
    ) -> Result<Option<(Uuid, RowUpdate)>, UpdateError> {
        let Some(name) = reader.next_member() else {
            return Ok(None);
        };
        let uuid = parse_uuid(&name)
            .ok_or_else(|| malformed(Some(table), "a row's name is not a UUID"))?;
        let update = match self.version {
            MonitorVersion::V1 => self.row_update(reader, table, uuid)?,
            _ => self.row_update2(reader, table, uuid)?,
        };
        Ok(Some((uuid, update)))
    }

    /// Decodes a `<row-update>`.
    fn row_update<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<RowUpdate, UpdateError> {
        let (mut old, mut new) = (None, None);
        if !reader.enter_object() {
            return Err(malformed(Some(table), "a row update is not an object"));
        }
        while let Some(name) = reader.next_member() {
            match &*name {
                b"old" => old = Some(*reader),
                b"new" => new = Some(*reader),
                _ => return Err(malformed(Some(table), "a row update has an unknown member")),
            }
            reader.skip();
        }
        match (old, new) {
            (None, Some(mut new)) => Ok(RowUpdate::Insert(self.row(&mut new, table, uuid)?)),
            (Some(_), Some(mut new)) => Ok(RowUpdate::Update(self.values(&mut new, table, uuid)?)),
            (Some(_), None) => Ok(RowUpdate::Delete),
            (None, None) => Err(malformed(Some(table), "a row update has neither old nor new")),
        }
    }

    /// Decodes a `<row-update2>`, which has exactly one member.
    fn row_update2<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<RowUpdate, UpdateError> {
        let one = "a row update is not an object of one member";
        if !reader.enter_object() {
            return Err(malformed(Some(table), one));
        }
        let name = reader.next_member().ok_or_else(|| malformed(Some(table), one))?;
        let update = match &*name {
            b"initial" | b"insert" => RowUpdate::Insert(self.row(reader, table, uuid)?),
            b"modify" => {
                let mut deltas = Vec::new();
                self.columns(reader, table, uuid, |column, reader, notation| {
                    deltas.push((
                        column,
                        Delta::decode(reader, table.column_type(column), notation)?,
                    ));
                    Ok(())
                })?;
                RowUpdate::Modify(deltas)
            }
            b"delete" => {
                reader.skip();
                RowUpdate::Delete
            }
            _ => return Err(malformed(Some(table), "a row update has an unknown member")),
        };
        if reader.next_member().is_some() {
            return Err(malformed(Some(table), one));
        }
        Ok(update)
    }

    /// Decodes the values of an inserted row. Omitted columns have their defaults.
    fn row<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<Arc<Row>, UpdateError> {
        let template = self.last.row.take();
        let mut values = std::mem::take(&mut self.values);
        let outcome = self.columns(reader, table, uuid, |column, reader, notation| {
            let template = template.as_ref().and_then(|row| row.values.get(column));
            let datum =
                notation.datum_with_template(reader, table.column_type(column), template)?;
            values.set(column, datum);
            Ok(())
        });
        let row = Row { uuid, version: Uuid::nil(), values: values.finish(table) };
        self.values = values;
        if let Err(error) = outcome {
            self.last.row = template;
            return Err(error);
        }
        let row = Arc::new(row);
        self.last.row = Some(row.clone());
        Ok(row)
    }

    /// Decodes new values of columns.
    fn values<const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'_, VALIDATING>,
        table: &TableSchema,
        uuid: Uuid,
    ) -> Result<ColumnValues, UpdateError> {
        let mut values: Vec<(ColumnId, Datum)> = Vec::new();
        self.columns(reader, table, uuid, |column, reader, notation| {
            values.push((column, notation.datum(reader, table.column_type(column))?));
            Ok(())
        })?;
        Ok(values)
    }

    /// Calls `read` for each member of the next object that is a column of the table, and passes
    /// the object.
    fn columns<'t, const VALIDATING: bool>(
        &mut self,
        reader: &mut Reader<'t, VALIDATING>,
        table: &TableSchema,
        uuid: Uuid,
        mut read: impl FnMut(
            ColumnId,
            &mut Reader<'t, VALIDATING>,
            &mut NotationReader<'_, '_, '_>,
        ) -> Result<(), OvsdbError>,
    ) -> Result<(), UpdateError> {
        if !reader.enter_object() {
            return Err(malformed(Some(table), "a row is not an object"));
        }
        let order = &mut self.last.order;
        order.begin_row();
        loop {
            // Column names are identifiers, which JSON does not escape.
            let expected = order
                .expected()
                .filter(|column| reader.is_plain_member(table.column_name(*column)));
            let column = if let Some(column) = expected {
                column
            } else {
                let Some(name) = reader.next_member() else {
                    return Ok(());
                };
                let column = std::str::from_utf8(&name).ok().and_then(|name| table.column_id(name));
                let Some(column) = column else {
                    let name = format!("{}.{}", table.name, String::from_utf8_lossy(&name));
                    self.unknown_columns.insert(name);
                    reader.skip();
                    continue;
                };
                column
            };
            order.record(column);
            read(column, reader, &mut self.notation)
                .map_err(|error| value_error(table, uuid, column, error))?;
        }
    }
}

/// Returns the error of an update in an invalid form.
pub(super) fn malformed(table: Option<&TableSchema>, problem: &'static str) -> UpdateError {
    UpdateError::Malformed { table: table.map(|table| table.name.clone()), problem }
}

/// Returns the error of an invalid value.
pub(super) fn value_error(
    table: &TableSchema,
    row: Uuid,
    column: ColumnId,
    error: OvsdbError,
) -> UpdateError {
    UpdateError::Value {
        table: table.name.clone(),
        row,
        column: Arc::from(table.column_name(column)),
        error,
    }
}
