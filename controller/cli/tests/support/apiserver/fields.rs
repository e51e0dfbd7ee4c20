//! Ownership of fields: sets of fields in the format of `managedFields` (`FieldsV1`).
//!
//! A set is a tree of JSON objects. `f:name` is a member of an object, `k:{"type":"Accepted"}` an
//! element of a list with keys, and `{}` a leaf, which stands for a whole value.

use serde_json::{Map, Value, json};

/// Members without an owner.
const SYSTEM: [&str; 10] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
];

/// The only list with keys in all kinds here: conditions, by type.
pub(super) fn element_key(member: &str, element: &Value) -> Option<String> {
    let key = element.get("type").filter(|_| member == "conditions")?;
    Some(json!({"type": key}).to_string())
}

/// All fields of an object.
pub(super) fn of_object(object: &Value) -> Value {
    let mut set = of_value("", object);
    if let Some(members) = set.as_object_mut() {
        members.retain(|key, _| !SYSTEM.contains(&&key[2..]));
        if let Some(Value::Object(meta)) = members.get_mut("f:metadata") {
            meta.retain(|key, _| !SYSTEM.contains(&&key[2..]));
        }
        members.retain(|key, fields| key != "f:metadata" || *fields != json!({}));
    }
    set
}

fn of_value(member: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if !members.is_empty() => Value::Object(
            members
                .iter()
                // An empty map has no fields that can be owned.
                .filter(|(_, value)| **value != json!({}))
                .map(|(name, value)| (format!("f:{name}"), of_value(name, value)))
                .collect(),
        ),
        Value::Array(elements) if member == "conditions" => Value::Object(
            elements
                .iter()
                .filter_map(|element| {
                    let key = element_key(member, element)?;
                    Some((format!("k:{key}"), of_value("", element)))
                })
                .collect(),
        ),
        _ => json!({}),
    }
}

fn is_leaf(set: &Value) -> bool {
    set.as_object().is_none_or(Map::is_empty)
}

/// The fields of `one` that are not in `other`.
pub(super) fn difference(one: &Value, other: &Value) -> Value {
    combined(one, other, &|one, other| match other {
        None => Some(one.clone()),
        Some(other) if is_leaf(one) || is_leaf(other) => None,
        Some(other) => Some(difference(one, other)).filter(|left| !is_leaf(left)),
    })
}

/// The fields that are in both sets.
pub(super) fn intersection(one: &Value, other: &Value) -> Value {
    combined(one, other, &|one, other| match other? {
        other if is_leaf(one) || is_leaf(other) => Some(json!({})),
        other => Some(intersection(one, other)).filter(|left| !is_leaf(left)),
    })
}

fn combined(
    one: &Value,
    other: &Value,
    combine: &dyn Fn(&Value, Option<&Value>) -> Option<Value>,
) -> Value {
    let members = one.as_object().into_iter().flatten();
    let kept: Map<String, Value> = members
        .filter_map(|(key, set)| Some((key.clone(), combine(set, other.get(key))?)))
        .collect();
    Value::Object(kept)
}

/// The part of an object with the fields of a set.
pub(super) fn extract(object: &Value, set: &Value) -> Value {
    match (object, set) {
        (Value::Object(members), Value::Object(fields)) if !fields.is_empty() => Value::Object(
            members
                .iter()
                .filter_map(|(name, value)| {
                    let set = fields.get(&format!("f:{name}"))?;
                    Some((name.clone(), extract(value, set)))
                })
                .collect(),
        ),
        (Value::Array(elements), Value::Object(fields)) if !fields.is_empty() => elements
            .iter()
            .filter_map(|element| {
                let key = element_key("conditions", element)?;
                Some(extract(element, fields.get(&format!("k:{key}"))?))
            })
            .collect(),
        _ => object.clone(),
    }
}

/// Removes the fields of a set from an object.
pub(super) fn remove(object: &mut Value, set: &Value) {
    let Some(fields) = set.as_object() else {
        return;
    };
    match object {
        Value::Object(members) => {
            members.retain(|name, value| match fields.get(&format!("f:{name}")) {
                None => true,
                Some(set) if is_leaf(set) => false,
                Some(set) => {
                    remove(value, set);
                    !matches!(value, Value::Object(left) if left.is_empty())
                        && !matches!(value, Value::Array(left) if left.is_empty())
                }
            });
        }
        Value::Array(elements) => elements.retain_mut(|element| {
            let key = element_key("conditions", element);
            match key.and_then(|key| fields.get(&format!("k:{key}"))) {
                None => true,
                Some(set) => {
                    remove(element, set);
                    element.as_object().is_some_and(|left| !left.is_empty())
                }
            }
        }),
        _ => {}
    }
}
