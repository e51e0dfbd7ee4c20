//! Content of a monitor's first reply. The rows of a long table are encoded by several threads.

use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::json::write;
use patchbay_schemas::row::{Row, load_ahead};
use patchbay_schemas::schema::{DatabaseSchema, TableSchema};
use patchbay_schemas::wire::{MonitorTable, MonitorVersion, RowEvent};
use rayon::prelude::*;
use uuid::Uuid;

use super::MonitorSpec;

/// Least number of rows that one thread looks at, and number that it encodes at a time: enough that
/// the threads' overhead does not count.
const ROWS_PER_PART: usize = 2048;
/// Number of rows whose memory is loaded at a time.
const ROWS_LOADED_AHEAD: usize = 16;

/// Encodes all rows that a monitor sees, as `<table-updates>` in pieces. Rows are in the order of
/// their UUIDs, as ovsdb-server sends them, because the output of ovn-nbctl can depend on it.
pub(crate) fn encode_initial(
    spec: &MonitorSpec,
    schema: &DatabaseSchema,
    snapshot: &Snapshot,
) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut out = b"{".to_vec();
    let mut is_first = true;
    for (table, request) in &spec.requests.tables {
        if !request.select.initial {
            continue;
        }
        let rows: Vec<_> = snapshot.table(*table).iter().collect();
        let seen = rows
            .par_iter()
            .with_min_len(ROWS_PER_PART)
            .filter(|row| request.condition.matches_any(row));
        let mut rows: Vec<_> = seen.map(|row| (row.uuid, *row)).collect();
        if rows.is_empty() {
            continue;
        }
        rows.par_sort_unstable_by_key(|(uuid, _)| *uuid);
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        let rows = RowEncoder { table: schema.table(*table), request, version: spec.version }
            .encode(&rows);
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

/// Encoder of the rows of one table.
#[derive(Clone, Copy)]
struct RowEncoder<'a> {
    table: &'a TableSchema,
    request: &'a MonitorTable,
    version: MonitorVersion,
}

impl RowEncoder<'_> {
    /// Encodes the members of the table's JSON object, in pieces.
    fn encode(self, rows: &[(Uuid, &Arc<Row>)]) -> Vec<Vec<u8>> {
        rows.par_chunks(ROWS_PER_PART)
            .enumerate()
            .map(|(i, part)| self.encode_part(part, i == 0))
            .collect()
    }

    fn encode_part(self, rows: &[(Uuid, &Arc<Row>)], is_first: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, (uuid, row)) in rows.iter().enumerate() {
            if i % ROWS_LOADED_AHEAD == 0 {
                let next = rows[i..].iter().take(ROWS_LOADED_AHEAD);
                load_ahead(next.map(|(_, row)| &***row));
            }
            out.extend_from_slice(if is_first && i == 0 { &b"\""[..] } else { b",\"" });
            write_uuid(&mut out, *uuid);
            out.extend_from_slice(b"\":");
            self.request.write_event(RowEvent::Initial(row), self.table, self.version, &mut out);
        }
        out
    }
}
