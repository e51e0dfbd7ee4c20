//! Random conversions: a database gets another schema, and keeps its content or the conversion
//! fails.

use ovsdb_sim::Model;
use patchbay_ovn_programs::testing::Release;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::normal::Scope;
use crate::servers::{Comparison, Servers};

use super::changed_schema::{self, Changes};
use super::number;
use super::requests::Requests;
use super::schema;

/// Number of databases that are converted, which takes about ten seconds.
const CASES: u32 = 150;
const TRIXIE_CASES: u32 = 60;
const NEWEST_CASES: u32 = 60;
/// Maximum number of operations of a transaction.
const MAX_OPERATIONS: usize = 4;
/// Parameters of a transaction whose `wait` is never satisfied.
const WAIT: &str = r#"["D",{"op":"wait","table":"T0","where":[["_uuid","==",["uuid","00000000-0000-4000-8000-0000000fffff"]]],
    "columns":[],"until":"!=","rows":[]}]"#;
/// Maximum percentage of the conversions at which the real server 3.1 crashes: some of those that
/// fail half-way.
const MAX_CRASHES: u32 = 5;

#[test]
fn random_conversions_have_the_same_results() {
    run(&Release::installed(), CASES);
}

#[test]
fn random_conversions_have_the_same_results_as_in_trixie() {
    if let Some(release) = Release::trixie() {
        run(&release, TRIXIE_CASES);
    }
}

#[test]
fn random_conversions_have_the_same_results_as_in_the_newest_release() {
    if let Some(release) = Release::newest() {
        run(&release, NEWEST_CASES);
    }
}

fn run(release: &Release, cases: u32) {
    let cases = number("PATCHBAY_DIFFERENTIAL_CASES").map_or(cases, |cases| cases as u32);
    let seed = number("PATCHBAY_DIFFERENTIAL_SEED").unwrap_or_default();
    let mut crashes = 0;
    for case in 0..u64::from(cases) {
        match compare(release, seed ^ case << 32) {
            Ok(()) => {}
            Err(None) => crashes += 1,
            Err(Some(difference)) => panic!("{difference}"),
        }
    }
    assert!(crashes * 100 <= MAX_CRASHES * cases, "the real server crashed {crashes} times");
}

/// Runs one case.
///
/// # Errors
/// The difference, with the requests that led to it. `None`: the real server crashed.
fn compare(release: &Release, seed: u64) -> Result<(), Option<String>> {
    let rng = &mut StdRng::seed_from_u64(seed);
    let before = schema::random(rng.random());
    // With one change and one row, an error can have only one reason.
    let (changes, transactions) = match rng.random_range(0..3) {
        0 => (Changes::One, 1),
        _ => (Changes::Some, rng.random_range(1..8)),
    };
    let after = changed_schema::changed(&before, rng.random(), changes);
    let servers = Servers::start(release, Model::Standalone, &before);
    let scope = match changes {
        Changes::One => Scope::Random,
        Changes::Some => Scope::Broken,
    };
    let mut conversation = Conversation {
        comparison: servers.compare(scope),
        script: vec![format!("schema {before}")],
    };
    conversation.send('A', "set_db_change_aware", "[true]")?;
    let mut requests = Requests::new(&before);
    let max_operations = match changes {
        Changes::One => 1,
        Changes::Some => MAX_OPERATIONS,
    };
    for _ in 0..transactions {
        let params = transaction(rng, &requests, max_operations);
        conversation.send('A', "transact", &params)?;
    }
    conversation.send('B', "monitor_cond", r#"["D","m",{"T0":{}}]"#)?;
    // B is not aware of changes and C may be: its monitors end, or its connection. Both want a
    // lock.
    conversation.send('C', "set_db_change_aware", &json!([rng.random_bool(0.7)]).to_string())?;
    for _ in 0..rng.random_range(0..4) {
        let (connection, method, params) = requests.monitor(rng.random());
        conversation.send(connection, method, &params)?;
    }
    for connection in ['B', 'C'] {
        conversation.send(connection, "lock", r#"["l0"]"#)?;
    }
    // The client that requests the conversion has a monitor and a waiting transaction.
    conversation.send('A', "monitor", r#"["D","m",{"T0":{}}]"#)?;
    conversation.send('A', "transact", WAIT)?;
    conversation.send('A', "convert", &json!(["D", after]).to_string())?;
    conversation.send('A', "get_schema", r#"["D"]"#)?;
    for content in [&before, &after.to_string()].map(|schema| select_all(schema)) {
        conversation.send('A', "transact", &content)?;
    }
    if changes == Changes::One {
        return Ok(());
    }
    let is_valid = DatabaseSchema::parse(after.to_string().as_bytes()).is_ok();
    let requests = if is_valid { Requests::new(&after.to_string()) } else { requests };
    for _ in 0..4 {
        let params = transaction(rng, &requests, MAX_OPERATIONS);
        conversation.send('A', "transact", &params)?;
    }
    conversation.send('A', "transact", &select_all(&after.to_string()))
}

/// The parameters of a transaction with at most `max` operations.
fn transaction(rng: &mut StdRng, requests: &Requests, max: usize) -> String {
    let operations = (0..rng.random_range(1..=max)).map(|_| requests.operation(rng.random()));
    let params: Vec<Value> = [json!("D")].into_iter().chain(operations).collect();
    Value::Array(params).to_string()
}

struct Conversation {
    comparison: Comparison,
    script: Vec<String>,
}

impl Conversation {
    fn send(&mut self, connection: char, method: &str, params: &str) -> Result<(), Option<String>> {
        let id = self.script.len();
        let text = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
        self.script.push(format!("{connection} {method} {params}"));
        let request = Json::parse(text.as_bytes()).expect("a request is JSON");
        let sent = self.comparison.send(connection, text.as_bytes(), Some(&request));
        sent.map_err(|difference| {
            let crashed = self.comparison.real_is_gone();
            (!crashed).then(|| difference.describe("conversion", &self.script.join("\n")))
        })
    }
}

/// The parameters of a transaction that reads all tables of a schema.
fn select_all(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let tables = schema["tables"].as_object().into_iter().flatten();
    let select = |(table, _): (&String, _)| json!({"op": "select", "table": table, "where": []});
    let params: Vec<Value> = [json!("D")].into_iter().chain(tables.map(select)).collect();
    Value::Array(params).to_string()
}
