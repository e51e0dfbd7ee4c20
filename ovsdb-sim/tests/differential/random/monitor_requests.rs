//! Random requests for the tables of a monitor.

use patchbay_schemas::schema::{ColumnSchema, TableSchema};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

use super::conditions::monitor_condition;

/// Another request for a table, for columns that the first does not name. It has the same
/// condition, because the one of several that applies is arbitrary.
pub(super) fn second_request(
    rng: &mut StdRng,
    table: &TableSchema,
    first: &Value,
) -> Option<Value> {
    let named = first["columns"].as_array()?;
    let others: Vec<Value> = table
        .columns
        .iter()
        .map(|column| json!(&*column.name))
        .filter(|column| !named.contains(column))
        .collect();
    let select = json!({"modify": rng.random_bool(0.5), "insert": rng.random_bool(0.5)});
    let mut second = json!({"columns": others, "select": select});
    if let Some(condition) = first.get("where") {
        second["where"] = condition.clone();
    }
    Some(second)
}

/// A request, and the columns that it names.
pub(super) fn monitor_request(
    rng: &mut StdRng,
    table: &TableSchema,
    conditional: bool,
) -> (Value, Vec<ColumnSchema>) {
    let (mut request, mut monitored) = (Map::new(), table.columns.clone());
    if rng.random_bool(0.85) {
        monitored.retain(|_| rng.random_bool(0.6));
        let mut columns: Vec<&str> = monitored.iter().map(|column| &*column.name).collect();
        for implicit in ["_uuid", "_version"] {
            if rng.random_bool(0.1) {
                columns.push(implicit);
            }
        }
        request.insert("columns".into(), json!(columns));
    }
    if rng.random_bool(0.3) {
        let mut select = Map::new();
        for kind in ["initial", "insert", "delete", "modify"] {
            if rng.random_bool(0.5) {
                select.insert(kind.into(), json!(rng.random_bool(0.5)));
            }
        }
        request.insert("select".into(), Value::Object(select));
    }
    if conditional && rng.random_bool(0.6) {
        request.insert("where".into(), monitor_condition(rng, &monitored));
    }
    (Value::Object(request), monitored)
}
