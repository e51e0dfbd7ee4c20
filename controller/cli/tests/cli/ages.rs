//! Sources of answers, and how old they are.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use ovsdb_sim::Sim;
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};
use patchbay_schemas::nb::LogicalSwitch;
use serde_json::Value;

use crate::command::{Run, nb_schema, patchbay};

fn run_in(folder: &Path, arguments: &str) -> Run {
    let mut command = patchbay();
    command.current_dir(folder).args(arguments.split_whitespace());
    command.output().unwrap().into()
}

/// Writes a database file with a switch.
fn write_database(file: &Path) {
    let sim = Sim::builder().journal(file).build().unwrap();
    let northbound = sim.database("OVN_Northbound").unwrap();
    let mut txn = northbound.txn();
    txn.insert(&LogicalSwitch { name: "s".to_owned(), ..LogicalSwitch::default() }).unwrap();
    northbound.transact(&txn.finish()).unwrap();
}

#[test]
fn answers_from_files_name_the_file_and_its_age() {
    let folder = tempfile::tempdir().unwrap();
    write_database(&folder.path().join("nb.db"));
    for command in ["show --plain", "acls", "lint", "history", "reach --matrix"] {
        let shown = run_in(folder.path(), &format!("{command} --file nb.db"));
        let [age] = &shown.ages[..] else { panic!("{command}: {shown:?}") };
        assert!(age.starts_with("nb.db, ") && age.contains(" old (20"), "{command}: {age}");
        assert!(!shown.stdout.contains("old ("), "{}", shown.stdout);
    }
    let document = run_in(folder.path(), "lint --file nb.db -o json").succeeded();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["sources"][0]["source"], "nb.db");
    let time: Timestamp = document["sources"][0]["time"].as_str().unwrap().parse().unwrap();
    assert!(time <= Timestamp::now(), "{time}");
    // A list stays a list.
    let history = run_in(folder.path(), "history --file nb.db -o json").succeeded();
    assert!(history.starts_with('['), "{history}");
    let both = run_in(folder.path(), "diff nb.db@1 nb.db -o yaml").succeeded();
    assert!(both.contains("sources:\n"), "{both}");
}

#[test]
fn a_page_has_the_time_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    write_database(&folder.path().join("nb.db"));
    run_in(folder.path(), "report --file nb.db -o report.html").succeeded();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let (_, sources) = page.split_once("\"sources\":").unwrap();
    let (sources, _) = sources.split_once(']').unwrap();
    let sources: Value = serde_json::from_str(&format!("{sources}]")).unwrap();
    assert_eq!(sources[0]["name"], "nb.db");
    let time: Timestamp = sources[0]["time"].as_str().unwrap().parse().unwrap();
    assert!(time <= Timestamp::now(), "{time}");
}

#[test]
fn an_archive_is_as_old_as_its_collector_says() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("mg");
    fs::create_dir(&archive).unwrap();
    write_database(&archive.join("a_nbdb"));
    let fresh = run_in(folder.path(), "show --file mg/a_nbdb");
    assert_eq!(fresh.ages.len(), 1, "{fresh:?}");
    let by_file = run_in(folder.path(), "acls --must-gather mg");
    assert!(by_file.ages[0].starts_with("mg, "), "{by_file:?}");
    assert!(!by_file.ages[0].contains("2021"), "{by_file:?}");
    let times = "2021-03-04 05:00:00 +0000 UTC m=+0.08\n2021-03-04 05:06:07.5 +0000 UTC m=+99\n";
    fs::write(archive.join("timestamp"), times).unwrap();
    let named = run_in(folder.path(), "acls --must-gather mg");
    let [age] = &named.ages[..] else { panic!("{named:?}") };
    assert!(age.ends_with(" days old (2021-03-04 05:06:07 UTC)"), "{age}");
}

#[test]
fn a_server_is_as_it_is_now() {
    let server = RealServer::start([nb_schema()]);
    let status = nbctl(&server.remote()).args(["ls-add", "s"]).status();
    assert!(status.unwrap().success());
    let dir = ScratchDir::new();
    let before = Timestamp::now();
    let shown = run_in(dir.path(), &format!("acls --nb {} -o json", server.remote())).succeeded();
    let document: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(document["sources"][0]["source"], server.remote());
    let time: Timestamp = document["sources"][0]["time"].as_str().unwrap().parse().unwrap();
    // Documents have milliseconds.
    assert!(time.as_millisecond() >= before.as_millisecond(), "{time} before {before}");
    let plain = run_in(dir.path(), &format!("show --nb {}", server.remote()));
    assert_eq!((plain.ages.len(), &*plain.stderr), (0, ""));
}
