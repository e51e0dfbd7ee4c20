//! Random mutations of texts and JSON values.

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// Pieces that are difficult for parsers.
const PIECES: [&str; 26] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\u{0}",
    "\n",
    "null",
    "-",
    "-0",
    "1e400",
    "1e-400",
    "5e-324",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "0.30000000000000004",
    "1e214748364",
    "[[[[[[[[",
    "{\"a\":{\"a\":",
];

/// Changes some bytes of a text.
pub(crate) fn bytes(rng: &mut StdRng, text: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=text.len());
        let end = (at + rng.random_range(0..20)).min(text.len());
        match rng.random_range(0..6) {
            0 if at < text.len() => text[at] = rng.random(),
            1 if at < text.len() => text[at] ^= 1 << rng.random_range(0..8),
            2 => drop(text.drain(at..end)),
            3 => {
                let copy = text[at..end].to_vec();
                let to = rng.random_range(0..=text.len());
                text.splice(to..to, copy);
            }
            4 => text.truncate(at),
            _ => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                text.splice(at..at, piece.bytes());
            }
        }
    }
}

/// Random bytes.
pub(crate) fn noise(rng: &mut StdRng) -> Vec<u8> {
    let len = rng.random_range(0..200);
    if rng.random_bool(0.5) {
        return (0..len).map(|_| rng.random()).collect();
    }
    let piece = |_| PIECES[rng.random_range(0..PIECES.len())];
    (0..len / 8).map(piece).collect::<String>().into_bytes()
}

/// Changes some values of a tree.
pub(crate) fn tree(rng: &mut StdRng, value: &mut Value) {
    for _ in 0..rng.random_range(1..4) {
        let donor = node(rng, &mut value.clone()).clone();
        let node = node(rng, value);
        match rng.random_range(0..8) {
            0 => *node = donor,
            1 => *node = json!([node.take()]),
            2 => *node = json!([donor, node.take()]),
            3 => shuffle(rng, node),
            4 => *node = json!(["set", [node.take(), donor]]),
            _ => *node = odd(rng),
        }
    }
}

/// Removes or duplicates a member or element.
fn shuffle(rng: &mut StdRng, node: &mut Value) {
    match node {
        Value::Array(elements) if !elements.is_empty() => {
            let at = rng.random_range(0..elements.len());
            if rng.random_bool(0.5) {
                elements.remove(at);
            } else {
                elements.push(elements[at].clone());
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let names: Vec<String> = members.keys().cloned().collect();
            let name = &names[rng.random_range(0..names.len())];
            let value = members.remove(name);
            if let Some(value) = value.filter(|_| rng.random_bool(0.5)) {
                let name = &names[rng.random_range(0..names.len())];
                members.insert(name.clone(), value);
            }
        }
        node => *node = Value::Null,
    }
}

fn odd(rng: &mut StdRng) -> Value {
    let odd = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(-1e-300),
        json!(0.1),
        json!(""),
        json!("_uuid"),
        json!("_version"),
        json!("T0"),
        json!("c0"),
        json!("D"),
        json!("_Server"),
        json!("\u{10ffff}"),
        json!("a".repeat(300)),
        json!([]),
        json!({}),
        json!(["set", []]),
        json!(["map", []]),
        json!(["map", [["a", 1], ["a", 2]]]),
        json!(["uuid", "00000000-0000-0000-0000-000000000000"]),
        json!(["uuid", "00000000-0000-4000-8000-000000000000"]),
        json!(["named-uuid", "row0_0"]),
        json!(["named-uuid", "never_inserted"]),
        json!([["_uuid", "==", ["uuid", "00000000-0000-4000-8000-000000000000"]]]),
        json!([["_version", "!=", ["uuid", "00000000-0000-4000-8000-000000000000"]]]),
        json!({"op": "delete", "table": "T0", "where": []}),
        json!({"op": "insert", "table": "T1", "row": {}}),
    ];
    odd[rng.random_range(0..odd.len())].clone()
}

/// One of the values in a tree, itself included.
fn node<'v>(rng: &mut StdRng, value: &'v mut Value) -> &'v mut Value {
    let children = match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    if children == 0 || rng.random_bool(0.15) {
        return value;
    }
    let at = rng.random_range(0..children);
    match value {
        Value::Array(elements) => node(rng, &mut elements[at]),
        Value::Object(members) => {
            let child = members.values_mut().nth(at);
            node(rng, child.expect("there are that many"))
        }
        value => value,
    }
}
