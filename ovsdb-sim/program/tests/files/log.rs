//! The history in database files, beside `ovsdb-tool show-log` and the real server's content.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ovsdb_sim::{DatabaseLog, FileError};
use patchbay_engine::db::Snapshot;
use patchbay_ovn_programs::testing::{RealCluster, RealServer, ScratchDir, program};
use patchbay_schemas::datum::Datum;
use uuid::Uuid;

use super::cluster::{convert, create, insert};
use super::servers::{SimServer, dump, run, tool, transact};
use super::steps::{execute, schema_file};

/// Record number and comment of each transaction that `ovsdb-tool show-log` lists with data.
fn shown(file: &Path) -> Vec<(u64, String)> {
    let text = run(&mut tool("show-log", file));
    let records = text.split("\nrecord ").skip(1);
    let with_comment = records.filter_map(|record| {
        let number = record.split(':').next()?.parse().ok()?;
        let (_, rest) = record.split_once('"')?;
        Some((number, rest.rsplit_once('"')?.0.to_owned()))
    });
    with_comment.collect()
}

/// Record number and comment of each transaction with a comment, and the last snapshot.
fn logged(file: &Path) -> (Vec<(u64, String)>, Snapshot) {
    let mut log = DatabaseLog::open(file).unwrap();
    let mut comments = Vec::new();
    while let Some(transaction) = log.next().unwrap() {
        assert_eq!(transaction.problem, None);
        assert!(transaction.time.is_some() || transaction.record == 0, "{transaction:?}");
        if !transaction.comment.is_empty() {
            comments.push((transaction.record, transaction.comment));
        }
    }
    assert_eq!(log.end().unwrap().damage, None);
    (comments, log.snapshot())
}

/// Columns of each row, by table and UUID.
fn rows(snapshot: &Snapshot) -> BTreeMap<(String, Uuid), Vec<Datum>> {
    let schema = snapshot.schema();
    let tables = schema.table_ids().flat_map(|id| {
        let table = schema.table(id);
        snapshot.table(id).iter().map(move |row| {
            let columns = table.column_ids().map(|column| row.get(column).into_owned());
            ((table.name.to_string(), row.uuid), columns.collect())
        })
    });
    tables.collect()
}

/// Content of a clustered database's file, in a standalone file, as `ovsdb-client dump` prints it.
fn content(dir: &Path, name: &str, file: &Path) -> String {
    let standalone = dir.join(name);
    run(Command::new(program("ovsdb-tool")).arg("cluster-to-standalone").args([&standalone, file]));
    dump(SimServer::load(&standalone).socket())
}

#[test]
fn a_standalone_history_is_that_of_ovsdb_tool() {
    let dir = ScratchDir::new();
    let file = dir.path().join("d.db");
    run(tool("create", &file).arg(schema_file(dir.path())));
    let real = RealServer::open([&file]);
    execute(real.socket());
    drop(real);
    let (comments, snapshot) = logged(&file);
    assert_eq!(comments, shown(&file));
    assert!(comments.iter().any(|(_, comment)| comment == "first\nand \"second\""));
    let loaded = ovsdb_sim::Sim::builder().load(&file).build().unwrap();
    let expected = loaded.database("D").unwrap().snapshot();
    assert_eq!(rows(&snapshot), rows(&expected));
}

#[test]
fn a_clustered_history_is_that_of_ovsdb_tool() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let real = RealServer::open([&file]);
    execute(real.socket());
    let comment = r#"{"op":"comment","comment":"of a row"},
        {"op":"insert","table":"Parent","row":{"name":"z","number":99}}"#;
    transact(real.socket(), comment);
    drop(real);
    let (comments, snapshot) = logged(&file);
    assert_eq!(comments, shown(&file));
    assert!(comments.iter().any(|(_, comment)| comment == "of a row"));
    let expected = content(dir.path(), "s.db", &file);
    assert_eq!(expected.matches("\"z\"").count() + expected.matches(" z ").count(), 1);
    let standalone = ovsdb_sim::Sim::builder().load(dir.path().join("s.db")).build().unwrap();
    assert_eq!(rows(&standalone.database("D").unwrap().snapshot()), rows(&snapshot));
}

#[test]
fn a_conversion_and_a_snapshot_are_steps_of_a_clustered_history() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let real = RealServer::open([&file]);
    insert(real.socket(), "before", 7);
    run(Command::new(program("ovs-appctl"))
        .arg("-t")
        .arg(real.unixctl())
        .arg("ovsdb-server/compact"));
    insert(real.socket(), "after", 8);
    convert(real.socket(), dir.path());
    drop(real);
    let mut log = DatabaseLog::open(&file).unwrap();
    let mut steps = Vec::new();
    while let Some(step) = log.next().unwrap() {
        assert!(step.is_conversion || step.problem.is_none(), "{step:?}");
        steps.push((step.record == 0, step.changes.rows.len(), step.is_conversion));
    }
    assert_eq!(steps, [(true, 1, false), (false, 1, false), (false, 0, true)]);
    assert_eq!(log.schema().version, "2.0.0");
    assert_eq!(log.snapshot().row_count(), 2);
}

#[test]
fn entries_of_a_deposed_leader_are_no_history() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let real = RealServer::open([&file]);
    insert(real.socket(), "first", 1);
    insert(real.socket(), "second", 2);
    drop(real);
    // Two leaders wrote an entry with the same index: the last entry of the file counts.
    let text = fs::read_to_string(&file).unwrap();
    let records: Vec<_> = text.lines().collect();
    let second = records.iter().position(|line| line.contains("\"second\"")).unwrap();
    let uncommitted: Vec<_> = records[..=second].iter().map(|line| format!("{line}\n")).collect();
    let replaced =
        [uncommitted.concat(), format!("{}\n{}\n", records[second - 1], records[second])];
    fs::write(&file, replaced.concat()).unwrap();
    let mut log = DatabaseLog::open(&file).unwrap();
    let mut last = None;
    while let Some(step) = log.next().unwrap() {
        assert_eq!(step.problem, None);
        last = Some(step);
    }
    let last = last.unwrap();
    assert!(!last.is_committed, "{last:?}");
    assert_eq!((last.changes.rows.len(), log.snapshot().row_count()), (1, 2));
}

#[test]
fn a_cut_history_ends_with_its_damage() {
    let dir = ScratchDir::new();
    let file = dir.path().join("d.db");
    run(tool("create", &file).arg(schema_file(dir.path())));
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "first", 1);
    insert(sim.socket(), "second", 2);
    drop(sim);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let mut log = DatabaseLog::open(&file).unwrap();
    assert_eq!(log.replay().unwrap(), 1);
    let end = log.end().unwrap();
    assert_eq!(end.record, 2);
    assert!(end.damage.as_ref().unwrap().starts_with("the file ends after "), "{end:?}");
    fs::write(&file, "no database").unwrap();
    assert!(matches!(DatabaseLog::open(&file), Err(FileError::NotADatabase { .. })));
    fs::write(&file, "").unwrap();
    assert!(matches!(DatabaseLog::open(&file), Err(FileError::NotADatabase { .. })));
}

#[test]
fn the_file_of_every_member_of_a_cluster_has_the_history() {
    let dir = ScratchDir::new();
    let cluster = RealCluster::start(&schema_file(dir.path()), 3);
    for number in 1..=3 {
        insert(&cluster.socket(cluster.leader()), &format!("row {number}"), number);
    }
    for member in 0..3 {
        // Reads of a follower are linear: it has all rows of the leader.
        dump(&cluster.socket(member));
        let mut log = DatabaseLog::open(cluster.socket(member).with_extension("db")).unwrap();
        let mut inserted = 0;
        while let Some(step) = log.next().unwrap() {
            assert_eq!(step.problem, None);
            inserted += step.changes.rows.len();
        }
        assert_eq!((inserted, log.snapshot().row_count()), (3, 3), "member {member}");
    }
}
