//! Rules of transactions and commits, tested with requests, their results and the committed rows.

use std::sync::Arc;

use patchbay_engine::db::{Access, Database, Execution, IndexSpec, OperationResult};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::nb::{self, LogicalRouter};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{InsertRow, Operation, decode_transaction};
use uuid::Uuid;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{
  "Root":{"isRoot":true,"indexes":[["name"]],"columns":{
    "name":{"type":"string"},
    "number":{"type":{"key":{"type":"integer","minInteger":0,"maxInteger":99}}},
    "strong":{"type":{"key":{"type":"uuid","refTable":"Child"},"min":0,"max":"unlimited"}},
    "weak":{"type":{"key":{"type":"uuid","refTable":"Child","refType":"weak"},"min":0,"max":"unlimited"}},
    "named":{"type":{"key":"string","value":{"type":"uuid","refTable":"Child","refType":"weak"},"min":0,"max":"unlimited"}},
    "fixed":{"type":"string","mutable":false}}},
  "Child":{"maxRows":3,"columns":{
    "label":{"type":"string"},
    "next":{"type":{"key":{"type":"uuid","refTable":"Child"},"min":0}}}},
  "Need":{"isRoot":true,"columns":{
    "one":{"type":{"key":{"type":"uuid","refTable":"Child","refType":"weak"}}}}}}}"#;

/// A database and the UUIDs of the rows that requests insert.
struct TestDatabase {
    inner: Database,
    uuids: UuidSource,
}

impl TestDatabase {
    fn new() -> Self {
        Self::with_schema(SCHEMA)
    }

    fn with_schema(schema: &str) -> Self {
        let schema = Arc::new(DatabaseSchema::parse(schema.as_bytes()).unwrap());
        Self { inner: Database::new(schema), uuids: UuidSource::seeded(1) }
    }

    /// Executes operations in JSON notation, separated by commas.
    fn execute(&mut self, operations: &str) -> Execution {
        self.execute_with(operations, &Access::unrestricted())
    }

    fn execute_with(&mut self, operations: &str, access: &Access<'_>) -> Execution {
        let text = TextBuf::parse(format!("[\"D\",{operations}]").into_bytes()).unwrap();
        let mut reader = Reader::new(text.as_text());
        assert!(reader.enter_array() && reader.next_element());
        reader.skip();
        let schema = self.inner.schema().clone();
        let mut decoded =
            decode_transaction(reader, &schema, &mut StringCache::default(), &mut self.uuids);
        self.inner.execute(&mut decoded, access)
    }

    /// Results of operations that must succeed.
    fn commit(&mut self, operations: &str) -> Vec<OperationResult> {
        match self.execute(operations) {
            Execution::Committed { results, .. } => results,
            other => panic!("{operations}: {other:?}"),
        }
    }

    /// Error of operations that must fail.
    fn error(&mut self, operations: &str) -> String {
        match self.execute(operations) {
            Execution::Failed { error, .. } => error.to_string(),
            other => panic!("{operations}: {other:?}"),
        }
    }

    /// Number of rows of a table.
    fn count(&self, table: &str) -> usize {
        let snapshot = self.inner.snapshot();
        snapshot.table(snapshot.schema().table_id(table).unwrap()).len()
    }
}

const INSERT_PAIR: &str = r#"{"op":"insert","table":"Root","row":{"name":"r","strong":["named-uuid","c"],"weak":["named-uuid","c"],"named":["map",[["k",["named-uuid","c"]]]]}},
  {"op":"insert","table":"Child","uuid-name":"c","row":{"label":"c"}}"#;

#[test]
fn a_row_of_a_non_root_table_exists_while_rows_refer_to_it() {
    let mut database = TestDatabase::new();
    database.commit(r#"{"op":"insert","table":"Child","row":{}}"#);
    assert_eq!(database.count("Child"), 0, "no row refers to it");
    database.commit(INSERT_PAIR);
    assert_eq!(database.count("Child"), 1);
    let error = database.error(r#"{"op":"delete","table":"Child","where":[]}"#);
    assert!(error.contains("because of 1 remaining reference(s)"), "{error}");
    database.commit(r#"{"op":"update","table":"Root","where":[],"row":{"strong":["set",[]]}}"#);
    assert_eq!(database.count("Child"), 0);
    let OperationResult::Rows(selected) =
        &database.commit(r#"{"op":"select","table":"Root","where":[["weak","==",["set",[]]],["named","==",["map",[]]]]}"#)[0]
    else {
        panic!()
    };
    assert_eq!(selected.rows.len(), 1, "weak references are removed with the child");
}

#[test]
fn a_condition_on_a_unique_index_follows_the_operations_before_it() {
    let mut database = TestDatabase::new();
    database.commit(
        r#"{"op":"insert","table":"Root","row":{"name":"a","number":1}},
           {"op":"insert","table":"Root","row":{"name":"b","number":2}}"#,
    );
    let named = |name: &str, number: u8| {
        format!(
            r#"{{"op":"update","table":"Root","where":[["name","==","{name}"],["number","==",{number}]],"row":{{"number":{number}}}}}"#
        )
    };
    let rename = |from: &str, to: &str| {
        format!(
            r#"{{"op":"update","table":"Root","where":[["name","==","{from}"]],"row":{{"name":"{to}"}}}}"#
        )
    };
    let insert = r#"{"op":"insert","table":"Root","row":{"name":"d","number":4}}"#.to_owned();
    let delete = r#"{"op":"delete","table":"Root","where":[["name","==","b"]]}"#.to_owned();
    let steps = [
        (named("a", 1), 1),
        (named("a", 2), 0),
        (named("c", 1), 0),
        (rename("a", "c"), 1),
        (named("a", 1), 0),
        (named("c", 1), 1),
        (insert, 0),
        (named("d", 4), 1),
        (delete.clone(), 1),
        (delete, 0),
        (named("b", 2), 0),
        // Two rows have the name until the second is renamed.
        (rename("d", "c"), 1),
        (rename("c", "e"), 2),
        (named("e", 4), 1),
        (
            r#"{"op":"delete","table":"Root","where":[["name","==","e"],["number","==",1]]}"#
                .to_owned(),
            1,
        ),
    ];
    let operations: Vec<&str> = steps.iter().map(|(text, _)| text.as_str()).collect();
    let results = database.commit(&operations.join(","));
    for ((operation, wanted), result) in steps.iter().zip(&results) {
        if let OperationResult::Count(count) = result {
            assert_eq!(count, wanted, "{operation}");
        }
    }
    assert_eq!(database.count("Root"), 1);
    database.commit(&rename("e", "f"));
    assert!(
        database.error(&format!("{},{}", named("f", 4), r#"{"op":"abort"}"#)).contains("aborted")
    );
}

#[test]
fn chains_of_references_are_collected_and_cycles_are_not() {
    let mut database = TestDatabase::new();
    database.commit(
        r#"{"op":"insert","table":"Root","row":{"name":"r","strong":["named-uuid","a"]}},
           {"op":"insert","table":"Child","uuid-name":"a","row":{"next":["named-uuid","b"]}},
           {"op":"insert","table":"Child","uuid-name":"b","row":{}}"#,
    );
    assert_eq!(database.count("Child"), 2);
    database.commit(r#"{"op":"delete","table":"Root","where":[]}"#);
    assert_eq!(database.count("Child"), 0);
    database.commit(
        r#"{"op":"insert","table":"Child","uuid-name":"me","row":{"next":["named-uuid","me"]}}"#,
    );
    assert_eq!(database.count("Child"), 0, "a reference to itself does not count");
    database.commit(
        r#"{"op":"insert","table":"Child","uuid-name":"x","row":{"next":["named-uuid","y"]}},
           {"op":"insert","table":"Child","uuid-name":"y","row":{"next":["named-uuid","x"]}}"#,
    );
    assert_eq!(database.count("Child"), 2);
}

#[test]
fn strong_references_need_an_existing_target() {
    let mut database = TestDatabase::new();
    let error = database.error(
        r#"{"op":"insert","table":"Root","row":{"name":"r","strong":["named-uuid","unknown"]}}"#,
    );
    assert!(
        error.contains("references nonexistent row") && error.contains("in table Child."),
        "{error}"
    );
    assert_eq!(database.count("Root"), 0);
}

#[test]
fn removing_a_required_weak_reference_fails() {
    let mut database = TestDatabase::new();
    let error = database.error(r#"{"op":"insert","table":"Need","row":{}}"#);
    assert!(error.contains("constraint volation"), "{error}");
    let error =
        database.error(r#"{"op":"insert","table":"Need","row":{"one":["named-uuid","unknown"]}}"#);
    assert!(error.contains("Deletion of 1 weak reference(s)"), "{error}");
}

#[test]
fn row_limits_are_checked_after_garbage_collection() {
    let mut database = TestDatabase::new();
    let child = r#"{"op":"insert","table":"Child","row":{}}"#;
    database.commit(&[child; 5].join(","));
    let keep: Vec<String> = (0..4).map(|i| format!(r#"["named-uuid","c{i}"]"#)).collect();
    let children: Vec<String> = (0..4)
        .map(|i| format!(r#"{{"op":"insert","table":"Child","uuid-name":"c{i}","row":{{}}}}"#))
        .collect();
    let root = format!(
        r#"{{"op":"insert","table":"Root","row":{{"name":"r","strong":["set",[{}]]}}}}"#,
        keep.join(",")
    );
    let error = database.error(&format!("{root},{}", children.join(",")));
    assert!(
        error.contains("to contain 4 rows, greater than the schema-defined limit of 3 row(s)"),
        "{error}"
    );
}

#[test]
fn unique_values_can_be_swapped_but_not_shared() {
    let mut database = TestDatabase::new();
    database.commit(
        r#"{"op":"insert","table":"Root","row":{"name":"a","number":1}},{"op":"insert","table":"Root","row":{"name":"b","number":2}}"#,
    );
    let error = database.error(r#"{"op":"insert","table":"Root","row":{"name":"a"}}"#);
    assert!(error.contains("identical values (a) for index on column \"name\""), "{error}");
    assert!(error.contains("was inserted by this transaction."), "{error}");
    database.commit(
        r#"{"op":"update","table":"Root","where":[["number","==",1]],"row":{"name":"b"}},
           {"op":"update","table":"Root","where":[["number","==",2]],"row":{"name":"a"}}"#,
    );
    let snapshot = database.inner.snapshot();
    let (id, table) = snapshot.schema().table_by_name("Root").unwrap();
    for (name, number) in [("a", 2), ("b", 1)] {
        let row = snapshot.table(id).find(0, &[Datum::scalar(name)]).unwrap();
        assert_eq!(
            row.get(table.column_id("number").unwrap()).as_scalar().unwrap().as_integer(),
            Some(number)
        );
    }
    database
        .commit(r#"{"op":"update","table":"Root","where":[["name","==","a"]],"row":{"name":"c"}}"#);
    database.commit(r#"{"op":"insert","table":"Root","row":{"name":"a"}}"#);
}

#[test]
fn a_failed_operation_leaves_no_changes() {
    let mut database = TestDatabase::new();
    let execution = database.execute(
        r#"{"op":"insert","table":"Root","row":{"name":"a"}},{"op":"update","table":"Root","where":[],"row":{"fixed":"x"}},{"op":"comment","comment":""}"#,
    );
    let Execution::Failed { results, error } = execution else { panic!("{execution:?}") };
    assert_eq!(results.len(), 1);
    assert_eq!(
        error.details.as_deref(),
        Some("Cannot update immutable column fixed in table Root.")
    );
    assert_eq!(database.count("Root"), 0);
}

#[test]
fn mutations_with_invalid_arguments_or_results_fail() {
    let mut database = TestDatabase::new();
    database.commit(r#"{"op":"insert","table":"Root","row":{"name":"a","number":98}}"#);
    database.commit(r#"{"op":"mutate","table":"Root","where":[],"mutations":[["number","+=",1]]}"#);
    for (mutation, expected) in [
        (r#"["number","+=",1]"#, "100 is not in the valid range 0 to 99 (inclusive)"),
        (r#"["number","/=",0]"#, "Division by zero."),
        (r#"["number","*=",9223372036854775807]"#, "Result of \"*=\" operation is out of range."),
        (
            r#"["name","insert","x"]"#,
            "Type mismatch: \"insert\" operator may not be applied to column name of type string.",
        ),
        (r#"["number","insert"]"#, "Parse error in mutation."),
        (r#"["number","**=",1]"#, "No mutator named **=."),
    ] {
        let error = database.error(&format!(
            r#"{{"op":"mutate","table":"Root","where":[],"mutations":[{mutation}]}}"#
        ));
        assert!(error.contains(expected), "{mutation}: {error}");
    }
}

#[test]
fn syntax_errors_name_the_operation() {
    let mut database = TestDatabase::new();
    for (operations, error) in [
        ("5", "syntax error: Parsing ovsdb operation 1 of 1 failed: Object expected."),
        (
            r#"{"op":"comment","comment":""},{"op":"nope"}"#,
            "syntax error: Parsing ovsdb operation 2 of 2 failed: No operation \"nope\" (in {\"op\":\"nope\"})",
        ),
        (
            r#"{"op":"delete","table":"Root"}"#,
            "syntax error: Parsing ovsdb operation 1 of 1 failed: Required 'where' member is missing. (in {\"op\":\"delete\",\"table\":\"Root\"})",
        ),
        (
            r#"{"op":"abort","x":1}"#,
            "syntax error: Parsing ovsdb operation 1 of 1 failed: Member 'x' is present but not allowed here. (in {\"op\":\"abort\",\"x\":1})",
        ),
    ] {
        assert_eq!(database.error(operations), error);
    }
}

#[test]
fn an_unsatisfied_wait_waits_or_times_out() {
    let mut database = TestDatabase::new();
    let wait = |timeout: &str| {
        format!(
            r#"{{"op":"wait","table":"Root",{timeout}"where":[],"columns":["name"],"until":"==","rows":[{{"name":"a"}}]}}"#
        )
    };
    assert!(database.error(&wait("\"timeout\":0,")).contains("\"where\" clause test failed"));
    assert!(matches!(database.execute(&wait("")), Execution::Waiting { deadline_ms: None }));
    assert!(matches!(
        database.execute(&wait("\"timeout\":7,")),
        Execution::Waiting { deadline_ms: Some(7) }
    ));
    database.commit(r#"{"op":"insert","table":"Root","row":{"name":"a"}}"#);
    database.commit(&wait("\"timeout\":0,"));
}

#[test]
fn a_snapshot_never_changes() {
    let mut database = TestDatabase::new();
    database.commit(INSERT_PAIR);
    let before = database.inner.snapshot();
    database.commit(r#"{"op":"delete","table":"Root","where":[]}"#);
    assert_eq!(before.row_count(), 2);
    assert_eq!(database.inner.snapshot().row_count(), 0);
}

/// Searching the whole map for each removed reference would take minutes.
#[test]
fn a_map_loses_20_000_weak_references_in_one_transaction() {
    const ROWS: usize = 20_000;
    let mut database = TestDatabase::with_schema(
        r#"{"name":"D","tables":{
          "Map":{"columns":{
            "named":{"type":{"key":"integer","value":{"type":"uuid","refTable":"Row","refType":"weak"},"min":0,"max":"unlimited"}}}},
          "Row":{"columns":{"number":{"type":"integer"}}}}}"#,
    );
    let insert = |i| {
        format!(r#"{{"op":"insert","table":"Row","uuid-name":"r{i}","row":{{"number":{i}}}}},"#)
    };
    let pairs: Vec<String> = (0..ROWS).map(|i| format!(r#"[{i},["named-uuid","r{i}"]]"#)).collect();
    let inserts: String = (0..ROWS).map(insert).collect();
    let map = format!(
        r#"{{"op":"insert","table":"Map","row":{{"named":["map",[{}]]}}}}"#,
        pairs.join(",")
    );
    database.commit(&format!("{inserts}{map}"));
    let start = std::time::Instant::now();
    database.commit(r#"{"op":"delete","table":"Row","where":[["number","!=",7]]}"#);
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(database.count("Row"), 1);
    let left = database.commit(r#"{"op":"select","table":"Map","where":[],"columns":["named"]}"#);
    let OperationResult::Rows(selected) = &left[0] else { panic!("{left:?}") };
    assert_eq!(selected.rows[0].values.iter().next().unwrap().len(), 1);
}

/// Otherwise the count of the row would include a reference that no longer exists, and the row
/// could not be deleted.
#[test]
fn removing_a_pair_with_its_weak_key_releases_its_strong_value() {
    let mut database = TestDatabase::with_schema(
        r#"{"name":"D","tables":{
          "Root":{"isRoot":true,"columns":{
            "pairs":{"type":{"key":{"type":"uuid","refTable":"Key","refType":"weak"},
                             "value":{"type":"uuid","refTable":"Value"},"min":0,"max":"unlimited"}},
            "strong":{"type":{"key":{"type":"uuid","refTable":"Value"},"min":0,"max":"unlimited"}}}},
          "Key":{"isRoot":true,"columns":{"i":{"type":"integer"}}},
          "Value":{"columns":{"i":{"type":"integer"}}}}}"#,
    );
    database.commit(r#"{"op":"insert","table":"Key","uuid-name":"k","row":{}},
        {"op":"insert","table":"Value","uuid-name":"kept","row":{"i":1}},
        {"op":"insert","table":"Value","uuid-name":"lost","row":{"i":2}},
        {"op":"insert","table":"Value","uuid-name":"never","row":{"i":3}},
        {"op":"insert","table":"Root","row":{
          "pairs":["map",[[["named-uuid","k"],["named-uuid","lost"]],[["named-uuid","nothing"],["named-uuid","never"]]]]}},
        {"op":"insert","table":"Root","row":{
          "pairs":["map",[[["named-uuid","k"],["named-uuid","kept"]]]],"strong":["named-uuid","kept"]}}"#);
    assert_eq!(database.count("Value"), 2);
    database.commit(r#"{"op":"delete","table":"Key","where":[]}"#);
    assert_eq!(database.count("Value"), 1);
    database.commit(r#"{"op":"update","table":"Root","where":[],"row":{"strong":["set",[]]}}"#);
    assert_eq!(database.count("Value"), 0);
}

#[test]
fn a_uuid_that_a_seed_yields_twice_is_refused() {
    let mut database = Database::new(nb::schema());
    let mut insert = |name: &str| {
        let mut txn = TxnBuilder::with_uuids(&database.snapshot(), UuidSource::seeded(1));
        let router = LogicalRouter { name: name.into(), ..Default::default() };
        txn.insert(&router).unwrap();
        database.transact(txn.finish().operations())
    };
    insert("one").unwrap();
    let error = insert("other").unwrap_err().to_string();
    assert!(error.starts_with("operation 0 (insert): duplicate uuid"), "{error}");
    let snapshot = database.snapshot();
    let names: Vec<_> = snapshot.typed::<LogicalRouter>().iter().collect();
    assert_eq!(names[0].as_ref().unwrap().1.name, "one");
}

#[test]
fn an_index_violation_names_the_greater_row_first() {
    let schema = Arc::new(
        DatabaseSchema::parse(
            r#"{"name":"D","tables":{"ordinals":{"isRoot":true,"indexes":[["number"]],"columns":{
        "name":{"type":"string"},"number":{"type":"integer"}}}}}"#
                .as_bytes(),
        )
        .unwrap(),
    );
    let (table, ordinals) = schema.table_by_name("ordinals").unwrap();
    let column = |name| ordinals.column_id(name).unwrap();
    for names in [["one", "another"], ["another", "one"]] {
        let mut uuids = UuidSource::seeded(7);
        let rows = names.map(|name| (name, uuids.next_uuid()));
        let insert = |(name, uuid): &(&str, Uuid)| Operation::Insert {
            table,
            uuid: *uuid,
            given: None,
            row: InsertRow::new(
                ordinals,
                [(column("name"), Datum::scalar(*name)), (column("number"), Datum::scalar(1))],
            ),
        };
        let operations: Vec<Operation> = rows.iter().map(insert).collect();
        let error = Database::new(schema.clone()).transact(&operations).unwrap_err();
        let (_, first) = rows.iter().find(|(name, _)| *name == "one").unwrap();
        let named = format!("First row, with UUID {first},");
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[test]
fn a_copy_has_the_rows_and_indexes_of_its_snapshot() {
    let mut original = TestDatabase::new();
    original.commit(INSERT_PAIR);
    let by_label = IndexSpec::new("Child", ["label"]);
    original.inner.add_index(by_label.clone());
    let snapshot = original.inner.snapshot();
    let mut copy = TestDatabase {
        inner: Database::from_snapshot(&snapshot, UuidSource::seeded(2)).unwrap(),
        uuids: UuidSource::seeded(3),
    };
    for table in snapshot.schema().table_ids() {
        for row in snapshot.table(table).iter() {
            let copied = copy.inner.snapshot();
            assert_eq!(copied.row(table, row.uuid).unwrap().values, row.values);
        }
    }
    assert_eq!(copy.inner.snapshot().index(&by_label).unwrap().count("c"), 1);
    // The copy counts references: deleting the last one deletes the child.
    copy.commit(r#"{"op":"delete","table":"Root","where":[]}"#);
    assert_eq!((copy.count("Root"), copy.count("Child")), (0, 0));
    assert_eq!((original.count("Root"), original.count("Child")), (1, 1));
}

#[test]
fn the_rows_of_all_selects_of_a_transaction_are_bounded() {
    let mut database = TestDatabase::new();
    database.commit(r#"{"op":"insert","table":"Root","row":{"name":"r"}}"#);
    let access = Access { selected_bytes: 1000, ..Access::unrestricted() };
    // The text of a row has at least 57 bytes.
    let select = r#"{"op":"select","table":"Root","where":[],"columns":["_uuid"]}"#;
    let selects = vec![select; 100].join(",");
    let Execution::Failed { results, error } = database.execute_with(&selects, &access) else {
        panic!("they are too many")
    };
    assert_eq!(results.len(), 1000 / 56);
    assert_eq!(
        error.to_string(),
        "resources exhausted: the rows that a transaction selects may not have more than 1000 bytes together"
    );
    assert!(matches!(database.execute(&selects), Execution::Committed { .. }));
    // Each version that the transaction has made counts with its values.
    let update = r#"{"op":"update","table":"Root","where":[],"row":{"name":"s"}}"#;
    let steps = vec![[update, select].join(","); 10].join(",");
    let Execution::Failed { results, .. } = database.execute_with(&steps, &access) else {
        panic!("they are too many")
    };
    assert!(results.len() < 10, "{}", results.len());
}
