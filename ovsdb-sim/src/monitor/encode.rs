//! `<table-updates>` (RFC 7047 §4.1.6) and `<table-updates2>` (ovsdb-server(7) §4.1.14).

use std::sync::Arc;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::write;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::wire::{MonitorTable, MonitorVersion, RowEvent};
use uuid::Uuid;

use super::{Spec, UpdateText};

/// An update of more rows than fit into so many bytes is encoded while it is written: less than a socket takes, so that
/// the client reads meanwhile.
const PIECE: usize = 128 << 10;

/// What a monitor is to hear of changes, which are sorted by table; none when it is nothing.
pub(super) fn changes(
    spec: &Arc<Spec>,
    schema: &Arc<DatabaseSchema>,
    changes: &[&RowChange],
) -> Option<UpdateText> {
    let mut updates = TableUpdates::new(spec.version);
    let encoded = updates.changes(spec, schema, changes.iter().copied());
    let is_seen = |change: &&RowChange| spec.event(change).is_some();
    let rows = changes[encoded..].iter().copied().filter(is_seen).cloned();
    let rows: Vec<RowChange> = rows.collect();
    if rows.is_empty() {
        return updates.finish_unless_empty().map(UpdateText::from);
    }
    let rest = Changes {
        spec: spec.clone(),
        schema: schema.clone(),
        rows: rows.into(),
        from: 0,
        table: updates.table,
    };
    Some(UpdateText::new(updates.out, rest))
}

/// Changes, sorted by table, of which a monitor has been told some.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    spec: Arc<Spec>,
    schema: Arc<DatabaseSchema>,
    rows: Arc<[RowChange]>,
    from: usize,
    /// What it was told last was of this table.
    table: Option<TableId>,
}

impl Changes {
    /// The next piece of the object.
    pub(super) fn next_piece(&self) -> UpdateText {
        let mut updates = TableUpdates {
            version: self.spec.version,
            out: Vec::with_capacity(PIECE + PIECE / 8),
            table: self.table,
        };
        let rows = &self.rows[self.from..];
        let encoded = updates.changes(&self.spec, &self.schema, rows);
        if encoded == rows.len() {
            return updates.finish().into();
        }
        let mut rest = self.clone();
        rest.from += encoded;
        rest.table = updates.table;
        UpdateText::new(updates.out, rest)
    }
}

/// The rows that come into view, or leave it, by a change of conditions; none when no row does.
pub(super) fn condition_change(
    old: &Spec,
    new: &Spec,
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
            let event = match (
                before.condition.matches_any(row),
                request.condition.matches_any(row),
            ) {
                (false, true) => RowEvent::Insert(row),
                (true, false) => RowEvent::Delete(row),
                _ => continue,
            };
            updates.row(schema, *table, request, row.uuid, event);
        }
    }
    updates.finish_unless_empty()
}

/// The object in the making. Rows of one table come one after the other.
struct TableUpdates {
    version: MonitorVersion,
    out: Vec<u8>,
    table: Option<TableId>,
}

impl TableUpdates {
    fn new(version: MonitorVersion) -> Self {
        Self {
            version,
            out: b"{".to_vec(),
            table: None,
        }
    }

    /// Appends what a monitor is to hear of changes, until there are [`PIECE`] bytes. Returns how many it has looked at.
    fn changes<'a>(
        &mut self,
        spec: &Spec,
        schema: &DatabaseSchema,
        changes: impl IntoIterator<Item = &'a RowChange>,
    ) -> usize {
        let mut encoded = 0;
        for change in changes {
            if self.out.len() >= PIECE {
                break;
            }
            encoded += 1;
            if let Some((request, event)) = spec.event(change) {
                self.row(schema, change.table, request, change.uuid(), event);
            }
        }
        encoded
    }

    fn row(
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
        self.out
            .extend_from_slice(if self.table.is_some() { b"}}" } else { b"}" });
        self.out
    }

    fn finish_unless_empty(self) -> Option<Vec<u8>> {
        self.table.is_some().then(|| self.finish())
    }
}
