//! Transactions whose operations belong together: what one does wrong, another repairs.

use patchbay_schemas::schema::{
    BaseType, ColumnSchema, Constraint, DatabaseSchema, RefType, TableSchema,
};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::requests::{LOCKS, row};
use super::values::{atom, elements, pick, row_uuid};

/// Operations of a transaction. `any_operation` makes one of any kind.
pub(super) fn sequence(
    rng: &mut StdRng,
    schema: &DatabaseSchema,
    any_operation: impl Fn(&mut StdRng) -> Value,
) -> Vec<Value> {
    let number = rng.random_range(0..schema.tables.len());
    let table = &schema.tables[number];
    let mut operations = match rng.random_range(0..6) {
        0 => duplicate_that_goes(rng, number, table),
        1 => exchange(rng, number, table),
        2 => orphan(rng, schema, number),
        3 => vanished_target(rng, schema, number),
        4 => overlapping_mutations(rng, number, table),
        _ => return guards(rng, any_operation),
    };
    if operations.is_empty() || rng.random_bool(0.3) {
        operations.push(any_operation(rng));
    }
    operations
}

fn is_row(uuid: &str) -> Value {
    json!([["_uuid", "==", ["uuid", uuid]]])
}

fn insert(table: &TableSchema, uuid: &str, row: &Value) -> Value {
    json!({"op": "insert", "table": &*table.name, "uuid": uuid, "row": row})
}

fn mutable_columns(table: &TableSchema) -> Vec<&ColumnSchema> {
    table.columns.iter().filter(|column| column.mutable).collect()
}

/// Two equal rows, of which one is deleted or changed: at the commit no index is violated.
fn duplicate_that_goes(rng: &mut StdRng, number: usize, table: &TableSchema) -> Vec<Value> {
    let [first, second] = [0, 1].map(|_| row_uuid(rng, number));
    let values = row(rng, &table.columns.iter().collect::<Vec<_>>());
    let others = row(rng, &mutable_columns(table));
    let gone = pick(rng, &[&first, &second]);
    let repair = match rng.random_range(0..3) {
        0 => json!({"op": "update", "table": &*table.name, "where": is_row(gone), "row": others}),
        _ => json!({"op": "delete", "table": &*table.name, "where": is_row(gone)}),
    };
    let mut operations = vec![insert(table, &first, &values), insert(table, &second, &values)];
    let at = rng.random_range(0..=2);
    operations.insert(at, repair);
    operations
}

/// Two rows that exchange their values.
fn exchange(rng: &mut StdRng, number: usize, table: &TableSchema) -> Vec<Value> {
    let uuids = [0, 1].map(|_| row_uuid(rng, number));
    let columns = mutable_columns(table);
    let rows = [0, 1].map(|_| row(rng, &columns));
    let update = |uuid: &str, row: &Value| json!({"op": "update", "table": &*table.name, "where": is_row(uuid), "row": row});
    let mut operations = vec![update(&uuids[0], &rows[1]), update(&uuids[1], &rows[0])];
    if rng.random_bool(0.7) {
        let inserts = [0, 1].map(|at| insert(table, &uuids[at], &rows[at]));
        operations.splice(0..0, inserts);
    }
    operations
}

/// A column with a reference of a kind, and the number of the table that it refers to.
fn reference(rng: &mut StdRng, table: &TableSchema, ty: RefType) -> Option<(ColumnSchema, usize)> {
    let target = |base: &BaseType| match &base.constraint {
        Constraint::Reference(reference) if reference.ref_type == ty => {
            Some(reference.table.index())
        }
        _ => None,
    };
    let columns: Vec<_> = table
        .columns
        .iter()
        .filter_map(|column| {
            let target = column.ty.base_types().find_map(target)?;
            Some((column.clone(), target))
        })
        .collect();
    (!columns.is_empty()).then(|| pick(rng, &columns))
}

/// A value with a reference to the row `name` of the transaction.
fn referring(rng: &mut StdRng, column: &ColumnSchema, ty: RefType, name: &str) -> Value {
    let mut element = |base: &BaseType| match &base.constraint {
        Constraint::Reference(reference) if reference.ref_type == ty => json!(["named-uuid", name]),
        _ => atom(rng, base, false),
    };
    let key = element(&column.ty.key);
    match &column.ty.value {
        Some(value) => json!(["map", [[key, element(value)]]]),
        None => key,
    }
}

/// A row that nothing refers to any more at the end of the transaction, perhaps one of a chain.
fn orphan(rng: &mut StdRng, schema: &DatabaseSchema, number: usize) -> Vec<Value> {
    let holder = &schema.tables[number];
    let Some((column, target)) = reference(rng, holder, RefType::Strong) else {
        return Vec::new();
    };
    let target = &schema.tables[target];
    let value = referring(rng, &column, RefType::Strong, "child");
    let uuid = row_uuid(rng, number);
    let mut child =
        json!({"op": "insert", "table": &*target.name, "uuid-name": "child", "row": {}});
    let parent = insert(holder, &uuid, &json!({&*column.name: value}));
    let mut operations = Vec::new();
    // The child may have a child, too.
    if let Some((inner, grandchild)) = reference(rng, target, RefType::Strong) {
        let value = referring(rng, &inner, RefType::Strong, "grandchild");
        child["row"] = json!({&*inner.name: value});
        let table = &schema.tables[grandchild];
        operations.push(
            json!({"op": "insert", "table": &*table.name, "uuid-name": "grandchild", "row": {}}),
        );
    }
    operations.extend([child, parent]);
    let at = rng.random_range(0..operations.len());
    operations.rotate_left(at);
    operations.extend(match rng.random_range(0..4) {
        0 => Some(json!({"op": "delete", "table": &*holder.name, "where": is_row(&uuid)})),
        1 => Some(json!({"op": "update", "table": &*holder.name, "where": is_row(&uuid),
            "row": {&*column.name: [if column.ty.is_map() { "map" } else { "set" }, []]}})),
        2 => Some(json!({"op": "mutate", "table": &*holder.name, "where": is_row(&uuid),
            "mutations": [[&*column.name, "delete", value]]})),
        _ => None,
    });
    operations
}

/// A row with a weak reference to one that is deleted in the same transaction. The table of the
/// latter comes first, because the real server may keep the reference otherwise.
fn vanished_target(rng: &mut StdRng, schema: &DatabaseSchema, number: usize) -> Vec<Value> {
    let holder = &schema.tables[number];
    let Some((column, target)) = reference(rng, holder, RefType::Weak) else {
        return Vec::new();
    };
    if target == number {
        return Vec::new();
    }
    let target = &schema.tables[target];
    let value = referring(rng, &column, RefType::Weak, "target");
    let uuid = row_uuid(rng, number);
    vec![
        json!({"op": "insert", "table": &*target.name, "uuid-name": "target", "row": {}}),
        insert(holder, &uuid, &json!({&*column.name: value})),
        json!({"op": "delete", "table": &*target.name, "where": [["_uuid", "==", ["named-uuid", "target"]]]}),
        json!({"op": "select", "table": &*holder.name, "where": is_row(&uuid), "columns": [&*column.name]}),
    ]
}

/// Mutations of one set or map that concern the same elements.
fn overlapping_mutations(rng: &mut StdRng, number: usize, table: &TableSchema) -> Vec<Value> {
    let columns: Vec<_> =
        table.columns.iter().filter(|column| column.mutable && !column.ty.is_scalar()).collect();
    if columns.is_empty() {
        return Vec::new();
    }
    let column = pick(rng, &columns);
    let count = rng.random_range(2..=5);
    let mutations: Vec<_> = (0..count)
        .map(|_| {
            let mutator = pick(rng, &["insert", "delete"]);
            let size = rng.random_range(1..=3);
            json!([&*column.name, mutator, elements(rng, &column.ty, size, false)])
        })
        .collect();
    let uuid = row_uuid(rng, number);
    vec![
        json!({"op": "mutate", "table": &*table.name, "where": is_row(&uuid), "mutations": mutations}),
        json!({"op": "select", "table": &*table.name, "where": is_row(&uuid), "columns": [&*column.name]}),
    ]
}

/// Assertions, comments and ends around operations.
fn guards(rng: &mut StdRng, any_operation: impl Fn(&mut StdRng) -> Value) -> Vec<Value> {
    let count = rng.random_range(2..=6);
    let guard = |rng: &mut StdRng| match rng.random_range(0..12) {
        0..=2 => json!({"op": "assert", "lock": pick(rng, &LOCKS)}),
        3..=4 => json!({"op": "comment", "comment": pick(rng, &["", "x", "é\n\"\\", "\u{1f600}"])}),
        5 => json!({"op": "abort"}),
        6 => json!({"op": "commit", "durable": rng.random_bool(0.2)}),
        _ => any_operation(rng),
    };
    (0..count).map(|_| guard(rng)).collect()
}
