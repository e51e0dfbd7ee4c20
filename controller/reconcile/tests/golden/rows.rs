//! Rows as the scenarios record them, and their comparison with a database.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{TableId, TableSchema};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::report::Difference;

pub(crate) fn table_named<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> Result<(TableId, &'a TableSchema), String> {
    let found = snapshot.schema().table_by_name(name);
    found.ok_or_else(|| format!("there is no table {name}"))
}

/// Differences between the rows of a table and the expected ones. `None`: there are none.
///
/// `is_compared` chooses rows. `name` returns the text for a reference to a row of a table, and
/// `None` for rows without one.
pub(crate) fn compare(
    snapshot: &Snapshot,
    table: &str,
    expected: &[Map<String, Value>],
    is_compared: impl Fn(&TableSchema, &Row) -> bool,
    name: impl Fn(&TableSchema, &Row) -> Option<String>,
) -> Result<Option<Difference>, String> {
    let (id, schema) = table_named(snapshot, table)?;
    let rows = snapshot.table(id).iter();
    let mut extra: Vec<String> = rows
        .filter(|row| is_compared(schema, row))
        .map(|row| canonical(recorded(snapshot, schema, row, &name)))
        .collect();
    extra.sort();
    let mut missing = Vec::new();
    for row in expected {
        let row = canonical(row.clone());
        match extra.iter().position(|have| *have == row) {
            Some(at) => {
                extra.remove(at);
            }
            None => missing.push(row),
        }
    }
    let differs = !missing.is_empty() || !extra.is_empty();
    Ok(differs.then(|| Difference { place: table.to_owned(), missing, extra }))
}

/// One text for each row, whatever the order of its keys and sets.
fn canonical(mut row: Map<String, Value>) -> String {
    for value in row.values_mut() {
        if let Value::Array(items) = value {
            items.sort_by_key(Value::to_string);
        }
    }
    let sorted: BTreeMap<_, _> = row.into_iter().collect();
    json!(sorted).to_string()
}

/// A row as scenarios record it: without defaults, references by name. An optional column that is
/// set is recorded whatever its value.
fn recorded(
    snapshot: &Snapshot,
    schema: &TableSchema,
    row: &Row,
    name: impl Fn(&TableSchema, &Row) -> Option<String>,
) -> Map<String, Value> {
    let named = |table: TableId, uuid: Uuid| {
        let row = snapshot.row(table, uuid)?;
        name(snapshot.schema().table(table), row)
    };
    let columns = schema.column_ids().filter_map(|column| {
        let (ty, datum) = (schema.column_type(column), row.get(column));
        if ty.is_default(&datum) {
            return None;
        }
        let value = match &*datum {
            Datum::Map(map) => map
                .iter()
                .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), plain(value)))
                .collect::<Map<_, _>>()
                .into(),
            Datum::Set(set) => {
                let mut items = set.iter().map(|atom| {
                    let target = ty.key.reference().zip(atom.as_uuid());
                    let name = target.and_then(|(target, uuid)| named(target.table, uuid));
                    name.map_or_else(|| plain(atom), Value::String)
                });
                if ty.max == 1 { items.next().unwrap_or_default() } else { items.collect() }
            }
        };
        Some((schema.column_name(column).to_owned(), value))
    });
    columns.collect()
}

/// An atom as JSON, without the notation of RFC 7047.
pub(crate) fn plain(atom: &Atom) -> Value {
    match atom {
        Atom::Integer(value) => json!(value),
        Atom::Real(value) => json!(value.0),
        Atom::Boolean(value) => json!(value),
        Atom::String(text) => json!(&**text),
        Atom::Uuid(uuid) => json!(uuid.to_string()),
    }
}
