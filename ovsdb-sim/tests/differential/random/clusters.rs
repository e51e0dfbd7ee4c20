//! Adaptation of random requests to clusters.

use serde_json::{Value, json};
use uuid::Uuid;

use super::changed_schema::members;

/// The schema without limits of the lengths of sets and maps. A cluster of ovsdb-server 3.1 reads
/// some differences in its log wrong: one from a default that is not empty as the new value, and
/// one longer than the limit not at all.
pub(super) fn without_lengths(schema: &str) -> String {
    let mut schema: Value = serde_json::from_str(schema).expect("JSON");
    for table in members(&mut schema["tables"]) {
        for column in members(&mut table["columns"]) {
            let ty = &mut column["type"];
            if ty["max"] != Value::Null && ty["max"] != 1 {
                ty["min"] = json!(0);
                ty["max"] = json!("unlimited");
            }
        }
    }
    schema.to_string()
}

/// The parameters with one of the last transactions before the step instead of no transaction.
pub(super) fn with_known_transaction(params: &str, step: usize) -> String {
    let known = step - step.min(step * 7 % 5);
    params.replace(&Uuid::nil().to_string(), &format!("<txn {known}>"))
}
