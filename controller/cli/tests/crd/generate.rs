//! Objects from a schema: right, wrong and nearly right.

use serde_json::{Map, Value, json};

/// Texts that rules are about, on both sides of their limits.
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

/// Decisions, drawn by the property test so that it can shrink them.
pub(crate) struct Choices<'a>(pub(crate) std::slice::Iter<'a, u32>);

impl Choices<'_> {
    /// The next decision as it is, without taking it.
    pub(crate) fn first(&self) -> u32 {
        self.0.as_slice().first().copied().unwrap_or(0)
    }

    fn below(&mut self, limit: usize) -> usize {
        // When all are used up: the simplest.
        self.0.next().map_or(0, |choice| *choice as usize % limit)
    }

    fn pick<'v, T>(&mut self, of: &'v [T]) -> &'v T {
        &of[self.below(of.len())]
    }

    /// One time in `of`.
    fn rarely(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }
}

/// A value that mostly fits the schema.
pub(crate) fn generate(schema: &Value, choices: &mut Choices<'_>) -> Value {
    if let Some(allowed) = schema["enum"].as_array() {
        return if choices.rarely(12) {
            json!("Other")
        } else {
            choices.pick(allowed).clone()
        };
    }
    match schema["type"].as_str().unwrap() {
        "object" => object(schema, choices),
        "array" => {
            let count = choices.below(4);
            (0..count)
                .map(|_| generate(&schema["items"], choices))
                .collect()
        }
        "integer" => {
            let bound = |name: &str| schema[name].as_f64().unwrap_or(0.0) as i64;
            let (least, most) = (bound("minimum"), bound("maximum"));
            json!(*choices.pick(&[
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
        "string" => json!(*choices.pick(&TEXTS)),
        other => panic!("{other} is not used in these definitions"),
    }
}

fn object(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let required = schema["required"].as_array().map_or(&[][..], |names| names);
    let mut members = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let present = if required.contains(&json!(name)) {
            !choices.rarely(30)
        } else {
            choices.rarely(3)
        };
        if present {
            members.insert(name.clone(), generate(property, choices));
        }
    }
    if schema["additionalProperties"].is_object() && choices.rarely(4) {
        members.insert("tier".into(), json!("app"));
    }
    Value::Object(members)
}

/// Changes the value in one place.
pub(crate) fn mutate(schema: &Value, value: &mut Value, choices: &mut Choices<'_>) {
    let another = match value {
        Value::Object(members) => mutate_object(schema, members, choices),
        Value::Array(items) => mutate_list(schema, items, choices),
        _ => false,
    };
    if !another {
        *value = generate(schema, choices);
    }
}

/// Whether the change was inside.
fn mutate_object(
    schema: &Value,
    members: &mut Map<String, Value>,
    choices: &mut Choices<'_>,
) -> bool {
    let Some(properties) = schema["properties"]
        .as_object()
        .filter(|properties| !properties.is_empty())
    else {
        return false;
    };
    let names: Vec<_> = properties.keys().collect();
    let present: Vec<_> = members
        .keys()
        .filter(|name| properties.contains_key(*name))
        .cloned()
        .collect();
    match choices.below(12) {
        0..8 if !present.is_empty() => {
            let name = choices.pick(&present);
            mutate(&properties[name], &mut members[name], choices);
        }
        8 if !present.is_empty() => {
            members.remove(choices.pick(&present));
        }
        9 => {
            members.insert("surprise".into(), json!(1));
        }
        _ => {
            let name = *choices.pick(&names);
            members.insert(name.clone(), generate(&properties[name], choices));
        }
    }
    true
}

fn mutate_list(schema: &Value, items: &mut Vec<Value>, choices: &mut Choices<'_>) -> bool {
    match choices.below(6) {
        0..3 if !items.is_empty() => {
            let index = choices.below(items.len());
            mutate(&schema["items"], &mut items[index], choices);
        }
        3 if !items.is_empty() => {
            items.remove(choices.below(items.len()));
        }
        4 if !items.is_empty() => items.push(choices.pick(items).clone()),
        _ => items.push(generate(&schema["items"], choices)),
    }
    true
}
