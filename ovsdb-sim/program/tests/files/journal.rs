//! Journals of the simulator.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ovsdb_sim::Sim;
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, program};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;

use super::servers::{SimServer, dump, run, tool, transact};
use super::steps::{SCHEMA, execute, schema_file};

/// Starts a simulator with a new journal.
fn begin(file: &Path) -> SimServer {
    let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
    SimServer::start(Sim::builder().schema(Arc::new(schema)).journal(file))
}

/// The records of a file, without their dates.
fn records(file: &Path) -> Vec<Json> {
    let text = fs::read_to_string(file).unwrap();
    let texts = text.lines().skip(1).step_by(2);
    let records = texts.map(|text| match Json::parse(text.as_bytes()).unwrap() {
        Json::Object(mut members) => {
            let date = members.remove(&b"_date"[..]);
            assert!(matches!(date, None | Some(Json::Integer(1_500_000_000_000..))));
            Json::Object(members)
        }
        other => other,
    });
    records.collect()
}

#[test]
fn the_records_are_those_of_ovsdb_server() {
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    let real = RealServer::start([schema_file(dir.path())]);
    let sim = begin(&file);
    let replies = execute(sim.socket());
    for (from_sim, from_real) in replies.iter().zip(execute(real.socket())) {
        // Errors name rows in an arbitrary order.
        assert_eq!(
            from_sim.contains("error"),
            from_real.contains("error"),
            "{from_sim}{from_real}"
        );
    }
    assert_eq!(records(&file), records(&real.databases()[0]));
}

#[test]
fn the_content_after_a_compaction_or_conversion_has_the_comment_of_ovsdb_server() {
    let dir = ScratchDir::new();
    let schema = schema_file(dir.path());
    let files = ["real.db", "sim.db"].map(|name| {
        let file = dir.path().join(name);
        run(tool("create", &file).arg(&schema));
        file
    });
    let real = RealServer::open([&files[0]]);
    let [socket, unixctl] = ["sim.sock", "sim.ctl"].map(|name| dir.path().join(name));
    let mut sim = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
        .arg(format!("--remote=punix:{}", socket.display()))
        .arg(format!("--unixctl={}", unixctl.display()))
        .arg(&files[1])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let client = |command: &str, socket: &Path, arguments: &[&OsStr]| {
        run(Command::new(program("ovsdb-client"))
            .args(["--timeout=60", command])
            .arg(format!("unix:{}", socket.display()))
            .args(arguments))
    };
    client("wait", &socket, &["D".as_ref(), "connected".as_ref()]);
    let compact = || {
        for unixctl in [real.unixctl(), &unixctl] {
            run(Command::new(program("ovs-appctl"))
                .arg("-t")
                .arg(unixctl)
                .arg("ovsdb-server/compact"));
        }
    };
    let both = || files.each_ref().map(|file| records(file));
    // Without rows, too.
    compact();
    let mut steps = vec![both()];
    for socket in [real.socket(), &socket] {
        execute(socket);
    }
    compact();
    steps.push(both());
    fs::write(&schema, SCHEMA.replace("1.2.3", "1.2.4")).unwrap();
    for socket in [real.socket(), &socket] {
        client("convert", socket, &[schema.as_ref()]);
    }
    steps.push(both());
    sim.kill().unwrap();
    patchbay_ovn_programs::testing::wait(&mut sim);
    for [real, sim] in steps {
        assert_eq!(sim, real);
        assert!(real[1].get("_comment").is_some(), "{real:?}");
    }
}

#[test]
fn ovsdb_server_and_ovsdb_tool_open_it() {
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    let sim = begin(&file);
    execute(sim.socket());
    drop(sim);
    let expected = dump(SimServer::load(&file).socket());
    assert!(expected.contains("b again"), "{expected}");

    let log = run(tool("show-log", &file).arg("-mmm"));
    assert!(log.contains("record 0: \"D\" schema, version=\"1.2.3\", cksum=\"12 34\""), "{log}");
    assert!(log.contains("\"first\nand \"second\"\""), "{log}");
    assert!(!log.contains("ephemeral"), "{log}");
    assert_eq!(run(&mut tool("db-version", &file)), "1.2.3\n");
    let query = r#"["D",{"op":"select","table":"Parent","where":[["name","==","d"]],"columns":["number"]}]"#;
    assert_eq!(run(tool("query", &file).arg(query)), "[{\"rows\":[{\"number\":3}]}]\n");

    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
}

#[test]
fn both_servers_append_to_it_in_turn() {
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    execute(begin(&file).socket());
    let insert = |socket: &Path, name: &str, number: u8| {
        let row = format!(r#"{{"name":"{name}","number":{number},"few":["set",[1,2]]}}"#);
        let operation = format!(r#"{{"op":"insert","table":"Parent","row":{row}}}"#);
        let reply = transact(socket, &operation);
        assert!(reply.contains("uuid"), "{reply}");
        let change = r#"{"op":"mutate","table":"Parent","where":[],"mutations":[["few","insert",2],["maybe","insert",1]]}"#;
        transact(socket, change);
        dump(socket)
    };
    let mut number = 100;
    for _ in 0..2 {
        let real = RealServer::open([&file]);
        let left = insert(real.socket(), &format!("real {number}"), number);
        drop(real);
        let sim = SimServer::journal(&file);
        assert_eq!(dump(sim.socket()), left);
        let left = insert(sim.socket(), &format!("sim {number}"), number + 1);
        drop(sim);
        assert_eq!(dump(RealServer::open([&file]).socket()), left);
        number += 2;
    }
}

#[test]
fn it_is_unlocked_when_its_server_ends_with_open_connections() {
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    let sim = begin(&file);
    let client = UnixStream::connect(sim.socket()).unwrap();
    // When another client has been served, this one has been accepted.
    let left = dump(sim.socket());
    drop(sim);
    assert_eq!(dump(SimServer::journal(&file).socket()), left);
    drop(client);
}

#[test]
fn a_default_that_is_not_empty_is_changed_for_all_releases() {
    // ovsdb-server 3.1 reads the difference from such a default as the new value, 3.5 does not.
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    let sim = begin(&file);
    for step in [
        r#"{"op":"insert","table":"Parent","row":{"name":"a","strings":["set",["x","y"]]}}"#,
        r#"{"op":"update","table":"Parent","where":[],"row":{"some":["set",[7]],"strings":"x"}}"#,
        r#"{"op":"update","table":"Parent","where":[],"row":{"some":["set",[0]]}}"#,
        r#"{"op":"update","table":"Parent","where":[],"row":{"some":["set",[0,8]]}}"#,
        r#"{"op":"mutate","table":"Parent","where":[],"mutations":[["some","insert",9]]}"#,
    ] {
        transact(sim.socket(), step);
    }
    let expected = dump(sim.socket());
    drop(sim);
    assert_eq!(dump(SimServer::load(&file).socket()), expected);
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
}

#[test]
fn a_journal_of_loaded_content_begins_with_it() {
    let dir = ScratchDir::new();
    let (loaded, journal) = (dir.path().join("loaded.db"), dir.path().join("journal.db"));
    execute(begin(&loaded).socket());
    let sim = SimServer::start(Sim::builder().load(&loaded).journal(&journal));
    let insert = r#"{"op":"insert","table":"Parent","row":{"name":"more","number":77}}"#;
    transact(sim.socket(), insert);
    let expected = dump(sim.socket());
    drop(sim);
    assert!(expected.contains("b again") && expected.contains("more"));
    assert_eq!(dump(RealServer::open([&journal]).socket()), expected);
}

#[test]
fn a_converted_database_keeps_its_journal() {
    let dir = ScratchDir::new();
    let file = dir.path().join("sim.db");
    let schema = |columns: &str| {
        let text = format!(
            r#"{{"name":"D","version":"1.0.0","tables":{{"T":{{"columns":{{{columns}}}}}}}}}"#
        );
        let path = dir.path().join("schema");
        fs::write(&path, &text).unwrap();
        (path, DatabaseSchema::parse(text.as_bytes()).unwrap())
    };
    let (_, old) = schema(r#""n":{"type":"string"},"gone":{"type":"integer"}"#);
    let builder = Sim::builder().schema(Arc::new(old)).journal(&file);
    let sim = SimServer::start(builder);
    let insert = r#"{"op":"insert","table":"T","row":{"n":"before","gone":7}}"#;
    transact(sim.socket(), insert);
    let (path, _) = schema(r#""n":{"type":"string"},"added":{"type":"integer"}"#);
    run(Command::new(program("ovsdb-client"))
        .args(["--timeout=20", "convert"])
        .arg(format!("unix:{}", sim.socket().display()))
        .arg(path));
    let insert = r#"{"op":"insert","table":"T","row":{"n":"after","added":8}}"#;
    transact(sim.socket(), insert);
    let expected = dump(sim.socket());
    assert!(
        expected.contains("before") && expected.contains("after") && !expected.contains("gone")
    );
    // The journal is still locked.
    let taken = Sim::builder().journal(&file).build().unwrap_err();
    assert!(taken.to_string().contains("another program"), "{taken}");
    drop(sim);
    assert!(run(&mut tool("db-version", &file)).contains("1.0.0"));
    assert_eq!(dump(SimServer::journal(&file).socket()), expected);
    assert_eq!(dump(RealServer::open([&file]).socket()), expected);
}
