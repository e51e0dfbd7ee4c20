//! Differences of objects as JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

/// The merge patch that makes the second value of the first one. It is an empty object if both
/// are equal objects. Lists are replaced as a whole.
pub(crate) fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), difference(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_only_what_differs() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2], "f": 3});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "e": [2], "g": {}});
        let patch = json!({"b": {"d": 3}, "e": [2], "f": null, "g": {}});
        assert_eq!(difference(&old, &new), patch);
        assert_eq!(difference(&new, &new), json!({}));
    }
}
