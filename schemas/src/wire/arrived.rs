//! What monitors report, read while it arrives.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use crate::json::{ArrivingRows, Reader, Text};
use crate::row::Row;
use crate::schema::{DatabaseSchema, TableId};
use crate::strings::Strings;

use super::monitor::MonitorVersion;
use super::update::{RowUpdate, UpdateError, UpdateReader};

/// Row updates that were taken out of a long message while it arrived, so that its text is never there as a whole. Give
/// them to the [`UpdateReader`] that reads the rest: together they give the same as if nothing had been taken out.
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
    tables: VecDeque<ArrivedTable>,
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
    /// The last row that was inserted.
    pub(super) like: Option<Arc<Row>>,
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
        let place = arriving.place();
        if self.tables.back().is_none_or(|last| last.place != place) {
            let name = arriving.name();
            let table = schema.table_by_name(&String::from_utf8_lossy(&name));
            self.tables.push_back(ArrivedTable {
                place,
                id: table.map(|(id, _)| id),
                rows: Vec::new(),
                error: None,
                like: None,
                unknown_columns: BTreeSet::new(),
            });
        }
        let table = self.tables.back_mut();
        arriving.take(|rows| {
            if let Some(table) = table {
                table.decode(rows, schema, version, strings);
            }
        });
    }

    /// What was taken out of the table whose rows begin at this place.
    pub(super) fn taken_at(&mut self, place: usize) -> Option<ArrivedTable> {
        while self.tables.front()?.place < place {
            self.tables.pop_front();
        }
        if self.tables.front()?.place > place {
            return None;
        }
        self.tables.pop_front()
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
        let Some(id) = self.id else { return };
        if self.error.is_some() {
            return;
        }
        let reader = Reader::new(rows);
        let mut updates =
            UpdateReader::of_table(reader, schema, version, strings, id, self.like.take());
        let mut decoded = Vec::new();
        for update in &mut updates {
            match update {
                Ok((_, uuid, update)) => decoded.push((uuid, update)),
                Err(error) => self.error = Some(error),
            }
        }
        let (like, unknown_columns) = updates.into_parts();
        self.like = like;
        self.unknown_columns.extend(unknown_columns);
        decoded.shrink_to_fit();
        self.rows.push(decoded);
    }
}
