//! Random requests to a database.

use patchbay_schemas::atom::AtomType;
use patchbay_schemas::schema::{BaseType, ColumnSchema, ColumnType, DatabaseSchema, TableSchema};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::conditions::{condition, monitor_condition};
use super::monitor_requests::{monitor_request, second_request};
use super::sequences::sequence;
use super::values::{atom, elements, fault, garbage, is_extreme, pick, row_name, row_uuid, value};

const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";
/// Connections that monitor.
const MONITORING: [char; 2] = ['B', 'C'];
/// Names of locks.
pub(super) const LOCKS: [&str; 2] = ["l0", "l1"];
/// Connections that come and go.
const CLOSING: [char; 3] = ['A', 'B', 'C'];
/// Name of a request that closes its connection.
pub(super) const CLOSE: &str = "close";
/// Id of a transaction that no server knows.
const UNKNOWN_TRANSACTION: &str = "00000000-0000-4000-8000-0000000fffff";

/// Generator of requests, most of which are valid for a schema.
pub(super) struct Requests {
    schema: DatabaseSchema,
    monitors: Vec<Monitor>,
    next_monitor: u64,
    /// Transactions that may wait: connection and id.
    waiting: Vec<(char, usize)>,
}

/// Monitor that a request began.
struct Monitor {
    connection: char,
    id: u64,
    /// Tables by number, with the monitored columns.
    tables: Vec<(usize, Vec<ColumnSchema>)>,
}

/// Connection, method and parameters.
pub(super) type Request = (char, &'static str, String);

impl Requests {
    pub(super) fn new(schema: &str) -> Self {
        Self {
            schema: DatabaseSchema::parse(schema.as_bytes()).expect("a valid schema"),
            monitors: Vec::new(),
            next_monitor: 0,
            waiting: Vec::new(),
        }
    }

    /// A request of any kind, mostly a transaction with an operation for each seed. `cancel` is a
    /// notification.
    pub(super) fn any(&mut self, seeds: &[u64], id: usize) -> Request {
        let rng = &mut StdRng::seed_from_u64(seeds[0]);
        match rng.random_range(0..100) {
            0..=7 if !self.monitors.is_empty() => self.condition_change(rng),
            8..=10 => self.monitor(seeds[0]),
            11..=12 if !self.monitors.is_empty() => {
                let at = rng.random_range(0..self.monitors.len());
                let Monitor { connection, id, .. } = self.monitors.remove(at);
                (connection, "monitor_cancel", json!([id]).to_string())
            }
            13..=16 => {
                let method = pick(rng, &["lock", "lock", "steal", "unlock", "unlock"]);
                let lock = pick(rng, &LOCKS);
                (pick(rng, &['A', 'B', 'C']), method, json!([lock]).to_string())
            }
            17 if !self.waiting.is_empty() => {
                let (connection, id) = pick(rng, &self.waiting);
                (connection, "cancel", json!([id]).to_string())
            }
            18 => (
                pick(rng, &['A', 'B', 'C']),
                "set_db_change_aware",
                json!([rng.random_bool(0.5)]).to_string(),
            ),
            19..=20 => self.close(rng),
            21..=27 => {
                let operations = sequence(rng, &self.schema, |rng| self.operation(rng.random()));
                let params = [json!("D")].into_iter().chain(operations).collect();
                let connection = pick(rng, &CLOSING);
                (connection, "transact", Value::Array(params).to_string())
            }
            kind => {
                let connection = pick(rng, &['A', 'A', 'A', 'B']);
                let mut params = vec![json!("D")];
                let mut operations: Vec<_> =
                    seeds.iter().map(|seed| self.operation(*seed)).collect();
                if kind >= 95 {
                    self.waiting.push((connection, id));
                    params.push(self.blocking_wait(rng));
                    // Its changes may be in one update with those that satisfy it, or not.
                    operations.retain(|operation| !changes(operation));
                }
                params.append(&mut operations);
                (connection, "transact", Value::Array(params).to_string())
            }
        }
    }

    /// The end of a connection, with its monitors and waiting transactions.
    fn close(&mut self, rng: &mut StdRng) -> Request {
        let closed = pick(rng, &CLOSING);
        self.monitors.retain(|monitor| monitor.connection != closed);
        self.waiting.retain(|(connection, _)| *connection != closed);
        (closed, CLOSE, String::new())
    }

    /// A new monitor.
    pub(super) fn monitor(&mut self, seed: u64) -> Request {
        let rng = &mut StdRng::seed_from_u64(seed);
        let (connection, id) = (pick(rng, &MONITORING), self.next_monitor);
        self.next_monitor += 1;
        let method = pick(rng, &["monitor", "monitor_cond", "monitor_cond_since"]);
        let (mut requests, mut tables) = (Map::new(), Vec::new());
        for (number, table) in self.schema.tables.iter().enumerate() {
            if rng.random_bool(0.8) {
                let (request, columns) = monitor_request(rng, table, method != "monitor");
                tables.push((number, columns));
                let mut several = json!([request]);
                if let (Some(several), true) = (several.as_array_mut(), rng.random_bool(0.3)) {
                    several.extend(second_request(rng, table, &request));
                }
                requests.insert(table.name.to_string(), pick(rng, &[request, several]));
            }
        }
        self.monitors.push(Monitor { connection, id, tables });
        let mut params = vec![json!("D"), json!(id), Value::Object(requests)];
        if method == "monitor_cond_since" {
            params.push(json!(pick(rng, &[NO_TRANSACTION, NO_TRANSACTION, UNKNOWN_TRANSACTION])));
        }
        (connection, method, Value::Array(params).to_string())
    }

    fn condition_change(&mut self, rng: &mut StdRng) -> Request {
        let at = rng.random_range(0..self.monitors.len());
        let new_id = self.next_monitor;
        self.next_monitor += 1;
        let monitor = &mut self.monitors[at];
        let mut requests = Map::new();
        for (number, columns) in &monitor.tables {
            let table = &self.schema.tables[*number];
            if rng.random_bool(0.7) {
                let condition = monitor_condition(rng, columns);
                requests.insert(table.name.to_string(), json!([{"where": condition}]));
            }
        }
        let old_id = std::mem::replace(&mut monitor.id, new_id);
        let params = json!([old_id, new_id, requests]).to_string();
        (monitor.connection, "monitor_cond_change", params)
    }

    /// A `wait` without a timeout, until another transaction satisfies it.
    fn blocking_wait(&self, rng: &mut StdRng) -> Value {
        let number = rng.random_range(0..self.schema.tables.len());
        let table = &self.schema.tables[number];
        let mut wait = wait(rng, number, table);
        wait["table"] = json!(&*table.name);
        wait["timeout"] = json!(100_000_000);
        wait
    }

    /// An operation of any kind.
    pub(super) fn operation(&self, seed: u64) -> Value {
        let rng = &mut StdRng::seed_from_u64(seed);
        let number = rng.random_range(0..self.schema.tables.len());
        let table = &self.schema.tables[number];
        let mut operation = match rng.random_range(0..100) {
            0..=39 => insert(rng, number, table),
            40..=54 => {
                let mut columns: Vec<_> = table.columns.iter().filter(|c| c.mutable).collect();
                if rng.random_bool(0.05) {
                    columns = vec![any_column(rng, table)];
                }
                let row = row(rng, &columns);
                json!({"op": "update", "where": condition(rng, number, table), "row": row})
            }
            55..=74 => {
                let count = rng.random_range(1..=2);
                let mutations: Vec<_> = (0..count).map(|_| mutation(rng, table)).collect();
                json!({"op": "mutate", "where": condition(rng, number, table), "mutations": mutations})
            }
            75..=82 => json!({"op": "delete", "where": condition(rng, number, table)}),
            83..=91 => select(rng, number, table),
            92..=95 => wait(rng, number, table),
            96 => return json!({"op": "abort"}),
            97 => return json!({"op": "comment", "comment": "x"}),
            98 => return json!({"op": "commit", "durable": false}),
            _ => return json!({"op": "assert", "lock": pick(rng, &["l0", "l0", "l1", "none"])}),
        };
        operation["table"] = json!(&*table.name);
        if rng.random_bool(0.02) {
            spoil(rng, &mut operation);
        }
        operation
    }
}

fn changes(operation: &Value) -> bool {
    ["insert", "update", "mutate", "delete"].contains(&operation["op"].as_str().unwrap_or("insert"))
}

fn insert(rng: &mut StdRng, number: usize, table: &TableSchema) -> Value {
    let columns: Vec<_> = table.columns.iter().collect();
    let mut insert = json!({"op": "insert", "row": row(rng, &columns)});
    if rng.random_bool(0.7) {
        insert["uuid"] = json!(row_uuid(rng, number));
    } else {
        insert["uuid-name"] = json!(row_name(rng, number));
    }
    insert
}

/// Values for some of the columns.
pub(super) fn row(rng: &mut StdRng, columns: &[&ColumnSchema]) -> Value {
    let mut row = Map::new();
    for column in columns {
        if rng.random_bool(0.6) {
            row.insert(column.name.to_string(), value(rng, &column.ty, true));
        }
    }
    // At most one fault, because the reported one of several is arbitrary.
    if !columns.is_empty() && rng.random_bool(0.06) {
        let column = columns[rng.random_range(0..columns.len())];
        row.insert(column.name.to_string(), fault(rng, &column.ty));
    }
    Value::Object(row)
}

pub(super) fn any_column<'t>(rng: &mut StdRng, table: &'t TableSchema) -> &'t ColumnSchema {
    &table.columns[rng.random_range(0..table.columns.len())]
}

fn mutation(rng: &mut StdRng, table: &TableSchema) -> Value {
    let is_number = |atom| matches!(atom, AtomType::Integer | AtomType::Real);
    let mut column = any_column(rng, table);
    for _ in 0..5 {
        // No mutator applies to other scalars or to immutable columns.
        if column.mutable && (is_number(column.ty.key.atom) || !column.ty.is_scalar()) {
            break;
        }
        column = any_column(rng, table);
    }
    let ty = &column.ty;
    let number = is_number(ty.key.atom) && ty.value.is_none();
    let (mutator, argument) = match rng.random_range(0..100) {
        0..=1 => (pick(rng, &["=", "%=", "insert"]), garbage(rng)),
        2..=4 => (pick(rng, &["insert", "delete"]), fault(rng, ty)),
        5..=69 if number => arithmetic(rng, &ty.key),
        5..=6 => ("+=", json!(1)),
        _ => {
            let mutator = pick(rng, &["insert", "insert", "delete"]);
            let count = rng.random_range(0..=ty.max.min(3));
            let keys = ColumnType { value: None, ..ty.clone() };
            let by_key = mutator == "delete" && rng.random_bool(0.5);
            (mutator, elements(rng, if by_key { &keys } else { ty }, count, true))
        }
    };
    json!([&*column.name, mutator, argument])
}

/// Multiplying a negative integer by zero crashes the real server, and negative zero is not always
/// zero to it.
fn arithmetic(rng: &mut StdRng, base: &BaseType) -> (&'static str, Value) {
    // The bounds of the real server's products are not exact.
    let mutators: &[&str] =
        if is_extreme(base) { &["+=", "-=", "/=", "%="] } else { &["+=", "-=", "*=", "/=", "%="] };
    let mutator = pick(rng, mutators);
    if is_extreme(base) && mutator != "/=" && rng.random_bool(0.5) {
        return (mutator, atom(rng, base, false));
    }
    let argument = match (base.atom, mutator) {
        (AtomType::Integer, "*=") => json!(pick(rng, &[-1, 1, 2, 3])),
        (AtomType::Integer, _) => json!(pick(rng, &[-2, -1, 0, 1, 2, 3])),
        (_, "*=") => json!(pick(rng, &[0.5, 1.0, 2.0, 3.0])),
        (_, "/=") => json!(pick(rng, &[0.0, 0.5, 1.0, 2.0])),
        _ => json!(pick(rng, &[-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])),
    };
    (mutator, argument)
}

fn select(rng: &mut StdRng, number: usize, table: &TableSchema) -> Value {
    let mut select = json!({"op": "select", "where": condition(rng, number, table)});
    if rng.random_bool(0.3) {
        return select;
    }
    let some: Vec<_> = table.columns.iter().filter(|_| rng.random_bool(0.5)).collect();
    let mut columns: Vec<&str> = some.iter().map(|column| &*column.name).collect();
    if rng.random_bool(0.4) {
        columns.push("_uuid");
    }
    // The order of UUIDs differs, and that of hidden columns is unknown.
    let sort: Vec<&str> = some
        .iter()
        .filter(|column| column.ty.base_types().all(|base| base.atom != AtomType::Uuid))
        .map(|column| &*column.name)
        .collect();
    select["columns"] = json!(columns);
    if rng.random_bool(0.5) {
        select["sort"] = json!(sort);
    }
    select
}

fn wait(rng: &mut StdRng, number: usize, table: &TableSchema) -> Value {
    let columns: Vec<_> = table.columns.iter().filter(|_| rng.random_bool(0.4)).collect();
    let count = rng.random_range(0..3);
    let rows: Vec<_> = (0..count).map(|_| row(rng, &columns)).collect();
    let columns: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    json!({
        "op": "wait", "timeout": 0, "where": condition(rng, number, table), "columns": columns,
        "until": pick(rng, &["==", "!=", "!="]), "rows": rows,
    })
}

/// Breaks an operation.
fn spoil(rng: &mut StdRng, operation: &mut Value) {
    let Value::Object(members) = operation else {
        return;
    };
    let names: Vec<String> = members.keys().cloned().collect();
    let name = pick(rng, &names);
    match rng.random_range(0..4) {
        0 => {
            members.remove(&name);
        }
        1 => {
            members.insert(name, garbage(rng));
        }
        2 => {
            members.insert("extra".into(), json!(1));
        }
        _ => {
            members.insert("table".into(), json!("none"));
        }
    }
}
