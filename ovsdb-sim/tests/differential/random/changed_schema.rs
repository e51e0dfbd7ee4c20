//! Other versions of schemas.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::schema::{base_type, column_type};
use super::values::pick;

/// Number of changes of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    One,
    Some,
}

/// Another version of a schema.
pub(super) fn changed(schema: &str, seed: u64, changes: Changes) -> Value {
    let rng = &mut StdRng::seed_from_u64(seed);
    let mut schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let number = match changes {
        Changes::One => 1,
        Changes::Some => rng.random_range(1..5),
    };
    for _ in 0..number {
        change(rng, &mut schema["tables"]);
    }
    // The real server replies that it has converted to a schema with these, and has not.
    for table in members(&mut schema["tables"]) {
        for column in members(&mut table["columns"]) {
            drop(column.as_object_mut().map(|column| column.remove("ephemeral")));
        }
    }
    schema
}

/// The values of a JSON object.
pub(super) fn members(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let members = object.as_object_mut().into_iter().flatten();
    members.map(|(_, value)| value)
}

fn change(rng: &mut StdRng, tables: &mut Value) {
    let Value::Object(tables) = tables else {
        return;
    };
    let roots: Vec<bool> = tables.values().map(|table| table["isRoot"] == json!(true)).collect();
    let names: Vec<String> = tables.keys().cloned().collect();
    let name = pick(rng, &names);
    let table = &mut tables[&name];
    let columns: Vec<String> =
        table["columns"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
    let column = pick(rng, &columns);
    match rng.random_range(0..20) {
        0 => table["isRoot"] = json!(rng.random_bool(0.5)),
        1 => table["maxRows"] = json!(rng.random_range(1..=3)),
        2 => table["indexes"] = json!([[column]]),
        3 => drop(table.as_object_mut().map(|table| table.remove("indexes"))),
        4 => table["columns"]["new"] = json!({"type": column_type(rng, &roots)}),
        5 if columns.len() > 1 && table["indexes"] == Value::Null => {
            let columns = table["columns"].as_object_mut();
            drop(columns.map(|columns| columns.remove(&column)));
        }
        6..=9 => {
            let ty = &mut table["columns"][&column]["type"];
            // Wider, or narrower.
            let max = pick(rng, &[json!("unlimited"), json!(1), json!(2)]);
            if ty.is_object() {
                ty["min"] = json!(rng.random_range(0..=1));
                ty["max"] = max;
            } else {
                *ty = json!({"key": ty, "min": rng.random_range(0..=1), "max": max});
            }
        }
        10..=13 => {
            let key = base_type(rng, &roots, false);
            let ty = &mut table["columns"][&column]["type"];
            if may_refer_to_itself(&name, ty, &key) {
                return;
            }
            if ty.is_object() {
                ty["key"] = key;
            } else {
                *ty = key;
            }
        }
        14..=15 => table["columns"][&column]["mutable"] = json!(rng.random_bool(0.5)),
        _ => {
            let ty = column_type(rng, &roots);
            let old = &mut table["columns"][&column]["type"];
            if !may_refer_to_itself(&name, old, &ty) {
                *old = ty;
            }
        }
    }
}

/// `true` if values of the old type may have the UUID of their own row of `table`, and are strong
/// references to another table in the new one. The real server takes them for references to
/// themselves.
fn may_refer_to_itself(table: &str, old: &Value, new: &Value) -> bool {
    // A type, or its key or value, as an object.
    let bases = |ty: &Value| {
        let parts = [ty, &ty["key"], &ty["value"]];
        parts.map(|part| match part {
            Value::String(atom) => json!({"type": atom}),
            part => part.clone(),
        })
    };
    let own = |base: &Value| {
        base["refTable"] == *table || (base["type"] == "uuid" && base["refTable"] == Value::Null)
    };
    let strong_elsewhere = |base: &Value| {
        base["refTable"].is_string() && base["refTable"] != *table && base["refType"] != "weak"
    };
    bases(old).iter().any(own) && bases(new).iter().any(strong_elsewhere)
}
