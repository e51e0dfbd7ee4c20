//! Random conditions of operations and of monitors.

use patchbay_schemas::atom::AtomType;
use patchbay_schemas::schema::{ColumnSchema, TableSchema};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::requests::any_column;
use super::values::{atom, elements, fault, pick, row_name, row_uuid, value};

pub(super) fn condition(rng: &mut StdRng, number: usize, table: &TableSchema) -> Value {
    let clauses = match rng.random_range(0..100) {
        0..=14 => return json!([]),
        15..=59 => return json!([["_uuid", "==", ["uuid", row_uuid(rng, number)]]]),
        60..=64 => return json!([["_uuid", "==", ["named-uuid", row_name(rng, number)]]]),
        65..=67 => return json!([rng.random_bool(0.7)]),
        68..=89 => 1,
        _ => 2,
    };
    let mut condition = Vec::new();
    for _ in 0..clauses {
        let column = any_column(rng, table);
        condition.push(clause(rng, column, Place::Operation));
    }
    Value::Array(condition)
}

/// A condition on monitored columns. A condition on other columns, of a monitor that shares its
/// records with one of equal columns, makes the real server write beyond its memory.
pub(super) fn monitor_condition(rng: &mut StdRng, columns: &[ColumnSchema]) -> Value {
    let clauses = match rng.random_range(0..100) {
        0..=14 => return json!([]),
        15..=24 => return json!([false]),
        25..=29 => return json!([true]),
        _ if columns.is_empty() => return json!([rng.random_bool(0.5)]),
        30..=74 => 1,
        _ => 2,
    };
    let mut condition: Vec<Value> = Vec::new();
    if rng.random_bool(0.1) {
        condition.push(json!(false));
    }
    for _ in 0..clauses {
        let column = &columns[rng.random_range(0..columns.len())];
        condition.push(clause(rng, column, Place::Monitor));
    }
    Value::Array(condition)
}

/// Context of a clause. In a monitor there are no named UUIDs. There are no faults either, because
/// the reported one of several is arbitrary, and so is the effect of the request until then.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Operation,
    Monitor,
}

fn clause(rng: &mut StdRng, column: &ColumnSchema, place: Place) -> Value {
    let names = place == Place::Operation;
    let ty = &column.ty;
    let number = matches!(ty.key.atom, AtomType::Integer | AtomType::Real) && ty.value.is_none();
    let (function, argument) = match rng.random_range(0..100) {
        0..=24 if number && ty.max == 1 => {
            let function = pick(rng, &["<", "<=", ">", ">="]);
            (function, atom(rng, &ty.key, names))
        }
        0..=1 if place == Place::Operation => {
            let functions = ["<", ">=", "=", "none"];
            (pick(rng, &functions), atom(rng, &ty.key, names))
        }
        2..=5 if place == Place::Operation => {
            let functions = ["==", "!=", "includes", "excludes", "<"];
            (pick(rng, &functions), fault(rng, ty))
        }
        25..=64 => (pick(rng, &["==", "!="]), value(rng, ty, names)),
        _ => {
            let count = if ty.min == 1 && ty.max == 1 && ty.value.is_none() {
                1
            } else {
                rng.random_range(0..=ty.max.min(2))
            };
            let argument = elements(rng, ty, count, names);
            (pick(rng, &["includes", "excludes"]), argument)
        }
    };
    json!([&*column.name, function, argument])
}
