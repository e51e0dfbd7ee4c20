use patchbay_schemas::json::TextBuf;

use super::*;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{"name":{"type":"string"},
    "set":{"type":{"key":"string","min":0,"max":"unlimited"}}},"indexes":[["name"]]}}}"#;
const T: TableId = TableId(0);

fn schema() -> Arc<DatabaseSchema> {
    Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap())
}

fn uuid(last: u8) -> Uuid {
    format!("00000000-0000-4000-8000-00000000000{last}").parse().unwrap()
}

/// `updates` with `#1`, `#2` ... replaced by the UUIDs of the first, second ... row.
fn text(updates: &str) -> TextBuf {
    TextBuf::parse(updates.replace('#', "00000000-0000-4000-8000-00000000000").into_bytes())
        .unwrap()
}

fn replace(replica: &mut Replica, contents: &str) -> Result<ChangeSet, UpdateError> {
    replica.replace(
        &schema(),
        TableUpdates::whole(Reader::new(text(contents).as_text()), MonitorVersion::V2),
    )
}

fn filled(contents: &str) -> Replica {
    let mut replica =
        Replica::new(schema(), &[IndexSpec::new("T", ["name"]), IndexSpec::new("T", ["set[]"])]);
    replace(&mut replica, contents).unwrap();
    replica
}

#[test]
fn new_contents_change_only_what_differs() {
    let mut replica = filled(
        r##"{"T":{"#1":{"initial":{"name":"same"}},"#2":{"initial":{"name":"old"}},"#3":{"initial":{"name":"gone"}}}}"##,
    );
    let before = replica.snapshot().clone();
    let changes = replace(
        &mut replica,
        r##"{"T":{"#1":{"initial":{"name":"same"}},"#2":{"initial":{"name":"new"}},"#4":{"initial":{"name":"more"}}}}"##,
    )
    .unwrap();
    let mut changed: Vec<_> = changes.rows.iter().map(RowChange::uuid).collect();
    changed.sort();
    assert_eq!(changed, [uuid(2), uuid(3), uuid(4)]);

    let after = replica.snapshot();
    let row = |snapshot: &Snapshot, last| snapshot.row(T, uuid(last)).cloned();
    assert!(Arc::ptr_eq(&row(&before, 1).unwrap(), &row(after, 1).unwrap()));
    assert!(row(after, 3).is_none() && row(after, 4).is_some());
    // The former snapshot is unchanged.
    assert!(row(&before, 3).is_some() && row(&before, 4).is_none());
}

#[test]
fn malformed_contents_change_nothing() {
    let mut replica = filled(r##"{"T":{"#1":{"initial":{"name":"a"}}}}"##);
    for contents in [
        r##"{"T":{"#2":{"initial":{"name":"b"}},"#3":{"initial":{"name":5}}}}"##,
        r##"{"T":{"#2":{"initial":{"name":"b"}},"#1":{"modify":{"name":"c"}}}}"##,
        r##"{"T":{"#2":{"initial":{"name":"b"}}},"X":{}}"##,
    ] {
        assert!(replace(&mut replica, contents).is_err(), "{contents}");
        assert_eq!(replica.snapshot().row_count(), 1);
        assert!(replica.snapshot().row(T, uuid(1)).is_some());
    }
    let update = text(r##"{"T":{"#2":{"insert":{"name":"b"}},"#3":{"delete":null}}}"##);
    assert!(
        replica
            .apply(TableUpdates::whole(Reader::new(update.as_text()), MonitorVersion::V2))
            .is_err()
    );
    assert_eq!(replica.snapshot().row_count(), 1);
}

#[test]
fn contents_with_a_duplicate_row_change_nothing() {
    let twice = r##"{"T":{"#1":{"initial":{"name":"a"}},"#2":{"initial":{"name":"b"}},"#1":{"initial":{"name":"c"}}}}"##;
    let mut replica = Replica::new(schema(), &[IndexSpec::new("T", ["name"])]);
    assert!(replace(&mut replica, twice).is_err());
    assert_eq!(replica.snapshot().row_count(), 0);
    // Also for rows that existed before, and after a change of the schema.
    let mut replica = filled(r##"{"T":{"#1":{"initial":{"name":"a"}}}}"##);
    assert!(replace(&mut replica, twice).is_err());
    let newer = SCHEMA.replace("1.0.0", "1.1.0");
    let newer = Arc::new(DatabaseSchema::parse(newer.as_bytes()).unwrap());
    let contents = text(twice);
    let contents = TableUpdates::whole(Reader::new(contents.as_text()), MonitorVersion::V2);
    assert!(replica.replace(&newer, contents).is_err());
    for update in [
        r##"{"T":{"#1":{"modify":{"name":"b"}},"#1":{"modify":{"name":"c"}}}}"##,
        r##"{"T":{"#1":{"delete":null},"#1":{"modify":{"name":"c"}}}}"##,
        r##"{"T":{"#2":{"insert":{"name":"b"}},"#2":{"insert":{"name":"c"}}}}"##,
    ] {
        let text = text(update);
        let update = TableUpdates::whole(Reader::new(text.as_text()), MonitorVersion::V2);
        assert!(replica.apply(update).is_err());
    }
    let snapshot = replica.snapshot();
    assert_eq!(snapshot.row_count(), 1);
    let by_name = IndexSpec::new("T", ["name"]);
    let by_name = snapshot.index(&by_name).unwrap();
    assert_eq!(by_name.key_count(), 1);
    assert_eq!(by_name.one("a").unwrap().unwrap().uuid, uuid(1));
}

#[test]
fn another_schema_replaces_all_rows() {
    let mut replica = filled(r##"{"T":{"#1":{"initial":{"name":"a"}}}}"##);
    let newer = SCHEMA.replace("1.0.0", "1.1.0").replace("\"set\"", "\"list\"");
    let newer = Arc::new(DatabaseSchema::parse(newer.as_bytes()).unwrap());
    let contents = text(r##"{"T":{"#1":{"initial":{"name":"a"}}}}"##);
    let changes = replica
        .replace(&newer, TableUpdates::whole(Reader::new(contents.as_text()), MonitorVersion::V2))
        .unwrap();
    assert_eq!(changes.rows.len(), 1);
    assert!(Arc::ptr_eq(replica.snapshot().schema(), &newer));
    assert_eq!(replica.snapshot().row_count(), 1);
}

#[test]
fn indexes_follow_updates() {
    let mut replica =
        filled(r##"{"T":{"#1":{"initial":{"name":"a"}},"#2":{"initial":{"name":"b"}}}}"##);
    let swap = text(r##"{"T":{"#1":{"modify":{"name":"b"}},"#2":{"modify":{"name":"a"}}}}"##);
    replica.apply(TableUpdates::whole(Reader::new(swap.as_text()), MonitorVersion::V2)).unwrap();
    let table = replica.snapshot().table(T);
    let found =
        |name: &str| table.find(0, &[patchbay_schemas::datum::Datum::scalar(name)]).unwrap().uuid;
    assert_eq!((found("a"), found("b")), (uuid(2), uuid(1)));
}

#[test]
fn an_update_without_a_difference_changes_no_row() {
    let mut replica = filled(r##"{"T":{"#1":{"initial":{"name":"a"}}}}"##);
    let update = text(r##"{"T":{"#1":{"modify":{}}}}"##);
    let changes = replica
        .apply(TableUpdates::whole(Reader::new(update.as_text()), MonitorVersion::V2))
        .unwrap();
    assert!(changes.rows.is_empty());
}

#[test]
fn declared_indexes_follow_updates_and_new_schemas() {
    let by_name = IndexSpec::new("T", ["name"]);
    let by_element = IndexSpec::new("T", ["set[]"]);
    let mut replica = filled(r##"{"T":{"#1":{"initial":{"name":"a","set":["set",["x","y"]]}}}}"##);
    let found = |replica: &Replica, index: &IndexSpec, key: &str| -> Vec<Uuid> {
        let index = replica.snapshot().index(index).unwrap();
        index.all(key).map(|row| row.uuid).collect()
    };
    let update = text(
        r##"{"T":{"#1":{"modify":{"set":["set",["x","z"]]}},"#2":{"insert":{"name":"a","set":"y"}}}}"##,
    );
    replica.apply(TableUpdates::whole(Reader::new(update.as_text()), MonitorVersion::V2)).unwrap();
    assert_eq!(found(&replica, &by_name, "a"), [uuid(1), uuid(2)]);
    assert!(found(&replica, &by_element, "x").is_empty());
    assert_eq!(found(&replica, &by_element, "y"), [uuid(1), uuid(2)]);
    assert_eq!(found(&replica, &by_element, "z"), [uuid(1)]);

    let newer = SCHEMA.replace("1.0.0", "1.1.0");
    let newer = Arc::new(DatabaseSchema::parse(newer.as_bytes()).unwrap());
    let contents = text(r##"{"T":{"#2":{"initial":{"name":"b"}}}}"##);
    replica
        .replace(&newer, TableUpdates::whole(Reader::new(contents.as_text()), MonitorVersion::V2))
        .unwrap();
    assert!(found(&replica, &by_name, "a").is_empty());
    assert_eq!(found(&replica, &by_name, "b"), [uuid(2)]);
}

#[test]
fn an_unknown_column_is_logged_once_per_connection() {
    let mut replica = filled("{}");
    let update = |replica: &mut Replica, row: u8| {
        let update = format!(r##"{{"T":{{"#{row}":{{"insert":{{"later":1}}}}}}}}"##);
        let text = text(&update);
        let updates = TableUpdates::whole(Reader::new(text.as_text()), MonitorVersion::V2);
        replica.apply(updates).unwrap();
        replica.unknown_columns.logged()
    };
    assert_eq!(update(&mut replica, 1), 1);
    assert_eq!(update(&mut replica, 2), 1);
    replace(&mut replica, "{}").unwrap();
    assert_eq!(replica.unknown_columns.logged(), 0);
}
