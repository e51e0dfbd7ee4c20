//! Files of clusters with one server, exchanged with the real ovsdb-server and ovsdb-tool.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ovsdb_sim::{FileError, Model, Sim};
use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir, program};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;

use super::damage::record_of;
use super::servers::{SimServer, dump, errors, run, tool, transact};
use super::steps::{SCHEMA, execute, schema_file};

/// Schema of a converted database D.
const CONVERTED: &str = r#"{"name":"D","version":"2.0.0","tables":{"Parent":{"columns":{
    "name":{"type":"string"},"number":{"type":"real"},"added":{"type":"integer"}}}}}"#;

const INSERT_CONVERTED: &str =
    r#"{"op":"insert","table":"Parent","row":{"name":"after","added":8}}"#;

/// The file of a new cluster, made by ovsdb-tool.
pub(crate) fn create(dir: &Path, name: &str) -> PathBuf {
    let file = dir.join(name);
    run(tool("create-cluster", &file)
        .arg(schema_file(dir))
        .arg(format!("unix:{}", dir.join("s1.raft").display())));
    file
}

/// The reply to the insertion of a row.
pub(crate) fn insert(socket: &Path, name: &str, number: i64) -> String {
    let row = format!(r#"{{"name":"{name}","number":{number}}}"#);
    let operation = format!(r#"{{"op":"insert","table":"Parent","row":{row}}}"#);
    let reply = transact(socket, &operation);
    assert!(!reply.contains("error"), "{reply}");
    reply
}

pub(crate) fn convert(socket: &Path, dir: &Path) {
    let path = dir.join("converted.ovsschema");
    fs::write(&path, CONVERTED).unwrap();
    run(Command::new(program("ovsdb-client"))
        .args(["--timeout=20", "convert"])
        .arg(format!("unix:{}", socket.display()))
        .arg(path));
}

/// The records of a file as texts, without dates and ids of transactions.
fn records(file: &Path) -> Vec<String> {
    fn normalize(json: Json) -> Json {
        match json {
            Json::Object(members) => {
                let members = members.into_iter();
                let kept = members.filter(|(name, _)| !matches!(&name[..], b"_date"));
                let known = kept.map(|(name, value)| match &name[..] {
                    b"eid" | b"prev_eid" => (name, Json::Null),
                    _ => (name, normalize(value)),
                });
                Json::Object(known.collect())
            }
            Json::Array(elements) => Json::Array(elements.into_iter().map(normalize).collect()),
            other => other,
        }
    }
    let text = fs::read_to_string(file).unwrap();
    let texts = text.lines().skip(1).step_by(2);
    texts.map(|text| normalize(Json::parse(text.as_bytes()).unwrap()).to_text()).collect()
}

fn error(file: &Path) -> String {
    let error = Sim::builder().database_file(file).build().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.file_error(), Some(FileError::Cluster { .. })), "{text}");
    text
}

#[test]
fn the_records_are_those_of_ovsdb_server() {
    let dir = ScratchDir::new();
    let real_file = create(dir.path(), "real.db");
    let sim_file = dir.path().join("sim.db");
    fs::copy(&real_file, &sim_file).unwrap();
    // Twice, with an election each.
    for _ in 0..2 {
        let real = RealServer::open([&real_file]);
        let sim = SimServer::journal(&sim_file);
        execute(real.socket());
        execute(sim.socket());
        insert(real.socket(), "last", 1234);
        let row = r#"{"op":"delete","table":"Parent","where":[["name","==","last"]]}"#;
        transact(real.socket(), row);
        insert(sim.socket(), "last", 1234);
        transact(sim.socket(), row);
    }
    // A server that is killed may not have written its last commit.
    let entries = |file| {
        let mut records = records(file);
        records.retain(|record| !record.contains("commit_index"));
        records
    };
    let (sim, real) = (entries(&sim_file), entries(&real_file));
    // The UUID of the last row is random.
    let fixed = |record: &&String| !record.contains("last") && !record.contains(":null}");
    let sim_fixed: Vec<_> = sim.iter().filter(fixed).collect();
    let real_fixed: Vec<_> = real.iter().filter(fixed).collect();
    assert_eq!(sim_fixed, real_fixed);
    assert_eq!(sim.len(), real.len());
}

#[test]
fn both_servers_append_to_it_in_turn() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let mut left = None;
    for turn in 0..3 {
        let sim = SimServer::journal(&file);
        if let Some(left) = left {
            assert_eq!(dump(sim.socket()), left);
        } else {
            execute(sim.socket());
        }
        insert(sim.socket(), &format!("sim {turn}"), 100 + turn);
        let expected = dump(sim.socket());
        drop(sim);
        run(&mut tool("check-cluster", &file));
        let real = RealServer::open([&file]);
        assert_eq!(dump(real.socket()), expected);
        insert(real.socket(), &format!("real {turn}"), 200 + turn);
        if turn == 1 {
            run(Command::new(program("ovs-appctl"))
                .arg("-t")
                .arg(real.unixctl())
                .arg("ovsdb-server/compact"));
        }
        left = Some(dump(real.socket()));
    }
    assert_eq!(dump(SimServer::journal(&file).socket()), left.unwrap());
}

#[test]
fn ovsdb_tool_reads_it() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let questions = ["db-name", "db-cid", "db-sid", "db-local-address"];
    let answers = || questions.map(|question| run(&mut tool(question, &file)));
    let before = answers();
    let sim = SimServer::journal(&file);
    execute(sim.socket());
    let expected = dump(sim.socket());
    drop(sim);
    assert_eq!(answers(), before);
    run(&mut tool("db-is-clustered", &file));
    let log = run(tool("show-log", &file).arg("-m"));
    assert!(log.contains("\"first\nand \"second\"\""), "{log}");
    assert!(log.contains(" leader: "), "{log}");
    let standalone = dir.path().join("s.db");
    run(Command::new(program("ovsdb-tool"))
        .arg("cluster-to-standalone")
        .args([&standalone, &file]));
    assert_eq!(dump(RealServer::open([&standalone]).socket()), expected);
}

#[test]
fn a_transaction_that_changes_only_a_version_leaves_no_gap() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "first", 1);
    // A reference to no row is removed again.
    let dangling = r#"{"op":"mutate","table":"Parent","where":[],"mutations":
        [["friends","insert",["uuid","00000000-0000-0000-0000-000000000099"]]]}"#;
    assert_eq!(transact(sim.socket(), dangling), "[{\"count\":1}]\n");
    insert(sim.socket(), "second", 2);
    let expected = dump(sim.socket());
    drop(sim);
    run(&mut tool("check-cluster", &file));
    assert_eq!(dump(SimServer::journal(&file).socket()), expected);
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
}

#[test]
fn a_converted_database_keeps_it() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "before", 7);
    convert(sim.socket(), dir.path());
    transact(sim.socket(), INSERT_CONVERTED);
    let expected = dump(sim.socket());
    assert!(expected.contains("before") && expected.contains("added"), "{expected}");
    drop(sim);
    assert_eq!(dump(SimServer::journal(&file).socket()), expected);
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
    run(&mut tool("check-cluster", &file));
}

#[test]
fn conversions_of_all_releases_are_read() {
    // 3.1 writes the converted content, later releases only the schema.
    for release in [Some(Release::installed()), Release::newest()].into_iter().flatten() {
        let dir = ScratchDir::new();
        let file = dir.path().join("copy.db");
        let real = RealServer::start_clustered(&release, "D", &schema_file(dir.path()));
        insert(real.socket(), "before", 7);
        convert(real.socket(), dir.path());
        transact(real.socket(), INSERT_CONVERTED);
        let expected = dump(real.socket());
        fs::copy(&real.databases()[0], &file).unwrap();
        drop(real);
        assert!(expected.contains("before"), "{expected}");
        assert_eq!(dump(SimServer::journal(&file).socket()), expected);
    }
}

#[test]
fn a_file_that_is_cut_off_has_everything_before() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "first", 1);
    let before = dump(sim.socket());
    let len = fs::metadata(&file).unwrap().len() as usize;
    insert(sim.socket(), "second", 2);
    let both = dump(sim.socket());
    drop(sim);
    let whole = fs::read(&file).unwrap();
    // An entry is committed without its record of the commit, because there is nobody else.
    let text = String::from_utf8_lossy(&whole[len..]);
    let entry_end = len + text.find("\nOVSDB").unwrap() + 1;
    for end in (len..=whole.len()).step_by(23).chain([entry_end]) {
        let cut = dir.path().join("cut.db");
        fs::write(&cut, &whole[..end]).unwrap();
        let sim = SimServer::journal(&cut);
        let expected = if end < entry_end { &before } else { &both };
        assert_eq!(&dump(sim.socket()), expected, "{end}");
        insert(sim.socket(), "third", 3);
        drop(sim);
        run(&mut tool("check-cluster", &cut));
        fs::remove_file(cut).unwrap();
    }
}

#[test]
fn an_entry_that_is_no_transaction_is_left_out() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "first", 1);
    drop(sim);
    let mut bytes = fs::read(&file).unwrap();
    for (place, transaction) in ["7", "null", "[]", r#"{"none":{}}"#].iter().enumerate() {
        let index = 4 + place;
        let entry = format!(
            r#"{{"term":1,"index":{index},"data":[null,{transaction}],"eid":"11111111-1111-4111-8111-111111111111"}}"#
        );
        bytes.extend(record_of("CLUSTER", &entry));
    }
    fs::write(&file, bytes).unwrap();
    let sim = SimServer::journal(&file);
    insert(sim.socket(), "second", 2);
    let expected = dump(sim.socket());
    assert!(expected.contains("first") && expected.contains("second"));
    drop(sim);
    assert_eq!(dump(SimServer::journal(&file).socket()), expected);
}

#[test]
fn a_killed_server_loses_nothing() {
    let dir = ScratchDir::new();
    let file = create(dir.path(), "c.db");
    let socket = dir.path().join("sock");
    let serve = || {
        let child = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(&file)
            .stdout(Stdio::null())
            .spawn();
        let client = |arguments: &[&str]| {
            run(Command::new(program("ovsdb-client"))
                .args(["--timeout=60", "wait"])
                .arg(format!("unix:{}", socket.display()))
                .args(arguments))
        };
        client(&["D", "connected"]);
        child.unwrap()
    };
    let mut server = serve();
    execute(&socket);
    let expected = dump(&socket);
    server.kill().unwrap();
    assert_eq!(patchbay_ovn_programs::testing::wait(&mut server).signal(), Some(9));
    let mut server = serve();
    assert_eq!(dump(&socket), expected);
    server.kill().unwrap();
    patchbay_ovn_programs::testing::wait(&mut server);
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
}

#[test]
fn a_new_journal_of_a_cluster_is_one() {
    let dir = ScratchDir::new();
    let file = dir.path().join("new.db");
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    let builder = Sim::builder().model(Model::Clustered).schema(schema.into()).journal(&file);
    let sim = SimServer::start(builder);
    execute(sim.socket());
    let expected = dump(sim.socket());
    drop(sim);
    run(&mut tool("check-cluster", &file));
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
    assert_eq!(dump(SimServer::journal(&file).socket()), expected);
}

#[test]
fn members_of_larger_clusters_are_refused() {
    let dir = ScratchDir::new();
    let joining = dir.path().join("joining.db");
    run(tool("join-cluster", &joining).arg("D").args(["tcp:127.0.0.1:6645", "tcp:127.0.0.1:6644"]));
    let found = error(&joining);
    assert!(found.contains("has not joined its cluster yet"), "{found}");

    let other = r#"{"11111111-1111-4111-8111-111111111111":"tcp:127.0.0.1:1","22222222-2222-4222-8222-222222222222":"tcp:127.0.0.1:2"}"#;
    for (record, problem) in [
        (
            format!(r#"{{"term":2,"index":2,"servers":{other}}}"#),
            "belongs to a cluster of 2 servers, and only clusters of one server are served",
        ),
        (r#"{"note":"left"}"#.to_owned(), "record 1 indicates server has left the cluster"),
        (
            r#"{"term":2,"index":5}"#.to_owned(),
            "error reading record 1: its index 5 skips past expected index 2",
        ),
        (
            r#"{"commit_index":9}"#.to_owned(),
            "error reading record 1: it advances commit index to 9 but last log index is 1",
        ),
        (
            r#"{"term":2,"index":2,"data":[null,{}]}"#.to_owned(),
            "error reading record 1: member 'eid' is missing or invalid",
        ),
        (
            r#"{"term":2,"index":2,"data":7,"eid":"11111111-1111-4111-8111-111111111111"}"#
                .to_owned(),
            "error reading record 1: member 'data' is missing or invalid",
        ),
    ] {
        let file = create(dir.path(), "c.db");
        let mut text = fs::read(&file).unwrap();
        text.extend(record_of("CLUSTER", &record));
        fs::write(&file, text).unwrap();
        let found = error(&file);
        assert!(found.contains(problem), "{found}");
        fs::remove_file(file).unwrap();
    }
    let whole = create(dir.path(), "c.db");
    let output =
        Command::new(env!("CARGO_BIN_EXE_ovsdb-sim")).arg("--load").arg(whole).output().unwrap();
    assert!(errors(&output).contains("serve it as a database file"));
}
