//! Random values, from small sets so that they are equal now and then.

use patchbay_schemas::atom::AtomType;
use patchbay_schemas::schema::{BaseType, ColumnType, Constraint};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// Integers at the limits, and two between them.
const EXTREME_INTEGERS: [i64; 6] = [i64::MAX, i64::MAX - 1, -i64::MAX, 1 - i64::MAX, 0, 1];
/// Reals near the limits, and reals of many digits. Those at the limits are sent with too few
/// digits, which make them infinite.
const EXTREME_REALS: [f64; 9] =
    [1.7e308, -9e307, 1e15, 1e16, 123_456_789_012_345_680.0, 0.1 + 0.2, 1.0 / 3.0, 1e-7, 1.0];
/// Strings with characters that JSON or ovsdb-server escapes, and long ones.
const ODD_STRINGS: [&str; 12] = [
    "\"",
    "\\",
    "a/b",
    "\u{8}\u{c}\n\r\t",
    "\u{1}\u{1f}",
    "\u{7f}",
    "\u{1f600}",
    "\u{ffff}",
    "\u{2028}'<&>",
    "00000000-0000-4000-8000-000000000000",
    "-1_a.b",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
];

/// `true` if the values of a type are at the limits of all its atoms. Its constraint allows almost
/// all.
pub(super) fn is_extreme(base: &BaseType) -> bool {
    match base.constraint {
        Constraint::Integer(min, _) => min == -i64::MAX,
        Constraint::Real(min, _) => min <= -1e308 && min > f64::MIN,
        _ => false,
    }
}

/// Picks an element.
pub(super) fn pick<T: Clone>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())].clone()
}

/// A UUID that a row of a table may have.
pub(super) fn row_uuid(rng: &mut StdRng, table: usize) -> String {
    format!("00000000-0000-4000-8000-0000000{table:02}00{}", rng.random_range(0..4))
}

/// A name that a transaction may give to a row of a table.
pub(super) fn row_name(rng: &mut StdRng, table: usize) -> String {
    format!("row{table}_{}", rng.random_range(0..2))
}

/// A value that a column accepts.
pub(super) fn value(rng: &mut StdRng, ty: &ColumnType, names: bool) -> Value {
    let count = rng.random_range(ty.min..=ty.max.min(4));
    elements(rng, ty, count, names)
}

/// A value that a column does not accept, mostly.
pub(super) fn fault(rng: &mut StdRng, ty: &ColumnType) -> Value {
    let open = |base: &BaseType| match base.constraint {
        Constraint::Reference(_) => base.clone(),
        _ => BaseType::unconstrained(base.atom),
    };
    let unconstrained =
        ColumnType { key: open(&ty.key), value: ty.value.as_ref().map(open), ..ty.clone() };
    match rng.random_range(0..5) {
        0 => garbage(rng),
        1 => elements(rng, ty, ty.max.min(3) + 1, false),
        2 => json!([if ty.is_map() { "map" } else { "set" }, []]),
        3 => {
            let twice = atom(rng, &ty.key, false);
            json!(["set", [twice, twice]])
        }
        _ => value(rng, &unconstrained, false),
    }
}

/// At most `count` elements or pairs, in notation; at least one if `count` is not 0.
pub(super) fn elements(rng: &mut StdRng, ty: &ColumnType, count: u32, names: bool) -> Value {
    let mut keys: Vec<Value> = Vec::new();
    for _ in 0..count {
        let key = atom(rng, &ty.key, names);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    match &ty.value {
        Some(value) => {
            let pairs: Vec<Value> =
                keys.into_iter().map(|key| json!([key, atom(rng, value, names)])).collect();
            json!(["map", pairs])
        }
        None if keys.len() == 1 && rng.random_bool(0.8) => keys.remove(0),
        None => json!(["set", keys]),
    }
}

/// An atom that a type accepts.
pub(super) fn atom(rng: &mut StdRng, base: &BaseType, names: bool) -> Value {
    if let Constraint::Enum(allowed) = &base.constraint {
        let allowed: Vec<_> = allowed.iter().collect();
        let mut text = b"[".to_vec();
        pick(rng, &allowed).write_json(&mut text);
        text.push(b']');
        let atom: Vec<Value> = serde_json::from_slice(&text).expect("an atom in notation");
        return atom[0].clone();
    }
    match base.atom {
        AtomType::Integer if is_extreme(base) => json!(pick(rng, &EXTREME_INTEGERS)),
        AtomType::Real if is_extreme(base) => json!(pick(rng, &EXTREME_REALS)),
        AtomType::Integer => {
            let value = pick(rng, &[-2_i64, -1, 0, 0, 1, 1, 2, 3, 4, 5, 1000]);
            match base.constraint {
                Constraint::Integer(min, max) => json!(value.clamp(min, max)),
                _ => json!(value),
            }
        }
        AtomType::Real => {
            let value = pick(rng, &[-1.5_f64, 0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 1e22]);
            match base.constraint {
                Constraint::Real(min, max) => json!(value.clamp(min, max)),
                _ => json!(value),
            }
        }
        AtomType::Boolean => json!(rng.random_bool(0.5)),
        AtomType::String => {
            let value = if rng.random_bool(0.85) {
                pick(rng, &["", "a", "a", "b", "é", "a b", "true"])
            } else {
                pick(rng, &ODD_STRINGS)
            };
            match base.constraint {
                Constraint::Length(_, max) => {
                    json!(value.chars().take(max as usize).collect::<String>())
                }
                _ => json!(value),
            }
        }
        AtomType::Uuid => {
            let table = match &base.constraint {
                Constraint::Reference(reference) => reference.table.index(),
                _ => 0,
            };
            if names && rng.random_bool(0.3) {
                json!(["named-uuid", row_name(rng, table)])
            } else {
                json!(["uuid", row_uuid(rng, table)])
            }
        }
    }
}

/// JSON that almost no column accepts.
pub(super) fn garbage(rng: &mut StdRng) -> Value {
    pick(
        rng,
        &[
            json!(null),
            json!([]),
            json!({}),
            json!(1.25),
            json!("garbage"),
            json!(true),
            json!(["set"]),
            json!(["set", [1, "x"]]),
            json!(["set", [], 1]),
            json!(["map", [[]], 1]),
            json!(["map", [[1]]]),
            json!(["uuid", "x"]),
            json!(["named-uuid", "9"]),
            json!(9_223_372_036_854_775_808_u64),
        ],
    )
}
