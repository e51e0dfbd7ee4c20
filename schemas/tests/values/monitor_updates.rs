//! Encoding and decoding of monitor updates, compared with those that ovsdb-server 3.1.0 sent for
//! the same changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{
    MonitorRequests, MonitorTable, MonitorVersion, RowEvent, RowUpdate, UpdateError, UpdateReader,
};
use uuid::Uuid;

const SCHEMA: &str = r#"{"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
    "name": {"type": "string"},
    "i": {"type": "integer"},
    "set": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
    "m": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}}}}"#;

const T: TableId = TableId(0);

type Rows = BTreeMap<Uuid, Arc<Row>>;

fn schema() -> DatabaseSchema {
    DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap()
}

fn uuid(last: u8) -> Uuid {
    format!("00000000-0000-4000-8000-00000000000{last}").parse().unwrap()
}

fn read(updates: &str, version: MonitorVersion) -> Result<Vec<(Uuid, RowUpdate)>, UpdateError> {
    let text = TextBuf::parse(updates.as_bytes().to_vec()).unwrap();
    let (schema, mut strings) = (schema(), StringCache::default());
    let reader = Reader::new(text.as_text());
    let updates = UpdateReader::new(reader, &schema, version, &mut strings);
    updates.map(|update| update.map(|(_, uuid, update)| (uuid, update))).collect()
}

fn requests(requests: &str, version: MonitorVersion) -> MonitorTable {
    let text = TextBuf::parse(requests.as_bytes().to_vec()).unwrap();
    let mut reader = Reader::new(text.as_text());
    let requests =
        MonitorRequests::decode(&mut reader, &schema(), version, &mut StringCache::default());
    requests.unwrap().tables.remove(&T).unwrap()
}

/// Returns successive states of the table.
fn states() -> Vec<Rows> {
    let mut rows = BTreeMap::new();
    let mut states = vec![Rows::new()];
    for (last, body) in [
        (2, r#"{"name": "b", "i": 5, "set": ["set", ["x"]]}"#),
        (1, r#"{"name": "a"}"#),
        (1, r#"{"name": "aa"}"#),
        (1, r#"{"name": "aa", "i": 4}"#),
        (
            1,
            r#"{"name": "aa", "i": 4, "set": ["set", ["x", "y"]], "m": ["map", [["k", "v"], ["l", "w"]]]}"#,
        ),
        (1, r#"{"name": "aa", "i": 4, "set": ["set", ["y"]], "m": ["map", [["l", "w"]]]}"#),
        (2, r#"{"name": "b", "i": 6, "set": ["set", ["x"]]}"#),
        (2, r#"{"name": "b", "set": ["set", ["x"]]}"#),
        (4, "{}"),
        (3, r#"{"i": 9}"#),
    ] {
        let update = format!(r#"{{"T": {{"{}": {{"new": {body}}}}}}}"#, uuid(last));
        let [(_, RowUpdate::Insert(row))] = &read(&update, MonitorVersion::V1).unwrap()[..] else {
            panic!("a new row is an insert")
        };
        rows.insert(uuid(last), row.clone());
        states.push(rows.clone());
    }
    rows.retain(|uuid, _| *uuid > self::uuid(2));
    states.push(rows);
    // The first two rows are inserted together, and so are the last two.
    states.remove(9);
    states.remove(1);
    states
}

/// Returns the update of a monitor for the change between two states; empty if there is none.
fn encode_update(
    requests: &MonitorTable,
    version: MonitorVersion,
    old: &Rows,
    new: &Rows,
    initial: bool,
) -> String {
    let schema = schema();
    let uuids: std::collections::BTreeSet<Uuid> = old.keys().chain(new.keys()).copied().collect();
    let mut rows = Vec::new();
    for uuid in uuids {
        let row = |rows: &Rows| rows.get(&uuid).cloned();
        let (old, new) = (row(old), row(new));
        let Some(mut event) = requests.event(old.as_deref(), new.as_deref()) else {
            continue;
        };
        if let (true, RowEvent::Insert(row)) = (initial, event) {
            event = RowEvent::Initial(row);
        }
        let mut out = Vec::new();
        if requests.write_event(event, schema.table(T), version, &mut out) {
            rows.push((uuid.to_string().into_bytes(), Json::parse(&out).unwrap()));
        } else {
            assert!(out.is_empty());
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let update = Json::object([("T", Json::Object(rows.into_iter().collect()))]);
    update.to_text().replace("00000000-0000-4000-8000-00000000000", "#")
}

/// Checks that the updates of a monitor equal the recorded ones, and that decoding them gives the
/// states.
fn check(request: &str, version: MonitorVersion, recorded: [&str; 9]) {
    let requests = requests(request, version);
    let mut replica = Rows::new();
    for (step, (states, expected)) in states().windows(2).zip(recorded).enumerate() {
        let update = encode_update(&requests, version, &states[0], &states[1], step == 0);
        assert_eq!(update, expected, "step {step} of {request}");
        let updates = update.replace('#', "00000000-0000-4000-8000-00000000000");
        for (uuid, update) in
            read(if updates.is_empty() { "{}" } else { &updates }, version).unwrap()
        {
            let schema = schema();
            match update.apply(schema.table(T), uuid, replica.get(&uuid)).unwrap() {
                Some(row) => replica.insert(uuid, row),
                None => replica.remove(&uuid),
            };
        }
        let monitored = states[1].values().filter(|row| requests.condition.matches_any(row));
        assert!(
            replica.keys().eq(monitored.clone().map(|row| &row.uuid)),
            "step {step} of {request}"
        );
        for row in monitored {
            for (column, _) in requests.columns.iter().filter(|(_, select)| select.modify) {
                assert_eq!(
                    replica[&row.uuid].get(*column),
                    row.get(*column),
                    "step {step} of {request}"
                );
            }
        }
    }
}

#[test]
fn update_contains_old_and_new_values() {
    check(
        r#"{"T":{"columns":["name","i","set","m"]}}"#,
        MonitorVersion::V1,
        [
            r##"{"T":{"#1":{"new":{"i":0,"m":["map",[]],"name":"a","set":["set",[]]}},"#2":{"new":{"i":5,"m":["map",[]],"name":"b","set":"x"}}}}"##,
            r##"{"T":{"#1":{"new":{"i":0,"m":["map",[]],"name":"aa","set":["set",[]]},"old":{"name":"a"}}}}"##,
            r##"{"T":{"#1":{"new":{"i":4,"m":["map",[]],"name":"aa","set":["set",[]]},"old":{"i":0}}}}"##,
            r##"{"T":{"#1":{"new":{"i":4,"m":["map",[["k","v"],["l","w"]]],"name":"aa","set":["set",["x","y"]]},"old":{"m":["map",[]],"set":["set",[]]}}}}"##,
            r##"{"T":{"#1":{"new":{"i":4,"m":["map",[["l","w"]]],"name":"aa","set":"y"},"old":{"m":["map",[["k","v"],["l","w"]]],"set":["set",["x","y"]]}}}}"##,
            r##"{"T":{"#2":{"new":{"i":6,"m":["map",[]],"name":"b","set":"x"},"old":{"i":5}}}}"##,
            r##"{"T":{"#2":{"new":{"i":0,"m":["map",[]],"name":"b","set":"x"},"old":{"i":6}}}}"##,
            r##"{"T":{"#3":{"new":{"i":9,"m":["map",[]],"name":"","set":["set",[]]}},"#4":{"new":{"i":0,"m":["map",[]],"name":"","set":["set",[]]}}}}"##,
            r##"{"T":{"#1":{"old":{"i":4,"m":["map",[["l","w"]]],"name":"aa","set":"y"}},"#2":{"old":{"i":0,"m":["map",[]],"name":"b","set":"x"}}}}"##,
        ],
    );
}

#[test]
fn update2_omits_defaults_and_contains_differences() {
    check(
        r#"{"T":{"columns":["name","i","set","m"]}}"#,
        MonitorVersion::V2,
        [
            r##"{"T":{"#1":{"initial":{"name":"a"}},"#2":{"initial":{"i":5,"name":"b","set":"x"}}}}"##,
            r##"{"T":{"#1":{"modify":{"name":"aa"}}}}"##,
            r##"{"T":{"#1":{"modify":{"i":4}}}}"##,
            r##"{"T":{"#1":{"modify":{"m":["map",[["k","v"],["l","w"]]],"set":["set",["x","y"]]}}}}"##,
            r##"{"T":{"#1":{"modify":{"m":["map",[["k","v"]]],"set":"x"}}}}"##,
            r##"{"T":{"#2":{"modify":{"i":6}}}}"##,
            r##"{"T":{"#2":{"modify":{"i":0}}}}"##,
            r##"{"T":{"#3":{"insert":{"i":9}},"#4":{"insert":{}}}}"##,
            r##"{"T":{"#1":{"delete":null},"#2":{"delete":null}}}"##,
        ],
    );
}

#[test]
fn a_change_of_a_column_that_is_not_selected_is_an_event() {
    let request = r#"{"T":[{"columns":["name"],"select":{"modify":false}},{"columns":["i"]}]}"#;
    check(
        request,
        MonitorVersion::V2,
        [
            r##"{"T":{"#1":{"initial":{"name":"a"}},"#2":{"initial":{"i":5,"name":"b"}}}}"##,
            r##"{"T":{"#1":{"modify":{}}}}"##,
            r##"{"T":{"#1":{"modify":{"i":4}}}}"##,
            "",
            "",
            r##"{"T":{"#2":{"modify":{"i":6}}}}"##,
            r##"{"T":{"#2":{"modify":{"i":0}}}}"##,
            r##"{"T":{"#3":{"insert":{"i":9}},"#4":{"insert":{}}}}"##,
            r##"{"T":{"#1":{"delete":null},"#2":{"delete":null}}}"##,
        ],
    );
    check(
        request,
        MonitorVersion::V1,
        [
            r##"{"T":{"#1":{"new":{"i":0,"name":"a"}},"#2":{"new":{"i":5,"name":"b"}}}}"##,
            r##"{"T":{"#1":{"new":{"i":0},"old":{}}}}"##,
            r##"{"T":{"#1":{"new":{"i":4},"old":{"i":0}}}}"##,
            "",
            "",
            r##"{"T":{"#2":{"new":{"i":6},"old":{"i":5}}}}"##,
            r##"{"T":{"#2":{"new":{"i":0},"old":{"i":6}}}}"##,
            r##"{"T":{"#3":{"new":{"i":9,"name":""}},"#4":{"new":{"i":0,"name":""}}}}"##,
            r##"{"T":{"#1":{"old":{"i":4,"name":"aa"}},"#2":{"old":{"i":0,"name":"b"}}}}"##,
        ],
    );
}

#[test]
fn rows_that_begin_or_cease_to_satisfy_the_condition_are_inserted_or_deleted() {
    check(
        r#"{"T":{"columns":["set"],"where":[["i",">",3]]}}"#,
        MonitorVersion::V2,
        [
            r##"{"T":{"#2":{"initial":{"set":"x"}}}}"##,
            "",
            r##"{"T":{"#1":{"insert":{}}}}"##,
            r##"{"T":{"#1":{"modify":{"set":["set",["x","y"]]}}}}"##,
            r##"{"T":{"#1":{"modify":{"set":"x"}}}}"##,
            r##"{"T":{"#2":{"modify":{}}}}"##,
            r##"{"T":{"#2":{"delete":null}}}"##,
            r##"{"T":{"#3":{"insert":{}}}}"##,
            r##"{"T":{"#1":{"delete":null}}}"##,
        ],
    );
    check(
        r#"{"T":{"columns":[],"where":[["i",">",3]]}}"#,
        MonitorVersion::V2,
        [
            r##"{"T":{"#2":{"initial":{}}}}"##,
            "",
            r##"{"T":{"#1":{"insert":{}}}}"##,
            "",
            "",
            r##"{"T":{"#2":{"modify":{}}}}"##,
            r##"{"T":{"#2":{"delete":null}}}"##,
            r##"{"T":{"#3":{"insert":{}}}}"##,
            r##"{"T":{"#1":{"delete":null}}}"##,
        ],
    );
}

#[test]
fn malformed_updates_are_errors() {
    let row = "00000000-0000-4000-8000-000000000001";
    let in_row = |update: &str| format!(r#"{{"T":{{"{row}":{update}}}}}"#);
    for (updates, version, error) in [
        ("[]".to_owned(), MonitorVersion::V2, "malformed update: it is not an object"),
        (r#"{"X":{}}"#.to_owned(), MonitorVersion::V2, "update of unknown table X"),
        (
            r#"{"T":[]}"#.to_owned(),
            MonitorVersion::V2,
            "malformed update of table T: it is not an object",
        ),
        (
            r#"{"T":{"x":{"delete":null}}}"#.to_owned(),
            MonitorVersion::V2,
            "malformed update of table T: a row's name is not a UUID",
        ),
        (
            in_row("{}"),
            MonitorVersion::V2,
            "malformed update of table T: a row update is not an object of one member",
        ),
        (
            in_row(r#"{"insert":{},"modify":{}}"#),
            MonitorVersion::V2,
            "malformed update of table T: a row update is not an object of one member",
        ),
        (
            in_row(r#"{"new":{}}"#),
            MonitorVersion::V2,
            "malformed update of table T: a row update has an unknown member",
        ),
        (
            in_row("{}"),
            MonitorVersion::V1,
            "malformed update of table T: a row update has neither old nor new",
        ),
        (
            in_row(r#"{"insert":5}"#),
            MonitorVersion::V2,
            "malformed update of table T: a row is not an object",
        ),
        (
            in_row(r#"{"insert":{"i":"five"}}"#),
            MonitorVersion::V2,
            "update of row 00000000-0000-4000-8000-000000000001 in table T: column i: syntax error: expected integer (in \"five\")",
        ),
    ] {
        assert_eq!(read(&updates, version).unwrap_err().to_string(), error, "{updates}");
    }
}

#[test]
fn an_update_that_contradicts_the_replica_is_an_error() {
    let (schema, row) = (schema(), uuid(1));
    let there = Arc::new(Row::new(row, schema.table(T)));
    let apply = |update, old| RowUpdate::apply(update, schema.table(T), row, old);
    assert!(apply(RowUpdate::Insert(there.clone()), Some(&there)).is_err());
    for update in [RowUpdate::Delete, RowUpdate::Modify(Vec::new()), RowUpdate::Update(Vec::new())]
    {
        assert!(matches!(apply(update, None), Err(UpdateError::Contradiction { .. })));
    }
    let same = apply(RowUpdate::Modify(Vec::new()), Some(&there)).unwrap().unwrap();
    assert!(Arc::ptr_eq(&same, &there));
}
