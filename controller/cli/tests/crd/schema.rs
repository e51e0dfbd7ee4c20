//! Validation of an object by the structural part of a definition's schema, with the messages of
//! API servers. The value that they quote first is left out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Findings about an invalid object.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Field and message of each finding.
    pub(crate) found: BTreeSet<String>,
    /// `true` if an API server does not evaluate the rules in CEL because of a finding.
    pub(crate) ends_validation: bool,
    /// `true` if a field is missing, of another type, or unknown.
    pub(crate) is_misfit: bool,
}

impl Findings {
    fn add(&mut self, path: &str, message: impl AsRef<str>) {
        self.found.insert(format!("{path}: {}", message.as_ref()));
    }

    fn add_final(&mut self, path: &str, message: impl AsRef<str>) {
        self.add(path, message);
        self.ends_validation = true;
    }

    fn add_misfit(&mut self, path: &str, message: impl AsRef<str>) {
        self.add_final(path, message);
        self.is_misfit = true;
    }
}

/// Adds the findings about the value at `path`.
pub(crate) fn check(schema: &Value, value: &Value, path: &str, findings: &mut Findings) {
    let wanted = schema["type"].as_str().unwrap();
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{other} is not used in these definitions"),
    };
    if !fits {
        return findings.add_misfit(path, format!("must be of type {wanted}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        let message =
            format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        findings.add_final(path, message);
        // Here the type has more values than the schema allows, and a rule with this message.
        findings.is_misfit |= !path.ends_with("localnet.role") || value != "Primary";
    }
    match value {
        Value::Object(_) => object(schema, value, path, findings),
        Value::Array(items) => list(schema, items, path, findings),
        Value::String(text) => string(schema, text, path, findings),
        number => integer(schema, number.as_i64().unwrap(), path, findings),
    }
}

fn object(schema: &Value, value: &Value, path: &str, findings: &mut Findings) {
    let members = value.as_object().unwrap();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if !members.contains_key(name) {
            findings.add_misfit(&join(path, name), "Required value");
        }
    }
    if let Some(least) = schema["minProperties"].as_u64()
        && (members.len() as u64) < least
    {
        findings.add(path, format!("should have at least {least} properties"));
    }
    for (name, member) in members {
        let path = join(path, name);
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null) if schema["properties"].is_object() => {
                findings.add_misfit(&path, "unknown field");
            }
            (Value::Null, Value::Null) => {}
            (Value::Null, values) => check(values, member, &path, findings),
            (property, _) => check(property, member, &path, findings),
        }
    }
}

fn list(schema: &Value, items: &[Value], path: &str, findings: &mut Findings) {
    let count = items.len() as u64;
    if let Some(least) = schema["minItems"].as_u64()
        && count < least
    {
        findings.add(path, format!("should have at least {least} items"));
    }
    if let Some(most) = schema["maxItems"].as_u64()
        && count > most
    {
        let noun = if most == 1 { "item" } else { "items" };
        findings.add_final(path, format!("Too many: {count}: must have at most {most} {noun}"));
    }
    for (index, item) in items.iter().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), findings);
    }
    if let [Value::String(key)] =
        schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], |keys| keys)
    {
        for (index, item) in items.iter().enumerate() {
            let mut earlier = items[..index].iter();
            // A value that occurs a third time is not reported again.
            if earlier.by_ref().any(|earlier| earlier[key] == item[key])
                && !earlier.any(|earlier| earlier[key] == item[key])
            {
                let value = item.get(key).map_or_else(|| json!({}), |value| json!({key: value}));
                findings.add(&format!("{path}[{index}]"), format!("Duplicate value: {value}"));
            }
        }
    }
}

/// Adds the first finding about a text.
fn string(schema: &Value, text: &str, path: &str, findings: &mut Findings) {
    let count = text.chars().count() as u64;
    if let Some(most) = schema["maxLength"].as_u64()
        && count > most
    {
        findings.add_final(path, format!("Too long: may not be more than {most} bytes"));
    } else if let Some(least) = schema["minLength"].as_u64()
        && count < least
    {
        findings.add(path, format!("should be at least {least} chars long"));
    } else if let Some(pattern) = schema["pattern"].as_str()
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        findings.add(path, format!("should match '{pattern}'"));
    }
}

fn integer(schema: &Value, number: i64, path: &str, findings: &mut Findings) {
    if schema["format"] == "int32" && i32::try_from(number).is_err() {
        return findings.add_misfit(path, "must be a 32-bit integer");
    }
    if let Some(least) = schema["minimum"].as_f64()
        && (number as f64) < least
    {
        findings.add(path, format!("should be greater than or equal to {least}"));
    }
    if let Some(most) = schema["maximum"].as_f64()
        && number as f64 > most
    {
        findings.add(path, format!("should be less than or equal to {most}"));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
