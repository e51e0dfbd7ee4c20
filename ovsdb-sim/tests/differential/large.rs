//! Requests and replies of megabytes, which the simulator decodes and encodes in several threads.

use ovsdb_sim::Model;
use patchbay_ovn_programs::testing::Release;
use patchbay_schemas::json::Json;

use crate::normal::Scope;
use crate::servers::{Comparison, Servers};

const SCHEMA: &str = r#"{"name":"D","tables":{
    "T":{"columns":{"i":{"type":"integer"},"s":{"type":"string"}}},
    "R":{"isRoot":true,"columns":{"refs":{"type":{"key":{"type":"uuid","refTable":"T"},"min":0,"max":"unlimited"}}}}}}"#;

/// Number of rows, of [`ROW_BYTES`] bytes each, in a request that is decoded in four pieces.
const REQUEST_ROWS: usize = 150;
/// Length of a row's text in bytes.
const ROW_BYTES: usize = 30_000;
/// Number of rows in a first reply that four threads encode, and of results in a reply of two
/// chunks. A set of as many references is sorted by several threads.
const REPLY_ROWS: usize = 17_000;

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
    let mut call =
        |client: char, comparison: &mut Comparison, case: &str, method: &str, params: &str| {
            id += 1;
            let text = format!(r#"{{"id":{id},"method":"{method}","params":[{params}]}}"#);
            let request = Json::parse(text.as_bytes()).expect("the request is JSON");
            if let Err(difference) = comparison.send(client, text.as_bytes(), Some(&request)) {
                let shown: String = difference.describe(case, method).chars().take(4000).collect();
                panic!("{shown}");
            }
        };
    for (case, operations) in garbage() {
        call('B', &mut comparison, case, "lock", r#""l""#);
        let waits = r#""D",{"op":"assert","lock":"l"},
            {"op":"wait","table":"R","where":[],"columns":["_uuid"],"until":"!=","rows":[]}"#;
        call('B', &mut comparison, case, "transact", waits);
        call('A', &mut comparison, case, "steal", r#""l""#);
        let operations = format!(r#""D",{}"#, operations.join(","));
        call('A', &mut comparison, case, "transact", &operations);
        // Ends the waiting transaction if that has not.
        for operation in
            [r#"{"op":"insert","table":"R","row":{}}"#, r#"{"op":"delete","table":"R","where":[]}"#]
        {
            call('A', &mut comparison, case, "transact", &format!(r#""D",{operation}"#));
        }
        call('A', &mut comparison, case, "unlock", r#""l""#);
        call('B', &mut comparison, case, "unlock", r#""l""#);
    }
    let mut send =
        |client: char, comparison: &mut Comparison, case: &str, method: &str, params: &str| {
            call(client, comparison, case, method, &format!(r#""D",{params}"#));
        };
    for (case, operations) in cases() {
        send('A', &mut comparison, case, "transact", &operations.join(","));
        let content = r#"{"op":"select","table":"T","where":[],"columns":["i"],"sort":["i"]},
            {"op":"select","table":"R","where":[],"columns":["refs"]}"#;
        send('A', &mut comparison, case, "transact", content);
        let clean = r#"{"op":"delete","table":"R","where":[]}"#;
        send('A', &mut comparison, case, "transact", clean);
    }
    let rows: Vec<String> = (0..REPLY_ROWS).map(|i| insert(&format!("n{i}"), i, "")).collect();
    let rows = format!("{},{}", rows.join(","), refer(REPLY_ROWS));
    send('A', &mut comparison, "many rows", "transact", &rows);
    let all = r#""m",{"T":{"columns":["i","s"]},"R":{"columns":["refs"]}}"#;
    for method in ["monitor", "monitor_cond"] {
        let id = format!(r#""{method}""#);
        send('A', &mut comparison, "many rows", method, &all.replace(r#""m""#, &id));
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
    // Long updates are encoded while they are written.
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
        let long = "x".repeat(ROW_BYTES);
        (0..REQUEST_ROWS).map(|i| insert(&format!("n{i}"), i, &long)).collect()
    };
    let with = |place: usize, operation: &str| {
        let mut operations = all();
        operations.insert(place, operation.to_owned());
        operations.push(refer(REQUEST_ROWS));
        operations
    };
    let chosen = r#"{"op":"insert","table":"T","uuid-name":"own","uuid":"550e8400-e29b-41d4-a716-446655440000","row":{"i":-1}}"#;
    let own = r#"{"op":"insert","table":"R","row":{"refs":["named-uuid","own"]}}"#;
    let mut chosen_late = with(REQUEST_ROWS, chosen);
    chosen_late.insert(0, own.to_owned());
    let mut chosen_early = with(0, chosen);
    chosen_early.push(own.to_owned());
    vec![
        ("names of other parts, before and after", with(1, &refer(REQUEST_ROWS))),
        (
            "an unknown column in the last part",
            with(REQUEST_ROWS - 1, r#"{"op":"insert","table":"T","row":{"no":1}}"#),
        ),
        ("an unknown operation in the first part", with(1, r#"{"op":"no"}"#)),
        ("no object between parts", with(REQUEST_ROWS / 2, "5")),
        ("failures in two parts", {
            let mut operations = with(REQUEST_ROWS - 1, r#"{"op":"no"}"#);
            operations.insert(10, r#"{"op":"insert","table":"T","row":{"i":"x"}}"#.to_owned());
            operations
        }),
        ("a name taken in two parts", with(REQUEST_ROWS, &insert("n0", 0, ""))),
        (
            "an unknown name",
            with(
                REQUEST_ROWS,
                r#"{"op":"insert","table":"R","row":{"refs":["named-uuid","nowhere"]}}"#,
            ),
        ),
        ("an operation that fails", with(REQUEST_ROWS / 2, r#"{"op":"abort"}"#)),
        ("a failure after the results of many chunks", {
            let comment = r#"{"op":"comment","comment":"c"}"#;
            let mut operations = vec![comment.to_owned(); 2 * REPLY_ROWS];
            operations.push(r#"{"op":"abort"}"#.to_owned());
            operations.push(comment.to_owned());
            operations
        }),
        ("a chosen UUID before its name is mentioned", chosen_early),
        ("a chosen UUID after its name was mentioned", chosen_late),
    ]
}

/// Transactions whose rows are garbage at once.
fn garbage() -> [(&'static str, Vec<String>); 3] {
    let rows: Vec<String> = (0..REPLY_ROWS).map(|i| insert(&format!("n{i}"), i, "")).collect();
    let and = |operation: &str| {
        let mut operations = rows.clone();
        operations.push(operation.to_owned());
        operations
    };
    [
        ("many rows without references", rows.clone()),
        ("many rows that are deleted at once", and(r#"{"op":"delete","table":"T","where":[]}"#)),
        (
            "many rows of which one is left",
            and(r#"{"op":"delete","table":"T","where":[["i","!=",1]]}"#),
        ),
    ]
}

fn insert(name: &str, i: usize, text: &str) -> String {
    format!(r#"{{"op":"insert","table":"T","uuid-name":"{name}","row":{{"i":{i},"s":"{text}"}}}}"#)
}

/// An insert of a row that refers to `rows` others by their names.
fn refer(rows: usize) -> String {
    let names: Vec<String> = (0..rows).map(|i| format!(r#"["named-uuid","n{i}"]"#)).collect();
    let names = names.join(",");
    format!(r#"{{"op":"insert","table":"R","row":{{"refs":["set",[{names}]]}}}}"#)
}
