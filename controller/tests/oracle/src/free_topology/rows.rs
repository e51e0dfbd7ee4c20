//! Rows of a `transact` request.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Value, json};

/// Operations of a request.
#[derive(Debug, Default)]
pub struct Rows {
    operations: Vec<Value>,
}

impl Rows {
    /// Inserts a row and returns its name in the request.
    pub fn insert(&mut self, table: &str, row: impl Into<Value>) -> String {
        let name = format!("row{}", self.operations.len());
        let row: Value = row.into();
        let operation = json!({"op": "insert", "table": table, "uuid-name": name, "row": row});
        self.operations.push(operation);
        name
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Table and row of a number.
    pub(super) fn get_mut(&mut self, number: usize) -> (String, &mut Value) {
        let operation = &mut self.operations[number];
        let table = operation["table"].as_str().unwrap_or_default().to_owned();
        (table, &mut operation["row"])
    }

    /// Rows as text, one in a line with its name in the request.
    pub(crate) fn text(&self, numbers: Range<usize>) -> String {
        let operations = self.operations[numbers].iter();
        let lines = operations.map(|operation| {
            let name = operation["uuid-name"].as_str().unwrap_or_default();
            let table = operation["table"].as_str().unwrap_or_default();
            format!("{name} {table} {}\n", operation["row"])
        });
        lines.collect()
    }

    /// Rewrites all strings of the rows from `start` on.
    pub(crate) fn rewrite(&mut self, start: usize, convert: impl Fn(&str) -> String) {
        for operation in &mut self.operations[start..] {
            rewrite(&mut operation["row"], &convert);
        }
    }

    /// Rewrites strings of some columns; `None` leaves a string. A map keeps its keys.
    pub(crate) fn rewrite_columns(
        &mut self,
        columns: &[&str],
        convert: impl Fn(&str) -> Option<String>,
    ) {
        for operation in &mut self.operations {
            let row = operation["row"].as_object_mut();
            for (column, value) in row.into_iter().flatten() {
                if columns.contains(&column.as_str()) {
                    rewrite_values(value, &convert);
                }
            }
        }
    }

    /// The request, in the notation of RFC 7047.
    pub fn request(&self) -> String {
        let mut request = vec![json!("OVN_Northbound")];
        request.extend(self.operations.iter().cloned());
        Value::Array(request).to_string()
    }
}

/// A set of references.
pub fn references(names: &[String]) -> Value {
    let names: Vec<_> = names.iter().map(|name| json!(["named-uuid", name])).collect();
    json!(["set", names])
}

/// A set of strings.
pub fn set<T: AsRef<str>>(texts: &[T]) -> Value {
    let texts: BTreeSet<_> = texts.iter().map(AsRef::as_ref).collect();
    json!(["set", texts])
}

/// A map of strings.
pub fn map<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> Value {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| [key.as_ref(), value.as_ref()]).collect();
    json!(["map", pairs])
}

/// Rewrites the strings of a value, but neither names of rows nor keys nor the words of the
/// notation. Equal elements of a set are removed.
fn rewrite_values(value: &mut Value, convert: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => *text = convert(text).unwrap_or_else(|| text.clone()),
        Value::Array(parts) => match &mut parts[..] {
            [Value::String(kind), Value::Array(elements)] if kind == "set" => {
                for element in elements.iter_mut() {
                    rewrite_values(element, convert);
                }
                let mut seen = BTreeSet::new();
                elements.retain(|element| seen.insert(element.to_string()));
            }
            [Value::String(kind), Value::Array(pairs)] if kind == "map" => {
                for pair in pairs.iter_mut().filter_map(Value::as_array_mut) {
                    for value in pair.iter_mut().skip(1) {
                        rewrite_values(value, convert);
                    }
                }
            }
            _ => {}
        },
        _ => {}
    }
}

/// Rewrites the strings of a value. Names of rows have no dots, so that they stay.
fn rewrite(value: &mut Value, convert: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = convert(text),
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite(value, convert)),
        Value::Object(members) => members.values_mut().for_each(|value| rewrite(value, convert)),
        _ => {}
    }
}
