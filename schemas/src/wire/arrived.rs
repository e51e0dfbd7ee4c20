//! What monitors report, read while it arrives.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::json::{ArrivingRows, Reader, Text, UnprovenMembers};
use crate::schema::{DatabaseSchema, TableId};
use crate::strings::Strings;

use super::monitor::MonitorVersion;
use super::update::{RowUpdate, UpdateError};
use super::update_row::{LastRow, RowReader};

/// Row updates that were taken out of a long message while it arrived, so that its text is never there as a whole. Give
/// them to the [`UpdateReader`](super::UpdateReader) that reads the rest: together they give the same as if nothing had been taken out.
///
/// ```
/// use patchbay_schemas::json::{Framer, Reader};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::strings::Strings;
/// use patchbay_schemas::wire::{ArrivedRows, MonitorVersion, UpdateReader};
///
/// let (schema, version, mut strings) = (nb::schema(), MonitorVersion::V2, Strings::default());
/// let mut arrived = ArrivedRows::default();
/// let mut framer = Framer::new(usize::MAX);
/// framer.push(br#"{"result":{"Logical_Switch":{
///     "550e8400-e29b-41d4-a716-446655440000":{"insert":{"name":"sw0"}},
///     "550e8400-e29b-41"#);
/// assert!(framer.next_text()?.is_none());
/// arrived.take(framer.arriving_rows(1).unwrap(), &schema, version, &mut strings);
/// framer.push(br#"d4-a716-446655440001":{"delete":null}}},"id":1}"#);
///
/// let rest = framer.next_text()?.unwrap();
/// let mut reader = Reader::new(rest.as_text());
/// reader.enter_object();
/// reader.next_member();
/// let updates = UpdateReader::new(reader, &schema, version, &mut strings).with_arrived(arrived);
/// assert_eq!(updates.collect::<Result<Vec<_>, _>>()?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ArrivedRows {
    /// In the order of their places.
    tables: Vec<ArrivedTable>,
}

/// Rows of one table.
#[derive(Debug)]
pub(super) struct ArrivedTable {
    /// Where the rest of them begin in the rest of the text.
    place: usize,
    /// None when the schema lacks it, which is found when the rest is read.
    id: Option<TableId>,
    /// In pieces as they came, so that reading them gives memory back on the way.
    pub(super) rows: Vec<Vec<(Uuid, RowUpdate)>>,
    /// Why nothing follows the last of them.
    pub(super) error: Option<UpdateError>,
    pub(super) last: LastRow,
    pub(super) unknown_columns: BTreeSet<String>,
}

impl ArrivedRows {
    /// Decodes rows and takes them out of their message, which must be one with updates of that kind.
    pub fn take(
        &mut self,
        arriving: ArrivingRows<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut Strings,
    ) {
        let table = self.table(arriving.place(), &arriving.name(), schema);
        arriving.take(|rows| table.decode(rows, schema, version, strings));
    }

    /// The same of rows that nobody has looked at yet, if they are written as servers write them. The others stay.
    pub fn take_unproven(
        &mut self,
        mut arriving: UnprovenMembers<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut Strings,
    ) {
        if let Some(rows) = arriving.proven() {
            self.take(rows, schema, version, strings);
        }
        let table = self.table(arriving.place(), &arriving.name(), schema);
        let Some(id) = table.id.filter(|_| table.error.is_none()) else {
            return;
        };
        // A row with a fault stays in the text, and is refused when it is read from there.
        let rows = table.read(version, strings, |reader| {
            arriving.take(|text| reader.next(text, schema.table(id)).ok().flatten())
        });
        table.keep(rows);
    }

    /// The table whose rows come at this place.
    fn table(&mut self, place: usize, name: &[u8], schema: &DatabaseSchema) -> &mut ArrivedTable {
        if self.tables.last().is_none_or(|last| last.place != place) {
            let table = schema.table_by_name(&String::from_utf8_lossy(name));
            self.tables.push(ArrivedTable {
                place,
                id: table.map(|(id, _)| id),
                rows: Vec::new(),
                error: None,
                last: LastRow::default(),
                unknown_columns: BTreeSet::new(),
            });
        }
        let last = self.tables.len() - 1;
        &mut self.tables[last]
    }

    /// What was taken out of the table whose rows begin at this place.
    pub(super) fn taken_at(&mut self, place: usize) -> Option<ArrivedTable> {
        let at = self.tables.iter().position(|table| table.place >= place)?;
        self.tables.drain(..at);
        (self.tables[0].place == place).then(|| self.tables.remove(0))
    }
}

impl ArrivedTable {
    fn decode(
        &mut self,
        rows: Text<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut Strings,
    ) {
        let Some(id) = self.id.filter(|_| self.error.is_none()) else {
            return;
        };
        let mut text = Reader::new(rows);
        text.enter_object();
        let mut decoded = Vec::new();
        self.error = self.read(version, strings, |reader| {
            loop {
                match reader.next(&mut text, schema.table(id)) {
                    Ok(Some(row)) => decoded.push(row),
                    Ok(None) => return None,
                    Err(error) => return Some(error),
                }
            }
        });
        self.keep(decoded);
    }

    /// Keeps what was decoded of one piece of text.
    fn keep(&mut self, mut rows: Vec<(Uuid, RowUpdate)>) {
        if !rows.is_empty() {
            rows.shrink_to_fit();
            self.rows.push(rows);
        }
    }

    /// Goes on where it was left.
    fn read<T>(
        &mut self,
        version: MonitorVersion,
        strings: &mut Strings,
        read: impl FnOnce(&mut RowReader<'_>) -> T,
    ) -> T {
        let mut reader = RowReader::new(version, strings);
        std::mem::swap(&mut reader.last, &mut self.last);
        std::mem::swap(&mut reader.unknown_columns, &mut self.unknown_columns);
        let result = read(&mut reader);
        self.last = reader.last;
        self.unknown_columns = reader.unknown_columns;
        result
    }
}
