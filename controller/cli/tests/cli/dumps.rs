//! Text of the real `ovsdb-client` in place of a database file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use ovsdb_sim::database_file;
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, program};
use patchbay_schemas::nb;

use crate::command::{Run, patchbay};

/// Database of the guide of an incident.
const RECORDED: &str =
    "examples/night/must-gather/network_logs/ovnk_database_store/ovnkube-node-7xk2p_nbdb.gz";

/// A recorded database, and what `ovsdb-client` prints of it.
struct Dumped {
    dir: ScratchDir,
    server: RealServer,
}

impl Dumped {
    fn new() -> Self {
        let dir = ScratchDir::new();
        let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(RECORDED);
        fs::copy(packed, dir.path().join("nb.db.gz")).unwrap();
        let unpacked = Command::new("gunzip").arg("-k").arg(dir.path().join("nb.db.gz")).status();
        assert!(unpacked.unwrap().success());
        let copy = dir.path().join("served.db");
        fs::copy(dir.path().join("nb.db"), &copy).unwrap();
        let server = RealServer::open([&copy]);
        Self { dir, server }
    }

    /// Writes what `ovsdb-client` prints into a file.
    fn client(&self, file: &str, arguments: &[&str], tables: &[&str]) -> PathBuf {
        let mut command = Command::new(program("ovsdb-client"));
        command.args(arguments).arg(self.server.remote()).arg("OVN_Northbound").args(tables);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = self.dir.path().join(file);
        fs::write(&path, output.stdout).unwrap();
        path
    }

    fn run(&self, arguments: &str) -> Run {
        run_in(self.dir.path(), arguments)
    }
}

fn run_in(folder: &Path, arguments: &str) -> Run {
    let mut command = patchbay();
    command.current_dir(folder).args(arguments.split_whitespace());
    command.output().unwrap().into()
}

#[test]
fn a_dump_gives_the_answers_of_its_file() {
    let dumped = Dumped::new();
    let questions = [
        "snapshot",
        "show",
        "acls -o json",
        "lint",
        "get Logical_Router -o yaml",
        "reach --matrix pods",
        "reach --from partner/client --to service/shop/web --port 80 --rows",
    ];
    let text = |question: &str, file: &str| {
        let run = dumped.run(&format!("{question} --file {file}"));
        assert_eq!(run.stderr, "", "{question} {file}");
        let mut lines: Vec<_> = run.stdout.lines().map(str::to_owned).collect();
        // The document has the name and the time of its source.
        let of_source = ["\"source\": ", "\"time\": ", "source: ", "time: "];
        lines.retain(|line| !of_source.iter().any(|member| line.contains(member)));
        (run.code, lines)
    };
    let expected: Vec<_> = questions.iter().map(|question| text(question, "nb.db")).collect();
    for (file, arguments) in [
        ("dump-table", &["dump"][..]),
        ("dump-list", &["-f", "list", "dump"]),
        ("dump-csv", &["-f", "csv", "dump"]),
        ("dump-csv-json", &["-f", "csv", "--data=json", "dump"]),
        ("dump-json", &["-f", "json", "dump"]),
        ("dump-pretty", &["-f", "json", "--pretty", "dump"]),
        ("dump-backup", &["backup"]),
    ] {
        dumped.client(file, arguments, &[]);
        for (question, expected) in questions.iter().zip(&expected) {
            assert_eq!(text(question, file), *expected, "{question} of {file}");
        }
    }
    let age = &dumped.run("show --file dump-table").ages;
    assert!(age[0].starts_with("dump-table, ") && age[0].contains(" old ("), "{age:?}");
    let packed = Command::new("gzip").arg(dumped.dir.path().join("dump-json")).status();
    assert!(packed.unwrap().success());
    assert_eq!(text("show", "dump-json.gz"), expected[1]);
    // As a word, and as a member of an archive.
    let same = dumped.run("diff nb.db dump-table");
    assert_eq!(same.code, Some(0), "{same:?}");
    fs::create_dir(dumped.dir.path().join("sos")).unwrap();
    fs::copy(dumped.dir.path().join("dump-list"), dumped.dir.path().join("sos/nb_dump")).unwrap();
    fs::write(dumped.dir.path().join("sos/vswitch"), "Bridge table\n\nPort table\n").unwrap();
    let gathered = dumped.run("snapshot --file sos/nb_dump");
    assert_eq!(gathered.stdout, dumped.run("snapshot --file nb.db").stdout);
    let rows = dumped.run("acls --must-gather sos -o name");
    assert_eq!((rows.stdout, &*rows.stderr), (dumped.run("acls --file nb.db -o name").stdout, ""));
}

#[test]
fn a_dump_that_is_not_whole_says_what_is_lost() {
    let dumped = Dumped::new();
    for (format, lost) in [
        ("table", "the text ends within a line of "),
        ("list", "the text ends within a line of "),
        ("csv", "the text ends within a line of "),
        ("json", "everything after "),
    ] {
        let whole = fs::read(dumped.client(format, &["-f", format, "dump"], &[])).unwrap();
        // Within the table Logical_Switch_Port, which is behind the switches that refer to it.
        let begin = b"Logical_Switch_Port table";
        let place = whole.windows(begin.len()).position(|part| part == begin).unwrap();
        fs::write(dumped.dir.path().join("cut"), &whole[..place + 900]).unwrap();
        let shown = dumped.run("show --file cut");
        assert_eq!(shown.code, Some(0), "{format}: {shown:?}");
        assert!(shown.stderr.contains(&format!("warning: cut: {lost}")), "{}", shown.stderr);
        let missing = "warning: cut: the dump has no tables ";
        assert!(shown.stderr.contains(missing), "{}", shown.stderr);
        assert!(shown.stdout.contains("switch "), "{format}: {}", shown.stdout);
        // ACLs stay although port groups, which refer to them, are lost.
        let acls = dumped.run("acls --file cut -o name").stdout.lines().count();
        let all = dumped.run("acls --file nb.db -o name").stdout.lines().count();
        assert_eq!(acls, all, "{format}");
        // Every cut is read or refused.
        for end in (0..whole.len()).step_by(whole.len() / 24) {
            fs::write(dumped.dir.path().join("cut"), &whole[..end]).unwrap();
            let run = dumped.run("acls --file cut");
            assert!(matches!(run.code, Some(0 | 1)), "{format} {end}: {run:?}");
            assert!(!run.stderr.is_empty(), "{format} {end}");
        }
    }
    dumped.client("one", &["dump"], &["ACL"]);
    let one = dumped.run("acls --file one");
    assert!(one.stderr.contains("the dump has no tables "), "{}", one.stderr);
    dumped.client("columns", &["dump"], &["ACL", "match"]);
    let columns = dumped.run("acls --file columns");
    let error = "error: columns: table ACL has no column _uuid: a dump of all columns is needed\n";
    assert_eq!((columns.code, &*columns.stderr), (Some(1), error));
}

#[test]
fn dumps_of_other_databases_and_hostile_ones_are_refused() {
    let dir = ScratchDir::new();
    for (text, expected) in [
        (
            "Bridge table\n_uuid name\n----- ----\n",
            "a dump, but not of a Northbound database: its tables are Bridge",
        ),
        ("ACL table\n_uuid,match\nx,\"\n", "table ACL: 1 row is not whole, and left out"),
        (
            "ACL table\n_uuid,match\nx,y\n",
            "table ACL: 1 rows are left out: column _uuid has no value of its type",
        ),
        ("ACL table\n_uuid : [[[[[[[[[[[[[\n", "table ACL: 1 rows are left out: "),
        (
            "{\"caption\":\"ACL table\",\"headings\":[\"_uuid\"],\"data\":[[[[[[",
            "everything after the beginning is lost",
        ),
        ("ACL table\n\u{1b}[31m", "the text ends within a line of ACL"),
    ] {
        fs::write(dir.path().join("dump"), text).unwrap();
        let run = run_in(dir.path(), "acls --file dump");
        assert!(run.stderr.contains(expected), "{text:?}: {}", run.stderr);
        assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
    }
}

#[test]
fn a_clock_that_ran_backward_is_said_and_not_believed() {
    let dir = ScratchDir::new();
    let schema = nb::schema().to_text();
    let schema = str::from_utf8(schema.as_text().bytes()).unwrap();
    let day = |day: i64| Timestamp::from_second(day * 86_400).unwrap().as_millisecond();
    let transaction = |time: i64| format!("{{\"_date\":{time},\"_comment\":\"c\"}}");
    let (earlier, later) = (transaction(day(20_000)), transaction(day(20_002)));
    fs::write(dir.path().join("nb.db"), database_file(&[schema, &later, &earlier])).unwrap();
    let run = run_in(dir.path(), "show --file nb.db");
    let line = "nb.db, of 2024-10-04 00:00:00 UTC: the clock ran backward, an earlier transaction is of 2024-10-06 00:00:00 UTC\n";
    assert_eq!(run.stderr, line);
    let ahead = transaction(day(60_000));
    fs::write(dir.path().join("nb.db"), database_file(&[schema, &ahead])).unwrap();
    let run = run_in(dir.path(), "acls --file nb.db -o json");
    assert!(run.stderr.contains(" days ahead of the clock of this machine"), "{}", run.stderr);
    assert!(run.stdout.contains("\"clock\": "), "{}", run.stdout);
}
