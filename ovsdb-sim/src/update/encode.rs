//! Encoding of changes: `<table-updates>` (RFC 7047 §4.1.6) and `<table-updates2>`
//! (ovsdb-server(7) §4.1.14).

use std::sync::Arc;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::write;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::wire::{MonitorTable, MonitorVersion, RowEvent};
use uuid::Uuid;

use super::{MonitorSpec, UpdateText};

/// Length in bytes from which an update is cut into pieces. Pieces after the first are encoded
/// while the update is written. A piece of short rows fits into a socket's buffer, so that the
/// client reads while the next piece is encoded.
const UPDATE_PIECE_BYTES: usize = 128 << 10;

/// Encodes the update that a monitor gets for changes, which are sorted by table. `None`: the
/// monitor reports none of them.
pub(crate) fn encode_changes(
    spec: &Arc<MonitorSpec>,
    schema: &Arc<DatabaseSchema>,
    changes: &[&RowChange],
) -> Option<UpdateText> {
    let mut updates = TableUpdates::new(spec.version);
    let encoded = updates.append_changes(spec, schema, changes.iter().copied());
    let rows: Vec<RowChange> = changes[encoded..]
        .iter()
        .filter(|change| spec.event(change).is_some())
        .map(|change| (*change).clone())
        .collect();
    if rows.is_empty() {
        return updates.finish_unless_empty().map(UpdateText::from);
    }
    let rest = UnencodedChanges {
        spec: spec.clone(),
        schema: schema.clone(),
        rows: rows.into(),
        from: 0,
        table: updates.table,
    };
    Some(UpdateText::new(updates.out, rest))
}

/// Changes of an update whose first pieces are encoded, sorted by table.
#[derive(Clone, Debug)]
pub(super) struct UnencodedChanges {
    spec: Arc<MonitorSpec>,
    schema: Arc<DatabaseSchema>,
    rows: Arc<[RowChange]>,
    /// Index of the first change that is not encoded.
    from: usize,
    /// Table of the last encoded row, whose JSON object is open.
    table: Option<TableId>,
}

impl UnencodedChanges {
    /// Encodes the next piece of the update.
    pub(super) fn next_piece(&self) -> UpdateText {
        let mut updates = TableUpdates {
            version: self.spec.version,
            out: Vec::with_capacity(UPDATE_PIECE_BYTES + UPDATE_PIECE_BYTES / 8),
            table: self.table,
        };
        let rows = &self.rows[self.from..];
        let encoded = updates.append_changes(&self.spec, &self.schema, rows);
        if encoded == rows.len() {
            return updates.finish().into();
        }
        let mut rest = self.clone();
        rest.from += encoded;
        rest.table = updates.table;
        UpdateText::new(updates.out, rest)
    }
}

/// Encodes the update for a change of a monitor's conditions: inserts of rows that match only the
/// new condition of their table, deletes of rows that match only the old one. `None`: there is no
/// such row.
pub(crate) fn encode_condition_change(
    old: &MonitorSpec,
    new: &MonitorSpec,
    schema: &DatabaseSchema,
    snapshot: &Snapshot,
) -> Option<Vec<u8>> {
    let mut updates = TableUpdates::new(new.version);
    for (table, request) in &new.requests.tables {
        let Some(before) = old.requests.tables.get(table) else {
            continue;
        };
        if before.condition == request.condition {
            continue;
        }
        for row in snapshot.table(*table).iter() {
            let event =
                match (before.condition.matches_any(row), request.condition.matches_any(row)) {
                    (false, true) => RowEvent::Insert(row),
                    (true, false) => RowEvent::Delete(row),
                    _ => continue,
                };
            updates.append_row(schema, *table, request, row.uuid, event);
        }
    }
    updates.finish_unless_empty()
}

/// Partly written JSON object of an update. Rows of one table follow each other.
struct TableUpdates {
    version: MonitorVersion,
    out: Vec<u8>,
    /// Table of the last row, whose JSON object is open.
    table: Option<TableId>,
}

impl TableUpdates {
    fn new(version: MonitorVersion) -> Self {
        Self { version, out: b"{".to_vec(), table: None }
    }

    /// Appends the rows that a monitor reports, until there are [`UPDATE_PIECE_BYTES`] bytes.
    /// Returns the number of changes that are dealt with, reported or not.
    fn append_changes<'a>(
        &mut self,
        spec: &MonitorSpec,
        schema: &DatabaseSchema,
        changes: impl IntoIterator<Item = &'a RowChange>,
    ) -> usize {
        let mut encoded = 0;
        for change in changes {
            if self.out.len() >= UPDATE_PIECE_BYTES {
                break;
            }
            encoded += 1;
            if let Some((request, event)) = spec.event(change) {
                self.append_row(schema, change.table, request, change.uuid(), event);
            }
        }
        encoded
    }

    fn append_row(
        &mut self,
        schema: &DatabaseSchema,
        id: TableId,
        request: &MonitorTable,
        uuid: Uuid,
        event: RowEvent<'_>,
    ) {
        let undo = self.out.len();
        let (table, out) = (schema.table(id), &mut self.out);
        if self.table == Some(id) {
            out.push(b',');
        } else {
            out.extend_from_slice(if self.table.is_some() { b"}," } else { b"" });
            write::string(out, table.name.as_bytes());
            out.extend_from_slice(b":{");
        }
        out.push(b'"');
        write_uuid(out, uuid);
        out.extend_from_slice(b"\":");
        if request.write_event(event, table, self.version, out) {
            self.table = Some(id);
        } else {
            out.truncate(undo);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(if self.table.is_some() { b"}}" } else { b"}" });
        self.out
    }

    fn finish_unless_empty(self) -> Option<Vec<u8>> {
        self.table.is_some().then(|| self.finish())
    }
}
