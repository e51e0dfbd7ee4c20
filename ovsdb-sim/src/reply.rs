//! Encoding of replies and notifications (RFC 7047 §4.1).

use std::sync::Arc;

use patchbay_engine::db::{OperationResult, SelectedRows};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::MonitorVersion;
use rayon::prelude::*;
use uuid::Uuid;

use crate::chunk::Chunk;
use crate::update::UpdateText;

/// Bytes that are reserved for each operation's result: the length of an `insert`'s.
const INSERT_RESULT_BYTES: usize =
    br#"{"uuid":["uuid","550e8400-e29b-41d4-a716-446655440000"]},"#.len();
/// Number of results in a chunk of a long reply: about a megabyte. Any thread gives blocks of this
/// size back to the system, smaller ones only the thread that allocated them.
const CHUNK_RESULTS: usize = 16_384;
/// Bytes that are reserved for the end of a reply, so that a long text is not copied for it.
const REPLY_END_BYTES: usize = 32;

/// Text of an update notification behind the changes.
const UPDATE_TAIL: &[u8] = b"]}";
/// Bytes that are reserved for the rest of an update notification: more than usual ids need.
const WHOLE_UPDATE_BYTES: usize = 128;

/// Encodes a successful reply. `write_result` appends the result's JSON text.
pub(crate) fn success(id: &Json, write_result: impl FnOnce(&mut Vec<u8>)) -> Chunk {
    let mut out = b"{\"id\":".to_vec();
    id.write(&mut out);
    out.extend_from_slice(b",\"result\":");
    write_result(&mut out);
    out.extend_from_slice(b",\"error\":null}");
    Chunk::Bytes(out)
}

/// Encodes a successful reply with a result in pieces.
pub(crate) fn success_in_pieces(id: &Json, result: Vec<Vec<u8>>) -> impl Iterator<Item = Chunk> {
    let mut head = b"{\"id\":".to_vec();
    id.write(&mut head);
    head.extend_from_slice(b",\"result\":");
    let pieces = [head].into_iter().chain(result);
    pieces.chain([b",\"error\":null}".to_vec()]).map(Chunk::Bytes)
}

/// Encodes an error reply, without `result`, as ovsdb-server does.
pub(crate) fn failure(id: &Json, error: &Json) -> Chunk {
    let mut text = Vec::new();
    error.write(&mut text);
    failure_text(id, &text)
}

/// Encodes an error reply with the JSON text of its `error`.
pub(crate) fn failure_text(id: &Json, error: &[u8]) -> Chunk {
    let mut out = b"{\"id\":".to_vec();
    id.write(&mut out);
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(error);
    out.push(b'}');
    Chunk::Bytes(out)
}

/// Encodes a notification.
pub(crate) fn notification(method: &str, params: &Json) -> Chunk {
    let mut out = format!("{{\"id\":null,\"method\":\"{method}\",\"params\":").into_bytes();
    params.write(&mut out);
    out.push(b'}');
    Chunk::Bytes(out)
}

/// Encodes the update notification of the monitor `id`. The changes, `body`, may be shared with
/// other clients. `last_id` is the id of the last transaction among them, which only
/// `monitor_cond_since` reports.
pub(crate) fn update(
    id: &Json,
    version: MonitorVersion,
    last_id: Uuid,
    body: Arc<UpdateText>,
) -> [Chunk; 3] {
    let mut head = Vec::new();
    write_update_head(&mut head, id, version, last_id);
    [Chunk::Bytes(head), Chunk::Update(body), Chunk::Bytes(UPDATE_TAIL.to_vec())]
}

/// Encodes the same notification as [`update`] as one text, for all monitors with this `id`. The
/// changes, `body`, must be whole.
pub(crate) fn whole_update(
    id: &Json,
    version: MonitorVersion,
    last_id: Uuid,
    body: &UpdateText,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.piece().len() + WHOLE_UPDATE_BYTES);
    write_update_head(&mut text, id, version, last_id);
    text.extend_from_slice(body.piece());
    text.extend_from_slice(UPDATE_TAIL);
    text
}

fn write_update_head(out: &mut Vec<u8>, id: &Json, version: MonitorVersion, last_id: Uuid) {
    out.extend_from_slice(b"{\"id\":null,\"method\":\"");
    out.extend_from_slice(version.update_method().as_bytes());
    out.extend_from_slice(b"\",\"params\":[");
    id.write(out);
    if version == MonitorVersion::V3 {
        out.push(b',');
        write_transaction_id(out, last_id);
    }
    out.push(b',');
}

/// Appends a transaction's id as a JSON string.
pub(crate) fn write_transaction_id(out: &mut Vec<u8>, id: Uuid) {
    out.push(b'"');
    write_uuid(out, id);
    out.push(b'"');
}

/// Encodes the reply to a transaction of `total` operations, with one more entry if the commit
/// failed. `None`: it would be longer than `limit` bytes.
///
/// A long reply has several chunks, which several threads encode.
pub(crate) fn transaction(
    id: &Json,
    schema: &DatabaseSchema,
    results: &[OperationResult],
    error: Option<&OvsdbError>,
    total: usize,
    limit: usize,
) -> Option<Vec<Chunk>> {
    let is_bounded = |result: &OperationResult| !matches!(result, OperationResult::Rows(_));
    let is_long = results.len() > CHUNK_RESULTS && results.iter().all(is_bounded);
    let first_len = if is_long { CHUNK_RESULTS } else { results.len() };
    let (first, rest) = results.split_at(first_len);
    let write_first = || {
        let mut out = b"{\"id\":".to_vec();
        id.write(&mut out);
        out.extend_from_slice(b",\"result\":[");
        write_results(schema, first, &mut out, limit).then_some(out)
    };
    let mut texts = if is_long {
        let write_rest = |results| {
            let mut out = b",".to_vec();
            write_results(schema, results, &mut out, limit).then_some(out)
        };
        let rest = rest.par_chunks(CHUNK_RESULTS).map(write_rest);
        rayon::iter::once(())
            .map(|()| write_first())
            .chain(rest)
            .collect::<Option<Vec<Vec<u8>>>>()?
    } else {
        vec![write_first()?]
    };
    if let Some(out) = texts.last_mut() {
        if let Some(error) = error {
            if !results.is_empty() {
                out.push(b',');
            }
            error.to_json().write(out);
            for _ in results.len() + 1..total {
                out.extend_from_slice(b",null");
            }
        }
        out.extend_from_slice(b"],\"error\":null}");
    }
    Some(texts.into_iter().map(Chunk::Bytes).collect())
}

/// Appends results, separated by commas. Returns `false` if they are cut off because `out` is
/// longer than `limit` bytes.
fn write_results(
    schema: &DatabaseSchema,
    results: &[OperationResult],
    out: &mut Vec<u8>,
    limit: usize,
) -> bool {
    let bytes = results.len().saturating_mul(INSERT_RESULT_BYTES);
    out.reserve(bytes.saturating_add(REPLY_END_BYTES).min(limit));
    for (i, result) in results.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if !write_operation_result(schema, result, out, limit) {
            return false;
        }
    }
    true
}

/// Appends the result of an operation. Returns `false` if it is cut off because `out` is longer
/// than `limit` bytes.
fn write_operation_result(
    schema: &DatabaseSchema,
    result: &OperationResult,
    out: &mut Vec<u8>,
    limit: usize,
) -> bool {
    match result {
        OperationResult::Empty => out.extend_from_slice(b"{}"),
        OperationResult::Inserted(uuid) => {
            out.extend_from_slice(b"{\"uuid\":[\"uuid\",\"");
            write_uuid(out, *uuid);
            out.extend_from_slice(b"\"]}");
        }
        OperationResult::Count(count) => {
            out.extend_from_slice(b"{\"count\":");
            write::unsigned(out, *count as u64);
            out.push(b'}');
        }
        OperationResult::Rows(selected) => {
            let SelectedRows { table, columns, rows } = &**selected;
            let table = schema.table(*table);
            out.extend_from_slice(b"{\"rows\":[");
            for (i, row) in rows.iter().enumerate() {
                if out.len() > limit {
                    return false;
                }
                out.extend_from_slice(if i > 0 { b",{" } else { b"{" });
                for (i, column) in columns.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write::string(out, table.column_name(*column).as_bytes());
                    out.push(b':');
                    row.get(*column).write_json(out);
                }
                out.push(b'}');
            }
            out.extend_from_slice(b"]}");
        }
    }
    true
}
