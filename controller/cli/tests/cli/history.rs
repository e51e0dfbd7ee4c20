//! `patchbay history`, `bisect`, `show`, and `reach` on files of real servers: plain, packed, in
//! archives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ovsdb_sim::Sim;
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl, program};
use patchbay_schemas::nb::LogicalSwitch;

use crate::command::{Run, nb_schema, patchbay};

/// Database file of a real server: a switch with the ports a and b, an ACL that cuts them, and the
/// end of the ACL.
struct Recorded {
    dir: ScratchDir,
    file: PathBuf,
}

impl Recorded {
    fn standalone() -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("nb.db");
        done(Command::new(program("ovsdb-tool")).arg("create").args([&file, &nb_schema()]));
        Self::record(dir, file)
    }

    fn clustered() -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("nb.db");
        let address = format!("unix:{}", dir.path().join("raft").display());
        let mut tool = Command::new(program("ovsdb-tool"));
        done(tool.arg("create-cluster").args([&file, &nb_schema()]).arg(address));
        Self::record(dir, file)
    }

    fn record(dir: ScratchDir, file: PathBuf) -> Self {
        let server = RealServer::open([&file]);
        let steps = [
            "ls-add s",
            "lsp-add s a -- lsp-set-addresses a '02:00:00:00:00:01 10.0.0.1'",
            "lsp-add s b -- lsp-set-addresses b '02:00:00:00:00:02 10.0.0.2'",
            "acl-add s to-lport 1000 'outport == \"b\"' drop",
            "set NB_Global . name=node-1",
        ];
        for step in steps {
            done(nbctl(&server.remote()).args(words(step)));
        }
        drop(server);
        Self { dir, file }
    }

    fn run(&self, arguments: &str) -> Run {
        let mut command = patchbay();
        command.current_dir(self.dir.path()).args(words(arguments));
        command.output().unwrap().into()
    }

    /// Packs the file.
    fn pack(&self, program: &str) {
        done(Command::new(program).arg("-k").arg(&self.file));
    }

    /// Makes a tar archive of a file or folder in the folder of the database.
    fn archive(&self, archive: &str, of: &str) {
        done(Command::new("tar").current_dir(self.dir.path()).args(["-caf", archive, of]));
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Words of a line, with quotes as in a shell.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// A history without times and paths.
fn stable(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = match line.split_once("ovn-nbctl: ") {
            Some((head, comment)) => {
                let command = comment.split_once("nb.sock").map_or(comment, |(_, rest)| rest);
                let record = head.split("  ").next().unwrap_or_default();
                format!("{record}  TIME  {}", command.trim())
            }
            None => line.to_owned(),
        };
        format!("{line}\n")
    });
    lines.collect()
}

#[test]
fn a_history_lists_transactions_with_their_rows() {
    for recorded in [Recorded::standalone(), Recorded::clustered()] {
        let text = recorded.run("history --file nb.db").succeeded();
        let stable = stable(&text);
        for expected in [
            "    + Logical_Switch s\n",
            "    + Logical_Switch_Port a\n    ~ Logical_Switch s\n",
            "    + ACL outport == \"b\"\n    ~ Logical_Switch s\n",
        ] {
            assert!(stable.contains(expected), "{text}");
        }
        let json = recorded.run("history --file nb.db -o json").succeeded();
        let entries: serde_json::Value = serde_json::from_str(&json).unwrap();
        let entries = entries.as_array().unwrap();
        let with_acl = entries.iter().find(|entry| entry["rows"][0]["table"] == "ACL").unwrap();
        assert_eq!(with_acl["committed"], true);
        let record = with_acl["record"].as_u64().unwrap();
        let part = recorded.run(&format!("history --file nb.db --since {record} --until {record}"));
        assert_eq!(part.succeeded().lines().count(), 3);
    }
}

#[test]
fn a_search_names_the_transaction_that_cut_and_that_opened() {
    for recorded in [Recorded::standalone(), Recorded::clustered()] {
        let cut = recorded.run("bisect --file nb.db --from a --to b").succeeded();
        assert!(cut.starts_with("cut by record "), "{cut}");
        let lines: Vec<_> = cut.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "    before: reaches: b",
                "    after: dropped: ACL to-lport 1000 on switch s",
                "    + ACL outport == \"b\"",
                "    ~ Logical_Switch s",
            ]
        );
        let json = recorded.run("bisect --file nb.db --from a --to b -o json").succeeded();
        let found: serde_json::Value = serde_json::from_str(&json).unwrap();
        let before = found["record"].as_u64().unwrap() - 1;
        let opened = recorded.run(&format!("bisect --file nb.db --from a --to b --at {before}"));
        assert!(opened.succeeded().starts_with("opened by record "), "{cut}");
        let same = recorded.run("bisect --file nb.db --from a --to 10.9.9.9");
        assert_eq!(same.code, Some(2));
        assert!(same.stdout.starts_with("the same in all of the history: "), "{same:?}");
    }
}

#[test]
fn a_moment_is_a_record_or_a_time() {
    let recorded = Recorded::standalone();
    let at =
        |moment: &str| recorded.run(&format!("reach --file nb.db --from a --to b --at {moment}"));
    assert!(at("3").succeeded().starts_with("reaches: b\n"));
    assert_eq!(at("4").code, Some(2));
    let json = recorded.run("history --file nb.db -o json").succeeded();
    let entries: serde_json::Value = serde_json::from_str(&json).unwrap();
    let time = entries[2]["time"].as_str().unwrap();
    assert!(at(time).succeeded().starts_with("reaches: b\n"));
    let early = at("1999-01-01T00:00:00Z");
    assert_eq!(early.code, Some(1));
    assert!(early.stderr.contains("it begins with record 1 of "), "{early:?}");
    let wrong = at("yesterday");
    assert!(wrong.stderr.contains("expected the number of a record or a time"), "{wrong:?}");
    let shown = recorded.run("show --file nb.db --at 2").succeeded();
    assert!(shown.contains("port a") && !shown.contains("port b"), "{shown}");
    let missing = recorded.run("show --file nb.db other");
    assert_eq!(missing.stderr, "error: nb.db has no switch and no router other\n");
}

#[test]
fn files_are_read_packed_and_in_archives() {
    let recorded = Recorded::clustered();
    let expected = recorded.run("reach --file nb.db --from a --to b");
    assert_eq!(expected.code, Some(2));
    recorded.pack("gzip");
    recorded.pack("xz");
    for source in ["--file nb.db.gz", "--file nb.db.xz"] {
        let packed = recorded.run(&format!("reach {source} --from a --to b"));
        assert_eq!((packed.code, packed.stdout), (Some(2), expected.stdout.clone()));
    }
    let logs = recorded.dir.path().join("gathered/network_logs");
    fs::create_dir_all(&logs).unwrap();
    recorded.archive("gathered/network_logs/ovnk_database_store.tar.gz", "nb.db.gz");
    // A link upward, a southbound by name only, and text are passed over.
    std::os::unix::fs::symlink("../..", logs.join("up")).unwrap();
    fs::write(logs.join("leader_nbdb"), "no database").unwrap();
    recorded.archive("gathered.tar.xz", "gathered");
    for source in ["gathered", "gathered.tar.xz"] {
        let gathered = recorded.run(&format!("reach --must-gather {source} --from a --to b"));
        assert_eq!((gathered.code, gathered.stdout), (Some(2), expected.stdout.clone()));
        assert_eq!(gathered.stderr, "");
    }
    // A second database of the zone.
    fs::copy(&recorded.file, logs.join("other_nbdb")).unwrap();
    let twice = recorded.run("reach --must-gather gathered --from a --to b");
    assert_eq!((twice.code, twice.stdout), (Some(2), expected.stdout));
    assert!(
        twice.stderr.starts_with("warning: two databases of zone node-1: "),
        "{}",
        twice.stderr
    );
}

#[test]
fn damaged_files_are_read_as_far_as_they_are_whole() {
    let recorded = Recorded::standalone();
    let whole = fs::read(&recorded.file).unwrap();
    fs::write(&recorded.file, &whole[..whole.len() - 20]).unwrap();
    let cut = recorded.run("show --file nb.db");
    assert_eq!(cut.code, Some(0));
    assert!(cut.stdout.contains("port b"), "{cut:?}");
    let warning = "warning: nb.db: record 5 at byte ";
    assert!(cut.stderr.starts_with(warning), "{}", cut.stderr);
    fs::write(recorded.dir.path().join("text"), "hello\n").unwrap();
    let text = recorded.run("history --file text");
    assert_eq!(text.stderr, "error: text: not a database file: bad header line \"hello\"\n");
    let packed = [&[0x1f, 0x8b][..], &[0; 30]].concat();
    fs::write(recorded.dir.path().join("bad.gz"), packed).unwrap();
    let bad = recorded.run("history --file bad.gz");
    assert!(bad.stderr.starts_with("error: bad.gz: "), "{}", bad.stderr);
    let none = recorded.run("reach --must-gather text --from a --to b");
    let lack = "no Northbound database and no object of a cluster in it (files: 1)";
    assert_eq!(none.stderr, format!("error: text: {lack}\n"));
    let missing = recorded.run("history --file missing.db");
    assert!(missing.stderr.starts_with("error: missing.db: No such file"), "{}", missing.stderr);
    assert!(Path::new(&recorded.file).exists());
}

#[test]
fn other_databases_are_refused_by_name() {
    let dir = ScratchDir::new();
    let schema = dir.path().join("other.ovsschema");
    fs::write(
        &schema,
        r#"{"name":"Other","version":"1.0.0","tables":{"T":{"columns":{"c":{"type":"string"}}}}}"#,
    )
    .unwrap();
    let file = dir.path().join("other.db");
    done(Command::new(program("ovsdb-tool")).arg("create").args([&file, &schema]));
    let mut command = patchbay();
    let refused: Run = command.args(["show", "--file"]).arg(&file).output().unwrap().into();
    let place = file.display();
    let expected = format!("error: {place}: no database OVN_Northbound: the file has Other\n");
    assert_eq!((refused.code, refused.stderr), (Some(1), expected));
}

#[test]
fn a_search_in_a_long_history_names_the_number_of_moments_that_it_asked() {
    let dir = ScratchDir::new();
    let file = dir.path().join("nb.db");
    let sim = Sim::builder().journal(&file).build().unwrap();
    let northbound = sim.database("OVN_Northbound").unwrap();
    for number in 0..600 {
        let mut txn = northbound.txn();
        let switch = LogicalSwitch { name: format!("s{number}"), ..LogicalSwitch::default() };
        txn.insert(&switch).unwrap();
        northbound.transact(&txn.finish()).unwrap();
    }
    drop(sim);
    let mut command = patchbay();
    command.args(["bisect", "--from", "a", "--to", "b", "--file"]).arg(&file);
    let same: Run = command.output().unwrap().into();
    assert_eq!(same.code, Some(2), "{}", same.stderr);
    let expected =
        "the same at 201 of 600 moments that were asked: the database has no switch port a\n";
    assert!(same.stdout.starts_with(expected), "{}", same.stdout);
}
