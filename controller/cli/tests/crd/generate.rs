//! Generation of valid, invalid and nearly valid objects from a schema.

use serde_json::{Map, Value, json};

/// Texts on both sides of the limits of rules.
const TEXTS: [&str; 41] = [
    "10.0.0.0/16",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "10.1.0.0/16",
    "10.0.0.0/8",
    "192.168.0.0/16",
    "10.0.0.1/16",
    "0.0.0.0/0",
    "10.0.0.0/32",
    "10.0.0.0/33",
    "10.0.0.0",
    "fd00::/48",
    "fd00::/64",
    "fd01::/64",
    "fd00::1/64",
    "::/0",
    "fd00::/128",
    "::ffff:10.0.0.0/104",
    "10.0.0.9",
    "10.0.1.9",
    "10.9.0.1",
    "fd00::9",
    "::ffff:1.2.3.4",
    "fe80::1%eth0",
    "",
    "x",
    "a,b",
    "eth0",
    "Eth0",
    "-eth0",
    "0000000000000000000000000000000000000000000000000000",
    "65535:4294967295",
    "*:4294967295",
    "*:4294967296",
    "10.0.0.1:65536",
    "65536:65536",
    "4294967296:1",
    "1:2:3",
    "x:1",
    "1:0000000000000000001",
    "1:9999999999999999999",
];

/// Decisions of the generator. The property test makes them, so that it can shrink them.
pub(crate) struct Decisions<'a>(pub(crate) std::slice::Iter<'a, u32>);

impl Decisions<'_> {
    /// The next decision, which stays the next one.
    pub(crate) fn peek(&self) -> u32 {
        self.0.as_slice().first().copied().unwrap_or(0)
    }

    fn below(&mut self, limit: usize) -> usize {
        // Without further decisions the result is the simplest one.
        self.0.next().map_or(0, |decision| *decision as usize % limit)
    }

    fn pick<'v, T>(&mut self, of: &'v [T]) -> &'v T {
        &of[self.below(of.len())]
    }

    /// Returns `true` once in `one_of` decisions.
    fn is_rare(&mut self, one_of: usize) -> bool {
        self.below(one_of) == one_of - 1
    }
}

/// Generates a value that mostly fits the schema.
pub(crate) fn generate(schema: &Value, decisions: &mut Decisions<'_>) -> Value {
    if let Some(allowed) = schema["enum"].as_array() {
        return if decisions.is_rare(12) {
            json!("Other")
        } else {
            decisions.pick(allowed).clone()
        };
    }
    match schema["type"].as_str().unwrap() {
        "object" => object(schema, decisions),
        "array" => {
            let count = decisions.below(4);
            (0..count).map(|_| generate(&schema["items"], decisions)).collect()
        }
        "integer" => {
            let bound = |name: &str| schema[name].as_f64().unwrap_or(0.0) as i64;
            let (least, most) = (bound("minimum"), bound("maximum"));
            json!(*decisions.pick(&[
                24,
                64,
                25,
                31,
                32,
                16,
                120,
                least,
                most,
                least - 1,
                most + 1,
                1279,
                1280
            ]))
        }
        "string" => json!(*decisions.pick(&TEXTS)),
        other => panic!("{other} is not used in these definitions"),
    }
}

fn object(schema: &Value, decisions: &mut Decisions<'_>) -> Value {
    let required = schema["required"].as_array().map_or(&[][..], |names| names);
    let mut members = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let present = if required.contains(&json!(name)) {
            !decisions.is_rare(30)
        } else {
            decisions.is_rare(3)
        };
        if present {
            members.insert(name.clone(), generate(property, decisions));
        }
    }
    if schema["additionalProperties"].is_object() && decisions.is_rare(4) {
        members.insert("tier".into(), json!("app"));
    }
    Value::Object(members)
}

/// Changes the value in one place.
pub(crate) fn mutate(schema: &Value, value: &mut Value, decisions: &mut Decisions<'_>) {
    let is_changed_inside = match value {
        Value::Object(members) => mutate_object(schema, members, decisions),
        Value::Array(items) => mutate_list(schema, items, decisions),
        _ => false,
    };
    if !is_changed_inside {
        *value = generate(schema, decisions);
    }
}

/// Changes a member. Returns `false` if there is no property to change.
fn mutate_object(
    schema: &Value,
    members: &mut Map<String, Value>,
    decisions: &mut Decisions<'_>,
) -> bool {
    let Some(properties) =
        schema["properties"].as_object().filter(|properties| !properties.is_empty())
    else {
        return false;
    };
    let names: Vec<_> = properties.keys().collect();
    let present: Vec<_> =
        members.keys().filter(|name| properties.contains_key(*name)).cloned().collect();
    match decisions.below(12) {
        0..8 if !present.is_empty() => {
            let name = decisions.pick(&present);
            mutate(&properties[name], &mut members[name], decisions);
        }
        8 if !present.is_empty() => {
            members.remove(decisions.pick(&present));
        }
        9 => {
            members.insert("surprise".into(), json!(1));
        }
        _ => {
            let name = *decisions.pick(&names);
            members.insert(name.clone(), generate(&properties[name], decisions));
        }
    }
    true
}

fn mutate_list(schema: &Value, items: &mut Vec<Value>, decisions: &mut Decisions<'_>) -> bool {
    match decisions.below(6) {
        0..3 if !items.is_empty() => {
            let index = decisions.below(items.len());
            mutate(&schema["items"], &mut items[index], decisions);
        }
        3 if !items.is_empty() => {
            items.remove(decisions.below(items.len()));
        }
        4 if !items.is_empty() => items.push(decisions.pick(items).clone()),
        _ => items.push(generate(&schema["items"], decisions)),
    }
    true
}
