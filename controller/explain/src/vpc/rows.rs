//! Rows of an object, and their differences from the wanted ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{TableId, TableSchema};
use uuid::Uuid;

use crate::object::{ObjectRow, RowState};

/// External id with kind and name of the object that a row follows from.
const OWNER: &str = "owner";

/// Columns that identify a row without a name, with the texts between them.
const IDENTITIES: [&[(&str, &str)]; 3] = [
    &[("", "ip_prefix"), (" via ", "nexthop")],
    &[("", "priority"), (" ", "match")],
    &[("", "type"), (" ", "external_ip"), (" for ", "logical_ip")],
];

/// Rows that `owner` names, in the order of tables and names. `before`: the database, which may lack
/// some of them; `after`: the database with all changes.
pub(super) fn of(owner: &str, before: Option<&Snapshot>, after: &Snapshot) -> Vec<ObjectRow> {
    let wanted = owned(owner, after);
    let mut rows: Vec<ObjectRow> = wanted
        .iter()
        .map(|((table, uuid), row)| {
            let found = before.map(|before| before.row(*table, *uuid));
            let schema = after.schema().table(*table);
            let state = match found {
                None => RowState::Present,
                Some(None) => RowState::Missing,
                Some(Some(found)) => compared(schema, found, row),
            };
            described(schema, row, state)
        })
        .collect();
    if let Some(before) = before {
        let former = owned(owner, before);
        let unwanted = former.iter().filter(|(place, _)| !wanted.contains_key(place));
        rows.extend(unwanted.map(|((table, _), row)| {
            described(before.schema().table(*table), row, RowState::LeftOver)
        }));
    }
    rows.sort();
    rows
}

/// Rows of a snapshot that `owner` names.
fn owned<'a>(owner: &str, snapshot: &'a Snapshot) -> BTreeMap<(TableId, Uuid), &'a Arc<Row>> {
    let schema = snapshot.schema();
    let mut found = BTreeMap::new();
    for table in schema.table_ids() {
        let Some(column) = schema.table(table).column_id("external_ids") else {
            continue;
        };
        let is_owned = |row: &&Arc<Row>| {
            let ids = row.get(column);
            ids.as_map().and_then(|ids| ids.get_str(OWNER)) == Some(owner)
        };
        let rows = snapshot.table(table).iter().filter(is_owned);
        found.extend(rows.map(|row| ((table, row.uuid), row)));
    }
    found
}

fn compared(schema: &TableSchema, found: &Row, wanted: &Row) -> RowState {
    let differs = |column: &_| found.get(*column) != wanted.get(*column);
    let columns = schema.column_ids().filter(differs);
    let columns: Vec<String> =
        columns.map(|column| schema.column_name(column).to_owned()).collect();
    if columns.is_empty() { RowState::Present } else { RowState::Different(columns) }
}

fn described(schema: &TableSchema, row: &Row, state: RowState) -> ObjectRow {
    let text = |column: &str| {
        let value = row.get(schema.column_id(column)?);
        let text = plain(&value)?;
        (!text.is_empty()).then_some(text)
    };
    let joined = |parts: &[(&str, &str)]| {
        let texts: Option<Vec<String>> = parts
            .iter()
            .map(|(before, column)| Some(format!("{before}{}", text(column)?)))
            .collect();
        texts.map(|texts| texts.concat())
    };
    let identity = || IDENTITIES.into_iter().find_map(joined);
    ObjectRow {
        zone: None,
        table: schema.name.to_string(),
        row: text("name").or_else(identity).unwrap_or_else(|| row.uuid.to_string()),
        state,
    }
}

/// Text of the only value of a column.
fn plain(value: &Datum) -> Option<String> {
    let value = value.as_scalar()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
