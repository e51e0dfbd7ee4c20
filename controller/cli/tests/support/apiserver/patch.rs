//! The three kinds of patches.

use serde_json::{Value, json};

use super::fields;
use super::requests::Failure;

/// Applies a JSON merge patch (RFC 7386).
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let members = object.as_object_mut().expect("it was made one");
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Applies a JSON patch (RFC 6902): add, remove, replace and test.
pub(super) fn json_patch(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let invalid = |what: &Value| {
        Failure::new(422, "Invalid", format!("the operation {what} cannot be applied"))
    };
    for operation in patch.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) = path.rsplit_once('/').ok_or_else(|| invalid(operation))?;
        let last = last.replace("~1", "/").replace("~0", "~");
        let value = operation["value"].clone();
        if operation["op"] == "test" {
            if object.pointer(path) != Some(&value) {
                return Err(invalid(operation));
            }
            continue;
        }
        let parent = object.pointer_mut(parent).ok_or_else(|| invalid(operation))?;
        match (operation["op"].as_str(), parent) {
            (Some("add"), Value::Array(elements)) if last == "-" => elements.push(value),
            (Some("add" | "replace"), Value::Object(members)) => {
                members.insert(last, value);
            }
            (Some("replace"), Value::Array(elements)) => {
                let at: usize = last.parse().map_err(|_| invalid(operation))?;
                *elements.get_mut(at).ok_or_else(|| invalid(operation))? = value;
            }
            (Some("remove"), Value::Object(members)) => {
                members.remove(&last).ok_or_else(|| invalid(operation))?;
            }
            _ => return Err(invalid(operation)),
        }
    }
    Ok(())
}

/// The field manager of an apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applier<'a> {
    pub(super) manager: &'a str,
    pub(super) force: bool,
    pub(super) subresource: Option<&'a str>,
}

/// Applies a configuration (server-side apply).
///
/// Its fields become the manager's. Fields that the manager owned and does not name any more are
/// removed, unless others own them. Fields that others own with another value are a conflict.
pub(super) fn apply(
    object: &mut Value,
    configuration: &Value,
    by: Applier<'_>,
) -> Result<(), Failure> {
    let mut managers: Vec<Value> =
        object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let is_own = |entry: &Value| {
        entry["manager"] == by.manager
            && entry["operation"] == "Apply"
            && entry.get("subresource").and_then(Value::as_str) == by.subresource
    };
    let applied = fields::of_object(configuration);
    let mut own_before = json!({});
    for entry in &mut managers {
        if is_own(entry) {
            own_before = entry["fieldsV1"].clone();
            continue;
        }
        let shared = fields::intersection(&entry["fieldsV1"], &applied);
        if shared == json!({})
            || fields::extract(object, &shared) == fields::extract(configuration, &shared)
        {
            continue;
        }
        if !by.force {
            let message = format!(
                "Apply failed with 1 conflict: conflict with {}: {shared}",
                entry["manager"]
            );
            return Err(Failure::new(409, "Conflict", message));
        }
        entry["fieldsV1"] = fields::difference(&entry["fieldsV1"], &applied);
    }
    managers.retain(|entry| !is_own(entry) && entry["fieldsV1"] != json!({}));
    let mut gone = fields::difference(&own_before, &applied);
    for entry in &managers {
        gone = fields::difference(&gone, &entry["fieldsV1"]);
    }
    if gone != json!({}) {
        fields::remove(object, &gone);
    }
    merge_applied("", object, configuration);
    let mut entry = json!({
        "manager": by.manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": applied,
        "apiVersion": object["apiVersion"],
    });
    if let Some(subresource) = by.subresource {
        entry["subresource"] = subresource.into();
    }
    managers.push(entry);
    managers.sort_by_key(|entry| (entry["manager"].to_string(), entry["subresource"].to_string()));
    object["metadata"]["managedFields"] = managers.into();
    Ok(())
}

/// Records the fields that a manager changes other than by applying. They are owned by this manager
/// only.
pub(super) fn updated(
    before: &Value,
    object: &mut Value,
    manager: &str,
    subresource: Option<&str>,
) {
    let mut managers: Vec<Value> =
        before["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let fields = fields::of_object(object);
    for entry in &mut managers {
        let kept = fields::intersection(&entry["fieldsV1"], &fields);
        let same = fields::extract(before, &kept) == fields::extract(object, &kept);
        entry["fieldsV1"] = if same { kept } else { json!({}) };
    }
    managers.retain(|entry| entry["fieldsV1"] != json!({}));
    let is_own = |entry: &Value| {
        entry["manager"] == manager
            && entry["operation"] == "Update"
            && entry.get("subresource").and_then(Value::as_str) == subresource
    };
    let mut own = fields.clone();
    for entry in managers.iter().filter(|entry| !is_own(entry)) {
        own = fields::difference(&own, &entry["fieldsV1"]);
    }
    managers.retain(|entry| !is_own(entry));
    if own != json!({}) {
        let mut entry = json!({
            "manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": own,
            "apiVersion": object["apiVersion"],
        });
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        managers.push(entry);
    }
    managers.sort_by_key(|entry| (entry["manager"].to_string(), entry["subresource"].to_string()));
    object["metadata"]["managedFields"] = managers.into();
}

fn merge_applied(member: &str, object: &mut Value, configuration: &Value) {
    match (object, configuration) {
        (Value::Object(members), Value::Object(applied)) => {
            for (name, value) in applied {
                match members.get_mut(name) {
                    Some(have) => merge_applied(name, have, value),
                    None => {
                        members.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(elements), Value::Array(applied)) if member == "conditions" => {
            for value in applied {
                let key = fields::element_key(member, value);
                let have =
                    elements.iter_mut().find(|have| fields::element_key(member, have) == key);
                match have {
                    Some(have) => merge_applied("", have, value),
                    None => elements.push(value.clone()),
                }
            }
        }
        (object, value) => *object = value.clone(),
    }
}
