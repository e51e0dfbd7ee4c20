//! What a monitor hears at its beginning: the rows of many tables, of which those of a long one are written by several
//! threads.

use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::write;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableSchema};
use patchbay_schemas::wire::{MonitorTable, MonitorVersion, RowEvent};
use rayon::prelude::*;

use super::Spec;

/// Threads are worth while for parts of so many rows.
const PART: usize = 2048;

/// The `<table-updates>` in pieces: all rows that a monitor sees, in the order of their UUIDs as ovsdb-server sends them:
/// what ovn-nbctl prints can depend on it.
pub(super) fn initial(spec: &Spec, schema: &DatabaseSchema, snapshot: &Snapshot) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut out = b"{".to_vec();
    let mut is_first = true;
    for (table, request) in &spec.requests.tables {
        let rows = snapshot.table(*table).iter();
        let seen = rows.filter(|row| request.select.initial && request.condition.matches_any(row));
        let mut rows: Vec<_> = seen.collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_unstable_by_key(|row| row.uuid);
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        let rows = Rows {
            table: schema.table(*table),
            request,
            version: spec.version,
        }
        .write(&rows);
        write::string(&mut out, schema.table(*table).name.as_bytes());
        out.extend_from_slice(b":{");
        if let [rows] = &rows[..] {
            out.extend_from_slice(rows);
        } else {
            pieces.push(std::mem::take(&mut out));
            pieces.extend(rows);
        }
        out.push(b'}');
    }
    out.push(b'}');
    pieces.push(out);
    pieces
}

/// How the rows of a table are written.
#[derive(Clone, Copy)]
struct Rows<'a> {
    table: &'a TableSchema,
    request: &'a MonitorTable,
    version: MonitorVersion,
}

impl Rows<'_> {
    /// The members of the table's object, in pieces.
    fn write(self, rows: &[&Arc<Row>]) -> Vec<Vec<u8>> {
        let parts = rows.par_chunks(PART).enumerate();
        parts
            .map(|(i, part)| self.write_part(part, i == 0))
            .collect()
    }

    fn write_part(self, rows: &[&Arc<Row>], is_first: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            out.extend_from_slice(if is_first && i == 0 {
                &b"\""[..]
            } else {
                b",\""
            });
            write_uuid(&mut out, row.uuid);
            out.extend_from_slice(b"\":");
            self.request
                .write_event(RowEvent::Initial(row), self.table, self.version, &mut out);
        }
        out
    }
}
