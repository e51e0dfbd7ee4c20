//! Rows and changes as `update` (RFC 7047 §4.1.6) and `update2` (ovsdb-server(7) §4.1.14) have them.

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::delta::Delta;
use patchbay_schemas::json::write;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use patchbay_schemas::wire::{Clause, MonitorTable, MonitorVersion, Select};

use super::Spec;

/// What a change is to one monitor.
#[derive(Clone, Copy)]
enum Event<'a> {
    Initial(&'a Row),
    Insert(&'a Row),
    Delete(&'a Row),
    Modify(&'a Row, &'a Row),
}

impl Event<'_> {
    fn selected(self, select: Select) -> bool {
        match self {
            Self::Initial(_) => select.initial,
            Self::Insert(_) => select.insert,
            Self::Delete(_) => select.delete,
            Self::Modify(..) => select.modify,
        }
    }
}

/// All rows that a monitor sees at its beginning.
pub(super) fn initial(spec: &Spec, schema: &DatabaseSchema, snapshot: &Snapshot) -> Vec<u8> {
    let mut out = TableUpdates::new(spec.version);
    for (table, request) in &spec.requests.tables {
        for row in snapshot
            .table(*table)
            .iter()
            .filter(|row| request.condition.matches_any(row))
        {
            out.row(schema, *table, request, Event::Initial(row));
        }
    }
    out.finish()
}

/// What a monitor is to hear of changes, which are sorted by table; none when it is nothing.
pub(super) fn changes(
    spec: &Spec,
    schema: &DatabaseSchema,
    changes: &[&RowChange],
) -> Option<Vec<u8>> {
    let mut out = TableUpdates::new(spec.version);
    for change in changes {
        if let Some(request) = spec.requests.tables.get(&change.table)
            && let Some(event) = event(request, change)
        {
            out.row(schema, change.table, request, event);
        }
    }
    out.finish_unless_empty()
}

/// The rows that come into view, or leave it, by a change of conditions.
pub(super) fn condition_change(
    old: &Spec,
    new: &Spec,
    schema: &DatabaseSchema,
    snapshot: &Snapshot,
) -> Option<Vec<u8>> {
    let mut out = TableUpdates::new(new.version);
    for (table, request) in &new.requests.tables {
        let Some(before) = old.requests.tables.get(table) else {
            continue;
        };
        if before.condition == request.condition {
            continue;
        }
        for row in snapshot.table(*table).iter() {
            match (
                before.condition.matches_any(row),
                request.condition.matches_any(row),
            ) {
                (false, true) => out.row(schema, *table, request, Event::Insert(row)),
                (true, false) => out.row(schema, *table, request, Event::Delete(row)),
                _ => {}
            }
        }
    }
    out.finish_unless_empty()
}

/// What a change is to a monitor with this request, its condition considered.
fn event<'a>(request: &MonitorTable, change: &'a RowChange) -> Option<Event<'a>> {
    let seen = |row: &&'a Row| request.condition.matches_any(row);
    let old = change.old.as_deref().filter(seen);
    let new = change.new.as_deref().filter(seen);
    match (old, new) {
        (None, None) => None,
        (None, Some(new)) => Some(Event::Insert(new)),
        (Some(old), None) => Some(Event::Delete(old)),
        (Some(old), Some(new)) => {
            let clauses = request
                .condition
                .0
                .iter()
                .filter_map(|clause| match clause {
                    Clause::Column { column, .. } => Some(*column),
                    Clause::Bool(_) => None,
                });
            let mut watched = request
                .columns
                .iter()
                .map(|(column, _)| *column)
                .chain(clauses);
            watched
                .any(|column| differs(old, new, column))
                .then_some(Event::Modify(old, new))
        }
    }
}

fn differs(old: &Row, new: &Row, column: ColumnId) -> bool {
    old.get(column) != new.get(column)
}

/// `<table-updates>` in the making. Rows of one table come one after the other.
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

    fn finish(mut self) -> Vec<u8> {
        self.out
            .extend_from_slice(if self.table.is_some() { b"}}" } else { b"}" });
        self.out
    }

    fn finish_unless_empty(self) -> Option<Vec<u8>> {
        self.table.is_some().then(|| self.finish())
    }

    fn row(
        &mut self,
        schema: &DatabaseSchema,
        id: TableId,
        request: &MonitorTable,
        event: Event<'_>,
    ) {
        if !event.selected(request.select) {
            return;
        }
        let table = schema.table(id);
        let out = &mut self.out;
        if self.table == Some(id) {
            out.push(b',');
        } else {
            out.extend_from_slice(if self.table.is_some() { b"}," } else { b"" });
            write::string(out, table.name.as_bytes());
            out.extend_from_slice(b":{");
            self.table = Some(id);
        }
        let uuid = match event {
            Event::Initial(row)
            | Event::Insert(row)
            | Event::Delete(row)
            | Event::Modify(row, _) => row.uuid,
        };
        out.push(b'"');
        write_uuid(out, uuid);
        out.extend_from_slice(b"\":");
        match self.version {
            MonitorVersion::V1 => row_update(out, table, request, event),
            MonitorVersion::V2 | MonitorVersion::V3 => row_update2(out, table, request, event),
        }
    }
}

/// `<row-update>`: whole values, old and new.
fn row_update(out: &mut Vec<u8>, table: &TableSchema, request: &MonitorTable, event: Event<'_>) {
    let all = |row, out: &mut Vec<u8>| {
        columns(out, table, request, event, |column, out| {
            value(row, column, out)
        })
    };
    match event {
        Event::Initial(row) | Event::Insert(row) => {
            out.extend_from_slice(b"{\"new\":");
            all(row, out);
        }
        Event::Delete(row) => {
            out.extend_from_slice(b"{\"old\":");
            all(row, out);
        }
        Event::Modify(old, new) => {
            out.extend_from_slice(b"{\"old\":");
            columns(out, table, request, event, |column, out| {
                differs(old, new, column) && value(old, column, out)
            });
            out.extend_from_slice(b",\"new\":");
            all(new, out);
        }
    }
    out.push(b'}');
}

/// `<row-update2>`: defaults left out, changes as differences.
fn row_update2(out: &mut Vec<u8>, table: &TableSchema, request: &MonitorTable, event: Event<'_>) {
    let non_default = |row: &Row, out: &mut Vec<u8>| {
        columns(out, table, request, event, |column, out| {
            !table.column_type(column).is_default(&row.get(column)) && value(row, column, out)
        });
    };
    match event {
        Event::Initial(row) => {
            out.extend_from_slice(b"{\"initial\":");
            non_default(row, out);
        }
        Event::Insert(row) => {
            out.extend_from_slice(b"{\"insert\":");
            non_default(row, out);
        }
        Event::Delete(_) => out.extend_from_slice(b"{\"delete\":null"),
        Event::Modify(old, new) => {
            out.extend_from_slice(b"{\"modify\":");
            columns(out, table, request, event, |column, out| {
                let delta = Delta::between(
                    &old.get(column),
                    &new.get(column),
                    table.column_type(column),
                );
                delta.is_some_and(|delta| {
                    delta.write_json(out);
                    true
                })
            });
        }
    }
    out.push(b'}');
}

fn value(row: &Row, column: ColumnId, out: &mut Vec<u8>) -> bool {
    row.get(column).write_json(out);
    true
}

/// Writes an object of the columns that are selected for the event and for which `write` writes a value.
fn columns(
    out: &mut Vec<u8>,
    table: &TableSchema,
    request: &MonitorTable,
    event: Event<'_>,
    write_value: impl Fn(ColumnId, &mut Vec<u8>) -> bool,
) {
    out.push(b'{');
    let start = out.len();
    for (column, select) in &request.columns {
        if !event.selected(*select) {
            continue;
        }
        let undo = out.len();
        if undo > start {
            out.push(b',');
        }
        write::string(out, table.column_name(*column).as_bytes());
        out.push(b':');
        if !write_value(*column, out) {
            out.truncate(undo);
        }
    }
    out.push(b'}');
}
