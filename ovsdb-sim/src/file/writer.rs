//! Encoding of changes as the text of a record.

use std::time::{SystemTime, UNIX_EPOCH};

use patchbay_engine::db::{ChangeSet, RowChange, Snapshot};
use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::delta::Delta;
use patchbay_schemas::json::write;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableSchema};

/// Comment of the content of a database that was compacted. This text and the next one are those of
/// ovsdb-server, which `ovsdb-tool show-log` prints.
pub(super) const COMPACTED: &str = "compacting database online";
/// Comment of the content of a database that was converted to another schema.
pub(super) const CONVERTED: &str = "converted by ovsdb-server";

/// The content of a database as changes of an empty one.
pub(super) fn content(snapshot: &Snapshot) -> ChangeSet {
    let rows = snapshot.schema().table_ids().flat_map(|table| {
        snapshot.table(table).iter().map(move |row| RowChange {
            table,
            old: None,
            new: Some(row.clone()),
        })
    });
    ChangeSet { rows: rows.collect() }
}

/// Encodes the JSON object of a transaction, with the present time as its date. `None`: only
/// ephemeral columns changed.
pub(super) fn transaction(
    schema: &DatabaseSchema,
    changes: &ChangeSet,
    comment: &str,
) -> Option<Vec<u8>> {
    let (text, is_persistent) = object(schema, changes, comment);
    is_persistent.then_some(text)
}

/// Encodes the JSON object of the content of a database, even if it has no rows. As in
/// ovsdb-server, the comment has the reason why a file has it.
pub(super) fn commented_content(snapshot: &Snapshot, comment: &str) -> Vec<u8> {
    let (text, _) = object(snapshot.schema(), &content(snapshot), comment);
    text
}

/// The JSON object of a transaction. `true`: persistent columns changed.
fn object(schema: &DatabaseSchema, changes: &ChangeSet, comment: &str) -> (Vec<u8>, bool) {
    let writer = RecordWriter {
        whole_values: changes.rows.iter().any(|change| is_ambiguous(schema, change)),
    };
    let mut out = b"{\"_date\":".to_vec();
    write::integer(&mut out, now_ms());
    if !writer.whole_values {
        out.extend_from_slice(b",\"_is_diff\":true");
    }
    if !comment.is_empty() {
        out.extend_from_slice(b",\"_comment\":");
        write::string(&mut out, comment.as_bytes());
    }
    let empty = out.len();
    for id in schema.table_ids() {
        let table = schema.table(id);
        let start = out.len();
        out.push(b',');
        write::string(&mut out, table.name.as_bytes());
        out.extend_from_slice(b":{");
        let first = out.len();
        for change in changes.rows.iter().filter(|change| change.table == id) {
            writer.append_row(table, change, first, &mut out);
        }
        if out.len() == first {
            out.truncate(start);
        } else {
            out.push(b'}');
        }
    }
    let persistent = out.len() > empty;
    out.push(b'}');
    (out, persistent)
}

/// `true` if a difference in this change would be ambiguous. If the old value is a default that is
/// not empty, as in sets and maps of one or more elements, ovsdb-server 3.1 reads a difference as
/// the new value, and later releases read it as a difference.
fn is_ambiguous(schema: &DatabaseSchema, change: &RowChange) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return false;
    };
    let table = schema.table(change.table);
    table.column_ids().any(|column| {
        let ty = table.column_type(column);
        let (before, after) = (&old.values[column], &new.values[column]);
        ty.is_composite() && ty.min > 0 && ty.is_default(before) && before != after
    })
}

struct RecordWriter {
    /// `true` to write changed columns as whole values, not as differences.
    whole_values: bool,
}

impl RecordWriter {
    /// Appends a row as a member of the table's object, whose content begins at `first`. Appends
    /// nothing if only ephemeral columns changed.
    fn append_row(&self, table: &TableSchema, change: &RowChange, first: usize, out: &mut Vec<u8>) {
        let start = out.len();
        if start > first {
            out.push(b',');
        }
        out.push(b'"');
        write_uuid(out, change.uuid());
        out.extend_from_slice(b"\":");
        match (&change.old, &change.new) {
            (_, None) => out.extend_from_slice(b"null"),
            (None, Some(new)) => {
                self.append_columns(table, None, new, out);
            }
            (Some(old), Some(new)) => {
                if !self.append_columns(table, Some(old), new, out) {
                    out.truncate(start);
                }
            }
        }
    }

    /// Appends the object of the columns that differ from `old` or from the defaults. Returns
    /// `false` if there are none.
    fn append_columns(
        &self,
        table: &TableSchema,
        old: Option<&Row>,
        new: &Row,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let name = |column: ColumnId, out: &mut Vec<u8>| {
            out.push(if out.len() == start { b'{' } else { b',' });
            write::string(out, table.column_name(column).as_bytes());
            out.push(b':');
        };
        for (column, value) in table.column_ids().zip(new.values.iter()) {
            if table.column(column).is_some_and(|column| column.ephemeral) {
                continue;
            }
            let ty = table.column_type(column);
            match old.map(|old| &old.values[column]) {
                Some(before) if before == value => {}
                Some(before) if !self.whole_values => {
                    if let Some(delta) = Delta::between(before, value, ty) {
                        name(column, out);
                        delta.write_json(out);
                    }
                }
                None if ty.is_default(value) => {}
                _ => {
                    name(column, out);
                    value.write_json(out);
                }
            }
        }
        let any = out.len() > start;
        if !any {
            out.push(b'{');
        }
        out.push(b'}');
        any
    }
}

/// The current time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
