//! Changes of a source's content as operations on the database that follows it.

use std::sync::Arc;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{ColumnValues, Condition, InsertRow, Operation};

use super::schema_map::{SchemaMap, TableMap};

/// The operations that give a database the content of a snapshot.
///
/// # Errors
/// The snapshot has a table or column that the database lacks, which the text names.
pub(crate) fn content_operations(
    wanted: &Snapshot,
    present: &Snapshot,
) -> Result<Vec<Operation>, String> {
    SchemaMap::new(wanted.schema(), present.schema(), |_| false)
        .map(|map| adopt_content(wanted, &map, present))
        .map_err(|error| error.to_string())
}

/// The operations that repeat changes of the source. `own` is the follower's schema.
pub(super) fn repeat_changes(
    changes: &[RowChange],
    map: &SchemaMap,
    own: &DatabaseSchema,
) -> Vec<Operation> {
    changes
        .iter()
        .filter_map(|change| {
            let table = map.table(change.table)?;
            change_row(table, change.old.as_ref(), change.new.as_ref(), own)
        })
        .collect()
}

/// The operations that give the follower the content of the source, in all tables that it follows.
pub(super) fn adopt_content(source: &Snapshot, map: &SchemaMap, own: &Snapshot) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (id, table) in map.tables(source.schema()) {
        let wanted = source.table(id);
        let present = own.table(table.table);
        let surplus = present.iter().filter(|row| wanted.get(row.uuid).is_none());
        operations.extend(surplus.map(|row| delete(table, row)));
        for row in wanted.iter() {
            operations.extend(match present.get(row.uuid) {
                None => Some(insert(table, row, own.schema())),
                Some(old) => {
                    let columns = table.columns.iter().filter_map(|(from, to)| {
                        let value = row.values.get(*from)?;
                        (old.values.get(*to) != Some(value)).then(|| (*to, value.clone()))
                    });
                    update(table, row, columns.collect())
                }
            });
        }
    }
    operations
}

fn change_row(
    table: &TableMap,
    old: Option<&Arc<Row>>,
    new: Option<&Arc<Row>>,
    own: &DatabaseSchema,
) -> Option<Operation> {
    match (old, new) {
        (None, None) => None,
        (None, Some(new)) => Some(insert(table, new, own)),
        (Some(old), None) => Some(delete(table, old)),
        (Some(old), Some(new)) => {
            let columns = table.columns.iter().filter_map(|(from, to)| {
                let value = new.values.get(*from)?;
                (old.values.get(*from) != Some(value)).then(|| (*to, value.clone()))
            });
            update(table, new, columns.collect())
        }
    }
}

fn insert(table: &TableMap, row: &Row, own: &DatabaseSchema) -> Operation {
    let own_table = own.table(table.table);
    let is_same = table.columns.iter().all(|(from, to)| from == to)
        && table.columns.len() == own_table.column_ids().count();
    let value = |(from, to): &(_, _)| Some((*to, row.values.get(*from)?.clone()));
    Operation::Insert {
        table: table.table,
        uuid: row.uuid,
        given: None,
        row: if is_same {
            InsertRow::from_values(&row.values)
        } else {
            InsertRow::new(own_table, table.columns.iter().filter_map(value))
        },
    }
}

/// `None`: no column changes.
fn update(table: &TableMap, row: &Row, columns: ColumnValues) -> Option<Operation> {
    (!columns.is_empty()).then(|| Operation::Update {
        table: table.table,
        condition: Condition::uuid(row.uuid),
        row: columns,
    })
}

fn delete(table: &TableMap, row: &Row) -> Operation {
    Operation::Delete { table: table.table, condition: Condition::uuid(row.uuid) }
}
