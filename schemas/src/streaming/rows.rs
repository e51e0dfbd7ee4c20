//! Rows of a monitor, decoded while their message is being received.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::json::{Reader, Text};
use crate::schema::{DatabaseSchema, TableId};
use crate::strings::StringCache;
use crate::wire::{LastRow, MonitorVersion, RowReader, RowUpdate, UpdateError};

use super::{OpenRows, UnvalidatedRows};

/// Row updates that were removed from a message while it was being received.
///
/// Pass them to the [`UpdateReader`](crate::wire::UpdateReader) of the remaining message, which
/// then returns the updates of the complete message.
///
/// ```
/// use patchbay_schemas::json::{Framer, Reader};
/// use patchbay_schemas::nb;
/// use patchbay_schemas::streaming::StreamedRows;
/// use patchbay_schemas::strings::StringCache;
/// use patchbay_schemas::wire::{MonitorVersion, UpdateReader};
///
/// let (schema, version, mut strings) = (nb::schema(), MonitorVersion::V2, StringCache::default());
/// let mut rows = StreamedRows::default();
/// let mut framer = Framer::new(usize::MAX);
/// framer.push(br#"{"result":{"Logical_Switch":{
///     "550e8400-e29b-41d4-a716-446655440000":{"insert":{"name":"sw0"}},
///     "550e8400-e29b-41"#);
/// assert!(framer.next_text()?.is_none());
/// rows.take(framer.open_rows(1).unwrap(), &schema, version, &mut strings);
/// framer.push(br#"d4-a716-446655440001":{"delete":null}}},"id":1}"#);
///
/// let rest = framer.next_text()?.unwrap();
/// let mut reader = Reader::new(rest.as_text());
/// reader.enter_object();
/// reader.next_member();
/// let updates = UpdateReader::new(reader, &schema, version, &mut strings).with_streamed(rows);
/// assert_eq!(updates.collect::<Result<Vec<_>, _>>()?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct StreamedRows {
    /// Tables in the order of the message.
    tables: Vec<StreamedTable>,
}

/// Rows of one table.
#[derive(Debug)]
pub(crate) struct StreamedTable {
    /// Index of the remaining rows in the remaining text.
    index: usize,
    /// `None`: the schema lacks the table. The reader of the remaining text reports the error.
    id: Option<TableId>,
    /// Rows in chunks, each of which is freed when it has been read.
    pub(crate) rows: Vec<Vec<(Uuid, RowUpdate)>>,
    /// Error of the row behind the last one, at which decoding stopped.
    pub(crate) error: Option<UpdateError>,
    pub(crate) last: LastRow,
    pub(crate) unknown_columns: BTreeSet<String>,
}

impl StreamedRows {
    /// Decodes rows and removes them from their message, which must contain updates of this
    /// version.
    pub fn take(
        &mut self,
        rows: OpenRows<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) {
        let table = self.table(rows.index(), &rows.name(), schema);
        rows.take(|rows| table.decode(rows, schema, version, strings));
    }

    /// Like [`take`](Self::take), for rows that have not been scanned.
    ///
    /// Rows in an unusual form stay in the message; they are scanned first and decoded later.
    pub fn take_unvalidated(
        &mut self,
        mut rows: UnvalidatedRows<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) {
        if let Some(rows) = rows.validated() {
            self.take(rows, schema, version, strings);
        }
        let table = self.table(rows.index(), &rows.name(), schema);
        let Some(id) = table.id.filter(|_| table.error.is_none()) else {
            return;
        };
        // An invalid row stays in the message, and is refused when it is read from there.
        let rows = table.with_reader(version, strings, |reader| {
            rows.take(|text| reader.next(text, schema.table(id)).ok().flatten())
        });
        table.add_chunk(rows);
    }

    /// Returns the table whose rows are at this index, adding it if it is new.
    fn table(&mut self, index: usize, name: &[u8], schema: &DatabaseSchema) -> &mut StreamedTable {
        if self.tables.last().is_none_or(|last| last.index != index) {
            let table = schema.table_by_name(&String::from_utf8_lossy(name));
            self.tables.push(StreamedTable {
                index,
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

    /// Removes and returns the table whose remaining rows are at this index, and drops the tables
    /// before it.
    pub(crate) fn take_table(&mut self, index: usize) -> Option<StreamedTable> {
        let at = self.tables.iter().position(|table| table.index >= index)?;
        self.tables.drain(..at);
        (self.tables[0].index == index).then(|| self.tables.remove(0))
    }
}

impl StreamedTable {
    /// Decodes an object of rows, up to the first error.
    fn decode(
        &mut self,
        rows: Text<'_>,
        schema: &DatabaseSchema,
        version: MonitorVersion,
        strings: &mut StringCache,
    ) {
        let Some(id) = self.id.filter(|_| self.error.is_none()) else {
            return;
        };
        let mut text = Reader::new(rows);
        text.enter_object();
        let mut decoded = Vec::new();
        self.error = self.with_reader(version, strings, |reader| {
            loop {
                match reader.next(&mut text, schema.table(id)) {
                    Ok(Some(row)) => decoded.push(row),
                    Ok(None) => return None,
                    Err(error) => return Some(error),
                }
            }
        });
        self.add_chunk(decoded);
    }

    /// Adds a chunk of decoded rows.
    fn add_chunk(&mut self, mut rows: Vec<(Uuid, RowUpdate)>) {
        if !rows.is_empty() {
            rows.shrink_to_fit();
            self.rows.push(rows);
        }
    }

    /// Calls `read` with a row reader in the state in which the previous call left it.
    fn with_reader<T>(
        &mut self,
        version: MonitorVersion,
        strings: &mut StringCache,
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
