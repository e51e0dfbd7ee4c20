//! Rows of two snapshots that are different.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use patchbay_engine::db::RowChange;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{TableId, TableSchema};

use super::object::Object;
use super::rows::{Snapshots, row_name};

/// Columns that distinguish rows of a table that have the same name.
const DISTINGUISHING: [&str; 10] = [
    "direction",
    "priority",
    "match",
    "ip_prefix",
    "nexthop",
    "type",
    "logical_ip",
    "external_ip",
    "logical_port",
    "ip",
];

/// Columns that ovn-northd and ovn-controller write, by table. An empty name stands for all columns.
const WRITTEN_BY_OVN: [(&str, &str); 5] = [
    ("NB_Global", ""),
    ("Logical_Switch_Port", "up"),
    ("Logical_Switch_Port", "dynamic_addresses"),
    ("Logical_Router_Port", "status"),
    ("BFD", "status"),
];

/// Rows that two snapshots of one database do not have alike. Columns that OVN writes itself do not
/// count.
pub fn differing_rows(snapshots: Snapshots<'_>) -> Vec<RowChange> {
    let Snapshots { before, after } = snapshots;
    let schema = after.schema();
    let mut changes = Vec::new();
    for table in schema.table_ids() {
        let ignored = ignored_columns(&schema.table(table).name);
        if ignored.contains(&"") {
            continue;
        }
        let known = before.table(table);
        for row in after.table(table).iter() {
            let old = known.get(row.uuid);
            if !old.is_some_and(|old| is_alike(schema.table(table), old, row, &ignored)) {
                changes.push(change(table, old, Some(row)));
            }
        }
        let now = after.table(table);
        let gone = known.iter().filter(|row| now.get(row.uuid).is_none());
        changes.extend(gone.map(|row| change(table, Some(row), None)));
    }
    changes
}

/// Rows that two databases do not have alike. Rows with other UUIDs are the same if they have the
/// name, the object and the values that distinguish such rows.
pub fn paired_rows(snapshots: Snapshots<'_>) -> Vec<RowChange> {
    let schema = snapshots.after.schema();
    let mut changes = Vec::new();
    let mut unpaired = BTreeMap::<TableId, [Vec<Arc<Row>>; 2]>::new();
    for change in differing_rows(snapshots) {
        let rows = unpaired.entry(change.table).or_default();
        match (&change.old, &change.new) {
            (Some(old), None) => rows[0].push(old.clone()),
            (None, Some(new)) => rows[1].push(new.clone()),
            // Embedded databases give the same UUIDs to rows that have nothing in common.
            (Some(old), Some(new)) if !is_same(schema.table(change.table), old, new) => {
                rows[0].push(old.clone());
                rows[1].push(new.clone());
            }
            _ => changes.push(change),
        }
    }
    for (table, [old, new]) in unpaired {
        let table_schema = schema.table(table);
        // From the strictest likeness to the loosest one.
        let mut rest = (old, new);
        for level in [Likeness::Values, Likeness::Place, Likeness::Name] {
            let (pairs, left) = pair(rest, |row| level.key(table_schema, row));
            changes.extend(pairs.iter().map(|(old, new)| change(table, Some(old), Some(new))));
            rest = left;
        }
        changes.extend(rest.0.iter().map(|row| change(table, Some(row), None)));
        changes.extend(rest.1.iter().map(|row| change(table, None, Some(row))));
    }
    // Of rows with other UUIDs, references count by the names of their rows.
    changes.retain(|change| {
        let is_pair = change.old.is_some() && change.new.is_some();
        !is_pair || !snapshots.changed_row(change).is_none_or(|row| row.is_unchanged())
    });
    changes
}

/// `true` if two rows with one UUID are one row.
fn is_same(schema: &TableSchema, old: &Row, new: &Row) -> bool {
    row_name(schema, old) == row_name(schema, new)
        && Object::of(schema, old) == Object::of(schema, new)
}

/// How alike two rows are that may be one.
#[derive(Clone, Copy)]
enum Likeness {
    /// All columns without references.
    Values,
    /// Name, object and the columns that distinguish rows of one name.
    Place,
    /// Name and object.
    Name,
}

impl Likeness {
    /// What alike rows have in common.
    fn key(self, schema: &TableSchema, row: &Row) -> Vec<String> {
        if let Self::Values = self {
            let columns = schema.column_ids();
            let columns = columns.filter(|column| {
                let ty = schema.column_type(*column);
                ty.base_types().all(|base| base.reference().is_none())
            });
            return columns
                .map(|column| schema.column_type(column).to_text(&row.get(column)))
                .collect();
        }
        let name = Some(row_name(schema, row)).filter(|name| *name != row.uuid.to_string());
        let object = Object::of(schema, row).map(|object| object.to_string());
        let mut key = vec![name.unwrap_or_default(), object.unwrap_or_default()];
        if let Self::Place = self {
            key.extend(DISTINGUISHING.map(|column| {
                let column = schema.column_id(column);
                let text = column.map(|of| schema.column_type(of).to_text(&row.get(of)));
                text.unwrap_or_default()
            }));
        }
        key
    }
}

/// Rows of one table, before and after.
type Sides = (Vec<Arc<Row>>, Vec<Arc<Row>>);

/// Row before and after.
type Pair = (Arc<Row>, Arc<Row>);

/// Pairs rows with the same key, in their order. Returns the pairs, and the rows without one.
fn pair((old, new): Sides, key: impl Fn(&Row) -> Vec<String>) -> (Vec<Pair>, Sides) {
    if old.is_empty() || new.is_empty() {
        return (Vec::new(), (old, new));
    }
    let mut by_key = HashMap::<Vec<String>, Vec<Arc<Row>>>::new();
    for row in old.into_iter().rev() {
        by_key.entry(key(&row)).or_default().push(row);
    }
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for row in new {
        match by_key.get_mut(&key(&row)).and_then(Vec::pop) {
            Some(other) => pairs.push((other, row)),
            None => left.push(row),
        }
    }
    let mut rest: Vec<_> = by_key.into_values().flatten().collect();
    rest.sort_by_key(|row| row.uuid);
    (pairs, (rest, left))
}

fn ignored_columns(table: &str) -> Vec<&'static str> {
    let of_table = WRITTEN_BY_OVN.iter().filter(|(of, _)| *of == table);
    of_table.map(|(_, column)| *column).collect()
}

/// `true` if two versions of a row differ in ignored columns only.
fn is_alike(schema: &TableSchema, old: &Row, new: &Row, ignored: &[&str]) -> bool {
    if old.values == new.values {
        return true;
    }
    let mut columns = schema.column_ids();
    !ignored.is_empty()
        && columns.all(|column| {
            ignored.contains(&schema.column_name(column)) || old.get(column) == new.get(column)
        })
}

fn change(table: TableId, old: Option<&Arc<Row>>, new: Option<&Arc<Row>>) -> RowChange {
    RowChange { table, old: old.cloned(), new: new.cloned() }
}
