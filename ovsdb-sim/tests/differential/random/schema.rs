//! Random schemas.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::values::pick;

/// The text of a schema of two to four tables, `T0` and so on, each with columns `c0` and so on.
pub(super) fn random(seed: u64) -> String {
    let rng = &mut StdRng::seed_from_u64(seed);
    let tables = rng.random_range(2..=4);
    // With no root table, all are roots.
    let roots: Vec<bool> = if rng.random_bool(0.4) {
        vec![false; tables]
    } else {
        (0..tables).map(|table| table == 0 || rng.random_bool(0.4)).collect()
    };
    let mut all = Map::new();
    for (number, is_root) in roots.iter().enumerate() {
        let mut table = Map::new();
        let mut columns = Map::new();
        let mut may_be_indexed = Vec::new();
        for column in 0..rng.random_range(2..=6) {
            let mut schema = json!({"type": column_type(rng, &roots)});
            let ephemeral = rng.random_bool(0.08);
            if ephemeral {
                schema["ephemeral"] = json!(true);
            } else {
                may_be_indexed.push(format!("c{column}"));
            }
            if rng.random_bool(0.1) {
                schema["mutable"] = json!(false);
            }
            columns.insert(format!("c{column}"), schema);
        }
        table.insert("columns".into(), Value::Object(columns));
        if *is_root {
            table.insert("isRoot".into(), json!(true));
        }
        if rng.random_bool(0.15) {
            table.insert("maxRows".into(), json!(rng.random_range(2..=5)));
        }
        if may_be_indexed.len() > 1 && rng.random_bool(0.35) {
            let mut index = || {
                let first = rng.random_range(0..may_be_indexed.len());
                let columns = rng.random_range(1..=may_be_indexed.len().min(3));
                let columns =
                    (first..first + columns).map(|at| &may_be_indexed[at % may_be_indexed.len()]);
                json!(columns.collect::<Vec<_>>())
            };
            let mut indexes = vec![index()];
            if indexes[0].as_array().is_some_and(|columns| columns.len() > 1) {
                indexes.push(index());
            }
            table.insert("indexes".into(), json!(indexes));
        }
        all.insert(format!("T{number}"), Value::Object(table));
    }
    json!({"name": "D", "tables": all}).to_string()
}

/// The type of a column; `roots` has which tables are roots.
pub(super) fn column_type(rng: &mut StdRng, roots: &[bool]) -> Value {
    let shape = rng.random_range(0..10);
    let key = base_type(rng, roots, shape == 0);
    let mut ty = json!({"key": key});
    match shape {
        // A scalar.
        0..=2 => return ty,
        // An optional scalar.
        3..=4 => ty["min"] = json!(0),
        // A set.
        5..=6 => {
            ty["min"] = json!(i32::from(rng.random_bool(0.15)));
            ty["max"] = pick(rng, &[json!("unlimited"), json!("unlimited"), json!(2), json!(3)]);
        }
        // A map.
        _ => {
            ty["value"] = base_type(rng, roots, false);
            // A strong reference that goes with a weak one still counts in the real server.
            let is_reference = |base: &Value| base["refTable"] != json!(null);
            let is_weak = |base: &Value| base["refType"] == json!("weak");
            let both = [&ty["key"], &ty["value"]];
            if both.into_iter().all(is_reference) && is_weak(both[0]) != is_weak(both[1]) {
                ty["value"] = json!("string");
            }
            ty["min"] = json!(i32::from(rng.random_bool(0.1)));
            ty["max"] = pick(rng, &[json!("unlimited"), json!("unlimited"), json!(1), json!(2)]);
        }
    }
    ty
}

/// The type of a key or a value. A scalar `must_have_row` to refer to.
pub(super) fn base_type(rng: &mut StdRng, roots: &[bool], must_have_row: bool) -> Value {
    match rng.random_range(0..17) {
        0 => json!("integer"),
        1 | 16 => pick(
            rng,
            &[
                json!({"type": "integer", "minInteger": -1}),
                json!({"type": "integer", "maxInteger": 3}),
                json!({"type": "real", "minReal": 0.0}),
                json!({"type": "real", "enum": ["set", [0.0, 0.5, 1.0]]}),
                json!({"type": "boolean", "enum": false}),
                json!({"type": "string", "minLength": 0, "maxLength": 1}),
                // Of values at the limits.
                json!({"type": "integer", "minInteger": -i64::MAX}),
                json!({"type": "real", "minReal": -1e308}),
            ],
        ),
        2 => json!({"type": "integer", "minInteger": -1, "maxInteger": 5}),
        3 => json!({"type": "integer", "enum": ["set", [0, 1, 2, 3, 5]]}),
        4 => json!("real"),
        5 => json!({"type": "real", "minReal": -1.5, "maxReal": 2.5}),
        6 => json!("boolean"),
        7..=8 => json!("string"),
        9 => json!({"type": "string", "enum": ["set", ["", "a", "b"]]}),
        10 => json!({"type": "string", "maxLength": 2}),
        11 => json!("uuid"),
        // With a scalar that must refer to a row, almost every insert fails.
        _ if must_have_row && rng.random_bool(0.8) => json!("string"),
        12..=13 => {
            json!({"type": "uuid", "refTable": format!("T{}", rng.random_range(0..roots.len()))})
        }
        _ => {
            // Weak references to garbage-collected rows can stay in the real server.
            let all_roots = !roots.contains(&true);
            let targets: Vec<usize> =
                (0..roots.len()).filter(|table| all_roots || roots[*table]).collect();
            let target = format!("T{}", pick(rng, &targets));
            json!({"type": "uuid", "refTable": target, "refType": "weak"})
        }
    }
}
