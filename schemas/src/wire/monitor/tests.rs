use super::*;
use crate::json::TextBuf;
use crate::wire::Clause;

const SCHEMA: &str = r#"{"name": "D", "version": "1.0.0", "tables": {
    "T": {"columns": {"name": {"type": "string"}, "i": {"type": "integer"}}},
    "U": {"columns": {"x": {"type": "integer"}}}}}"#;

fn schema() -> DatabaseSchema {
    DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap()
}

fn decode(requests: &str, version: MonitorVersion) -> Result<MonitorRequests, OvsdbError> {
    let text = TextBuf::parse(format!("[{requests}]").into_bytes()).unwrap();
    let mut reader = Reader::new(text.as_text());
    reader.enter_array();
    reader.next_element();
    MonitorRequests::decode(&mut reader, &schema(), version, &mut StringCache::default())
}

/// Returns the request for table `T` and the names of its columns.
fn table(requests: &str) -> (MonitorTable, Vec<(String, Select)>) {
    let schema = schema();
    let (id, table) = schema.table_by_name("T").unwrap();
    let mut decoded = decode(requests, MonitorVersion::V2).unwrap();
    let requests = decoded.tables.remove(&id).unwrap();
    let name =
        |(column, select): &(ColumnId, Select)| (table.column_name(*column).to_owned(), *select);
    let names = requests.columns.iter().map(name).collect();
    (requests, names)
}

#[test]
fn a_request_without_columns_is_for_all_but_the_uuid() {
    let (_, columns) = table(r#"{"T": {}}"#);
    let expected = ["i", "name", "_version"].map(|name| (name.to_owned(), Select::ALL));
    assert_eq!(columns, expected);
}

#[test]
fn a_request_with_an_empty_list_of_columns_reports_rows() {
    let (requests, columns) = table(r#"{"T": [{"columns": []}]}"#);
    assert_eq!(columns, []);
    assert_eq!(requests.select, Select::ALL);
}

#[test]
fn an_empty_array_of_requests_reports_nothing() {
    let (requests, columns) = table(r#"{"T": []}"#);
    assert_eq!(columns, []);
    assert_eq!(requests.select, Select::NONE);
}

#[test]
fn each_request_has_its_own_select_and_the_first_condition_is_used() {
    let (requests, columns) = table(
        r#"{"T": [{"columns": ["i"], "select": {"modify": false, "initial": false}},
                  {"columns": ["name"], "select": {"modify": true, "delete": false, "insert": false}, "where": [false]}]}"#,
    );
    let i = Select { modify: false, initial: false, ..Select::ALL };
    let name = Select { delete: false, insert: false, ..Select::ALL };
    assert_eq!(columns, [("i".to_owned(), i), ("name".to_owned(), name)]);
    assert_eq!(requests.select, Select::ALL);
    assert_eq!(requests.condition, Condition::default());
    let (requests, _) = table(r#"{"T": [{"columns": [], "where": [true]}, {"where": [false]}]}"#);
    assert_eq!(requests.condition, Condition::new(vec![Clause::Bool(true)]));
}

#[test]
fn a_column_of_many_clauses_is_watched_once() {
    let clauses: Vec<String> = (0..4000).map(|i| format!(r#"["i","==",{i}]"#)).collect();
    let clauses = format!(r#"[{},["name","==",""],true]"#, clauses.join(","));
    let (requests, _) = table(&format!(r#"{{"T": {{"columns": [], "where": {clauses}}}}}"#));
    assert_eq!(requests.condition.clauses().len(), 4002);
    assert_eq!(requests.condition.columns().len(), 2);
}

#[test]
fn the_last_of_several_equal_members_is_used() {
    let (_, columns) = table(r#"{"T": {"columns": 5}, "T": {"columns": ["i"]}}"#);
    assert_eq!(columns, [("i".to_owned(), Select::ALL)]);
}

#[test]
fn requests_round_trip() {
    for requests in [
        r#"{"T":[{"columns":["i","name"]}]}"#,
        r#"{"T":[{"columns":[]}],"U":[]}"#,
        r#"{"T":[{"columns":["i"],"select":{"initial":false,"insert":true,"delete":true,"modify":true},"where":[["i",">",3],true]},{"columns":["_version"]}]}"#,
        r#"{"T":[{"columns":["i"],"select":{"initial":true,"insert":false,"delete":false,"modify":false}},{"columns":[]}]}"#,
        "{}",
    ] {
        let decoded = decode(requests, MonitorVersion::V3).unwrap();
        let mut out = Vec::new();
        decoded.write_json(&schema(), MonitorVersion::V3, &mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(decode(&out, MonitorVersion::V3).unwrap(), decoded);
        assert_eq!(out, requests);
    }
}

/// Recorded from ovsdb-server 3.1.0.
#[test]
fn errors_are_worded_like_those_of_ovsdb_server() {
    for (requests, error) in [
        ("5", "syntax error: monitor-requests must be object (in 5)"),
        ("[]", "syntax error: monitor-requests must be object (in [])"),
        (r#"{"X":[]}"#, "syntax error: no table named X"),
        (r#"{"T":5}"#, "syntax error: Parsing table T failed: Object expected."),
        (r#"{"T":[5]}"#, "syntax error: Parsing table T failed: Object expected."),
        (
            r#"{"T":{"columns":5}}"#,
            r#"syntax error: Parsing table T failed: Type mismatch for member 'columns'. (in {"columns":5})"#,
        ),
        (r#"{"T":{"columns":[5]}}"#, "syntax error: array of column names expected (in [5])"),
        (
            r#"{"T":{"columns":["zz"],"where":[5]}}"#,
            r#"syntax error: zz is not a valid column name (in ["zz"])"#,
        ),
        (
            r#"{"T":[{"columns":["i"]},{"columns":["i"]}]}"#,
            r#"syntax error: column i mentioned more than once (in ["i"])"#,
        ),
        (r#"{"T":[{"columns":["i"]},{}]}"#, "syntax error: column i mentioned more than once"),
        (
            r#"{"T":{"select":{"initial":5}}}"#,
            r#"syntax error: Parsing table T select failed: Type mismatch for member 'initial'. (in {"initial":5})"#,
        ),
        (
            r#"{"T":{"select":{"zz":true}}}"#,
            r#"syntax error: Parsing table T select failed: Member 'zz' is present but not allowed here. (in {"zz":true})"#,
        ),
        (
            r#"{"T":{"select":{"initial":5},"columns":["zz"],"where":5}}"#,
            r#"syntax error: Parsing table T failed: Type mismatch for member 'where'. (in {"columns":["zz"],"select":{"initial":5},"where":5})"#,
        ),
        (
            r#"{"T":[{"where":[]},{"columns":[],"where":[5]}]}"#,
            "syntax error: Parse error in condition. (in 5)",
        ),
        (
            r#"{"T":{"where":[["zz","==",1]]}}"#,
            r#"unknown column: No column zz in table T. (in ["zz","==",1])"#,
        ),
        (
            r#"{"T":{"where":[["_uuid","==",["named-uuid","x"]]]}}"#,
            r#"syntax error: expected ["uuid", <string>] (in ["named-uuid","x"])"#,
        ),
    ] {
        let complaint = decode(requests, MonitorVersion::V2).unwrap_err();
        assert_eq!(complaint.to_string(), error, "{requests}");
    }
    let complaint = decode(r#"{"T":{"where":[]}}"#, MonitorVersion::V1).unwrap_err();
    assert_eq!(
        complaint.to_string(),
        r#"syntax error: Parsing table T failed: Member 'where' is present but not allowed here. (in {"where":[]})"#
    );
}
