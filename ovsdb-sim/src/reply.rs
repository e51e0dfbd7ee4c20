//! Replies and notifications as text.

use std::sync::Arc;

use patchbay_engine::db::OperationResult;
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, write};
use patchbay_schemas::schema::DatabaseSchema;

use crate::monitor::UpdateText;
use crate::outbox::Chunk;

/// About as long is the result of an `insert`.
const INSERTED: usize = br#"{"uuid":["uuid","550e8400-e29b-41d4-a716-446655440000"]},"#.len();

/// A successful reply around `result`, which is JSON text.
pub(crate) fn success(id: &Json, write_result: impl FnOnce(&mut Vec<u8>)) -> Chunk {
    let mut out = b"{\"id\":".to_vec();
    id.write(&mut out);
    out.extend_from_slice(b",\"result\":");
    write_result(&mut out);
    out.extend_from_slice(b",\"error\":null}");
    Chunk::Own(out)
}

/// A successful reply around a result in pieces.
pub(crate) fn success_in_pieces(id: &Json, result: Vec<Vec<u8>>) -> impl Iterator<Item = Chunk> {
    let mut head = b"{\"id\":".to_vec();
    id.write(&mut head);
    head.extend_from_slice(b",\"result\":");
    let pieces = [head].into_iter().chain(result);
    pieces.chain([b",\"error\":null}".to_vec()]).map(Chunk::Own)
}

/// An error reply. ovsdb-server leaves `result` out of it.
pub(crate) fn failure(id: &Json, error: &Json) -> Chunk {
    let mut out = b"{\"id\":".to_vec();
    id.write(&mut out);
    out.extend_from_slice(b",\"error\":");
    error.write(&mut out);
    out.push(b'}');
    Chunk::Own(out)
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Json) -> Chunk {
    let mut out = format!("{{\"id\":null,\"method\":\"{method}\",\"params\":").into_bytes();
    params.write(&mut out);
    out.push(b'}');
    Chunk::Own(out)
}

/// An update: the parameters before the changes, and the changes, which many clients may share.
pub(crate) fn update(
    method: &str,
    body: Arc<UpdateText>,
    write_head: impl FnOnce(&mut Vec<u8>),
) -> [Chunk; 3] {
    let mut out = format!("{{\"id\":null,\"method\":\"{method}\",\"params\":[").into_bytes();
    write_head(&mut out);
    out.push(b',');
    [
        Chunk::Own(out),
        Chunk::Update(body),
        Chunk::Own(b"]}".to_vec()),
    ]
}

/// The result of a transaction of `total` operations: one more entry when the commit failed. None when it would be
/// longer than `limit` bytes.
pub(crate) fn transaction(
    id: &Json,
    schema: &DatabaseSchema,
    results: &[OperationResult],
    error: Option<&OvsdbError>,
    total: usize,
    limit: usize,
) -> Option<Chunk> {
    let mut complete = true;
    let reply = success(id, |out| {
        out.reserve(results.len().saturating_mul(INSERTED).min(limit));
        out.push(b'[');
        for (i, result) in results.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            complete = complete && operation(schema, result, out, limit);
        }
        if let Some(error) = error {
            if !results.is_empty() {
                out.push(b',');
            }
            error.to_json().write(out);
            for _ in results.len() + 1..total {
                out.extend_from_slice(b",null");
            }
        }
        out.push(b']');
    });
    complete.then_some(reply)
}

/// Appends a result; false when it ends before its end, beyond the limit.
fn operation(
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
        OperationResult::Rows {
            table,
            columns,
            rows,
        } => {
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
