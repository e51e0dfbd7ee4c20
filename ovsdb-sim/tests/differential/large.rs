//! Requests and replies of megabytes, which the simulator takes apart and puts together in several threads.

use ovsdb_sim::Model;
use ovsdb_sim::testing::Release;
use patchbay_schemas::json::Json;

use crate::normal::Scope;
use crate::servers::{Comparison, Servers};

const SCHEMA: &str = r#"{"name":"D","tables":{
    "T":{"columns":{"i":{"type":"integer"},"s":{"type":"string"}}},
    "R":{"isRoot":true,"columns":{"refs":{"type":{"key":{"type":"uuid","refTable":"T"},"min":0,"max":"unlimited"}}}}}}"#;

/// So many rows, of [`LEN`] bytes each, make a request that is cut in four.
const ROWS: usize = 150;
const LEN: usize = 30_000;
/// Rows enough for a first reply that is written by four threads.
const MANY: usize = 9_000;

#[test]
fn installed() {
    compare(&Release::installed());
}

#[test]
fn trixie() {
    if let Some(release) = Release::trixie() {
        compare(&release);
    }
}

fn compare(release: &Release) {
    let servers = Servers::start(release, Model::Standalone, SCHEMA);
    let mut comparison = servers.compare(Scope::Directed);
    let mut id = 0;
    let mut send =
        |client: char, comparison: &mut Comparison, case: &str, method: &str, params: &str| {
            id += 1;
            let text = format!(r#"{{"id":{id},"method":"{method}","params":["D",{params}]}}"#);
            let request = Json::parse(text.as_bytes()).expect("the request is JSON");
            if let Err(difference) = comparison.send(client, text.as_bytes(), Some(&request)) {
                let shown: String = difference.of(case, method).chars().take(4000).collect();
                panic!("{shown}");
            }
        };
    for (case, operations) in cases() {
        send(
            'A',
            &mut comparison,
            case,
            "transact",
            &operations.join(","),
        );
        let content = r#"{"op":"select","table":"T","where":[],"columns":["i"],"sort":["i"]},
            {"op":"select","table":"R","where":[],"columns":["refs"]}"#;
        send('A', &mut comparison, case, "transact", content);
        let clean = r#"{"op":"delete","table":"R","where":[]}"#;
        send('A', &mut comparison, case, "transact", clean);
    }
    let rows: Vec<String> = (0..MANY).map(|i| insert(&format!("n{i}"), i, "")).collect();
    let rows = format!("{},{}", rows.join(","), refer(MANY));
    send('A', &mut comparison, "many rows", "transact", &rows);
    let all = r#""m",{"T":{"columns":["i","s"]},"R":{"columns":["refs"]}}"#;
    for method in ["monitor", "monitor_cond"] {
        let id = format!(r#""{method}""#);
        send(
            'A',
            &mut comparison,
            "many rows",
            method,
            &all.replace(r#""m""#, &id),
        );
    }
    let none = r#""none",{"T":{"columns":["i"],"select":{"initial":false}}}"#;
    send('A', &mut comparison, "no rows", "monitor", none);
    for method in ["monitor_cond", "monitor_cond_since"] {
        let id = format!(r#""{method} of B""#);
        let mut params = all.replace(r#""m""#, &id);
        if method == "monitor_cond_since" {
            params.push_str(r#","00000000-0000-0000-0000-000000000000""#);
        }
        send('B', &mut comparison, "many rows", method, &params);
    }
    // Updates of so many rows are encoded while they are written.
    for (case, operation) in [
        (
            "changes of many rows",
            r#"{"op":"mutate","table":"T","where":[["i",">",5]],"mutations":[["i","+=",1]]}"#,
        ),
        ("many rows go", r#"{"op":"delete","table":"R","where":[]}"#),
        ("many rows come", &rows),
    ] {
        send('A', &mut comparison, case, "transact", operation);
    }
}

fn cases() -> Vec<(&'static str, Vec<String>)> {
    let all = || -> Vec<String> {
        let long = "x".repeat(LEN);
        (0..ROWS)
            .map(|i| insert(&format!("n{i}"), i, &long))
            .collect()
    };
    let with = |place: usize, operation: &str| {
        let mut operations = all();
        operations.insert(place, operation.to_owned());
        operations.push(refer(ROWS));
        operations
    };
    let chosen = r#"{"op":"insert","table":"T","uuid-name":"own","uuid":"550e8400-e29b-41d4-a716-446655440000","row":{"i":-1}}"#;
    let own = r#"{"op":"insert","table":"R","row":{"refs":["named-uuid","own"]}}"#;
    let mut chosen_late = with(ROWS, chosen);
    chosen_late.insert(0, own.to_owned());
    let mut chosen_early = with(0, chosen);
    chosen_early.push(own.to_owned());
    vec![
        (
            "names of other parts, before and after",
            with(1, &refer(ROWS)),
        ),
        (
            "an unknown column in the last part",
            with(ROWS - 1, r#"{"op":"insert","table":"T","row":{"no":1}}"#),
        ),
        (
            "an unknown operation in the first part",
            with(1, r#"{"op":"no"}"#),
        ),
        ("no object between parts", with(ROWS / 2, "5")),
        ("failures in two parts", {
            let mut operations = with(ROWS - 1, r#"{"op":"no"}"#);
            operations.insert(
                10,
                r#"{"op":"insert","table":"T","row":{"i":"x"}}"#.to_owned(),
            );
            operations
        }),
        (
            "a name taken in two parts",
            with(ROWS, &insert("n0", 0, "")),
        ),
        (
            "a name that nobody takes",
            with(
                ROWS,
                r#"{"op":"insert","table":"R","row":{"refs":["named-uuid","nobody"]}}"#,
            ),
        ),
        (
            "an operation that fails",
            with(ROWS / 2, r#"{"op":"abort"}"#),
        ),
        ("a chosen UUID before its name is mentioned", chosen_early),
        ("a chosen UUID after its name was mentioned", chosen_late),
    ]
}

fn insert(name: &str, i: usize, text: &str) -> String {
    format!(r#"{{"op":"insert","table":"T","uuid-name":"{name}","row":{{"i":{i},"s":"{text}"}}}}"#)
}

/// A row that refers to so many others by their names.
fn refer(rows: usize) -> String {
    let names: Vec<String> = (0..rows)
        .map(|i| format!(r#"["named-uuid","n{i}"]"#))
        .collect();
    let names = names.join(",");
    format!(r#"{{"op":"insert","table":"R","row":{{"refs":["set",[{names}]]}}}}"#)
}
