//! Assignment of files to databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ovsdb_sim::{FileError, Sim, SimBuilder};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::nb::LogicalRouter;
use patchbay_schemas::schema::DatabaseSchema;

/// A schema with one table.
fn schema(name: &str, column: &str) -> Arc<DatabaseSchema> {
    let text = format!(
        r#"{{"name":"{name}","tables":{{"T":{{"columns":{{"{column}":{{"type":"string"}}}}}}}}}}"#
    );
    Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap())
}

fn file(dir: &ScratchDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

/// Starts a simulator and ends it.
fn serve(builder: SimBuilder) {
    builder.build().unwrap();
}

fn error(builder: SimBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn a_journal_alone_is_for_the_default_database() {
    let dir = ScratchDir::new();
    let routers = |sim: &Sim| {
        let snapshot = sim.database("OVN_Northbound").unwrap().snapshot();
        snapshot.typed::<LogicalRouter>().len()
    };
    for already in 0..3 {
        let sim = Sim::builder().journal(file(&dir, "nb.db")).build().unwrap();
        assert_eq!(routers(&sim), already);
        let database = sim.database("OVN_Northbound").unwrap();
        let mut txn = TxnBuilder::new(&database.snapshot());
        let name = format!("lr{already}");
        txn.insert(&LogicalRouter { name, ..Default::default() }).unwrap();
        database.transact(&txn.finish()).unwrap();
    }
}

#[test]
fn a_new_journal_must_name_its_database_if_there_are_several() {
    let dir = ScratchDir::new();
    let two = || Sim::builder().schema(schema("A", "a")).schema(schema("B", "b"));
    let (a, b) = (file(&dir, "a.db"), file(&dir, "b.db"));
    assert!(error(two().journal(&a)).contains("name the database of journal"));
    assert!(error(two().journal_of("C", &a)).contains("there is no database C"));
    let found = error(two().journal_of("A", &a).journal_of("A", &b));
    assert!(found.contains("given two journals"), "{found}");
    assert!(found.ends_with("b.db"), "{found}");
    assert!(!a.exists() && !b.exists());
    serve(two().journal_of("A", &a).journal_of("B", &b));
    // Existing journals have their databases' names.
    serve(two().journal(&b).journal(&a));
    let sim = Sim::builder().journal(&b).journal_of("A", &a).build().unwrap();
    assert!(sim.database("A").is_some() && sim.database("B").is_some());
    drop(sim);
    assert!(error(two().journal_of("A", &b)).contains("b.db is of database B, not A"));
}

#[test]
fn another_schema_is_refused() {
    let dir = ScratchDir::new();
    let journal = file(&dir, "a.db");
    serve(Sim::builder().schema(schema("A", "a")).journal(&journal));
    serve(Sim::builder().schema(schema("A", "a")).journal(&journal));
    let other = Sim::builder().schema(schema("A", "b")).journal(&journal);
    assert!(error(other).contains("has another schema of A"));
}

#[test]
fn a_loaded_file_and_an_existing_journal_of_one_database_are_refused() {
    let dir = ScratchDir::new();
    let (one, two) = (file(&dir, "one.db"), file(&dir, "two.db"));
    for journal in [&one, &two] {
        serve(Sim::builder().schema(schema("A", "a")).journal(journal));
    }
    let found = error(Sim::builder().load(&one).journal(&two));
    assert!(found.contains("give only one of them"), "{found}");
    // The journal itself may also be loaded.
    serve(Sim::builder().load(&one).journal(dir.path().join(".").join("one.db")));
    let found = error(Sim::builder().load(&one).load(&two));
    assert!(found.contains("A: duplicate database name"), "{found}");
}

#[test]
fn a_journal_has_one_writer() {
    let dir = ScratchDir::new();
    let journal = file(&dir, "a.db");
    let begin = || Sim::builder().schema(schema("A", "a")).journal(&journal);
    let sim = begin().build().unwrap();
    let error = begin().build().unwrap_err();
    assert!(matches!(error.file_error(), Some(FileError::InUse { .. })), "{error}");
    drop(sim);
    serve(begin());
}

#[test]
fn a_journal_that_cannot_be_created_is_an_error() {
    let found = error(Sim::builder().journal(Path::new("/nowhere/nb.db")));
    assert!(found.starts_with("/nowhere/nb.db: ") && found.contains("No such file"), "{found}");
}
