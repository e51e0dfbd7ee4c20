//! What ovsdb-server prints and logs, and the program under that name: errors of the start, bad
//! messages, compactions, sources that cannot be reached.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing;

use crate::Program;
use crate::daemon::{Bed, TIMEOUT};

const DAEMON: [&str; 5] =
    ["--detach", "--no-chdir", "--pidfile", "--log-file=log", "--remote=punix:db.sock"];

/// Starts the server of a bed as a daemon.
fn start(bed: &Bed, arguments: &[&str]) {
    let started = bed.server(&[&DAEMON[..], arguments].concat());
    assert!(started.status.success(), "{started:?}");
}

/// Waits until the log of a bed's server has a text, and returns the messages of some modules up to
/// there: module, level and text.
fn messages_until(bed: &Bed, modules: &[&str], last: &str) -> Vec<String> {
    let start = Instant::now();
    loop {
        let log = fs::read_to_string(bed.path("log")).unwrap_or_default();
        if log.contains(last) {
            let (before, _) = log.split_once(last).unwrap();
            let messages = before.lines().map(|line| line.splitn(3, '|').last().unwrap());
            let is_of_module = |message: &&str| {
                let module = message.split('|').next().unwrap();
                modules.contains(&module)
            };
            return messages.filter(is_of_module).map(str::to_owned).collect();
        }
        assert!(start.elapsed() < TIMEOUT, "no {last:?} in {log}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn failed_starts_have_the_same_errors() {
    let [real, sim] = Bed::both().map(|bed| {
        fs::write(bed.path("empty"), "").unwrap();
        fs::write(bed.path("text"), "no database\n").unwrap();
        fs::create_dir(bed.path("folder")).unwrap();
        fs::copy(bed.path("db"), bed.path("copy")).unwrap();
        let header = "OVSDB JSON 3 0000000000000000000000000000000000000000\n{}\n";
        fs::write(bed.path("damaged"), header).unwrap();
        [
            &["missing"][..],
            &["empty"],
            &["text"],
            &["folder"],
            &["damaged"],
            &["db", "copy"],
            &["relay:x"],
            &["--remote=db:none,T,c", "db"],
            &["--remote=db:OVN_Northbound,T,c", "db"],
            &["--remote=db:OVN_Northbound,NB_Global,c", "db"],
        ]
        .map(|arguments| {
            let all = [&["--unixctl=ctl", "-vconsole:off"], arguments].concat();
            let output = bed.server(&all);
            let error = String::from_utf8(output.stderr).unwrap();
            // ovsdb-server prints an empty line behind some.
            (error.trim_end().to_owned(), output.status.code())
        })
    });
    assert_eq!(real, sim);
}

#[test]
fn the_last_of_several_values_of_an_option_counts() {
    for bed in Bed::both() {
        let output = bed.server(&[
            "--unixctl=missing/ctl",
            "--unixctl=ctl",
            "--log-file=first",
            "--log-file=log",
            "--pidfile=missing/pid",
            "--pidfile=pid",
            "--sync-from=tcp:127.0.0.1:1",
            "--sync-from=unix:none",
            "--sync-exclude-tables=A:B",
            "--sync-exclude-tables=C:D",
            "--private-key=a",
            "--private-key=b",
            "--certificate=a",
            "--certificate=b",
            "--ca-cert=a",
            "--bootstrap-ca-cert=b",
            "--ca-cert=c",
            "--peer-ca-cert=a",
            "--peer-ca-cert=b",
            "--ssl-protocols=TLSv1.2",
            "--ssl-protocols=TLSv1.2,TLSv1.3",
            "--ssl-ciphers=HIGH",
            "--ssl-ciphers=HIGH:!aNULL",
            "--no-chdir",
            "--no-chdir",
            "--remote=punix:a.sock",
            "--remote=punix:b.sock",
            "--run=false",
            "--run=test -S a.sock && test -S b.sock && test -e pid && ovs-appctl -t $PWD/ctl \
             ovsdb-server/get-active-ovsdb-server",
            "db",
        ]);
        assert_eq!(
            (String::from_utf8(output.stdout).unwrap().trim_end(), output.status.code()),
            ("unix:none", Some(0)),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn bad_messages_and_compactions_have_the_same_log() {
    let [real, sim] = Bed::both().map(|bed| {
        start(&bed, &["db"]);
        for message in [
            r#"{"id":1}"#,
            "[]",
            r#"{"id":1,"result":[],"error":null}"#,
            r#"{"id":null,"method":"x","params":{}}"#,
            r#"{"id":1,"method":"x","params":[]}"#,
        ] {
            let mut stream = UnixStream::connect(bed.path("db.sock")).unwrap();
            stream.write_all(message.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        let compacted = ["ovsdb-server/compact", "vlog/close"].map(|command| bed.appctl(command));
        let log = fs::read_to_string(bed.path("log")).unwrap();
        let messages = log.lines().map(|line| line.splitn(3, '|').last().unwrap());
        // Connections of ovs-appctl have numbers, too.
        let without_number = |message: &str| match message.split_once("unix#") {
            Some((before, after)) => {
                let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before}unix#{after}")
            }
            None => message.to_owned(),
        };
        let modules = ["jsonrpc|", "reconnect|", "ovsdb_jsonrpc_server|", "ovsdb_server|INFO|comp"];
        let messages: Vec<_> = messages
            .filter(|message| modules.iter().any(|module| message.starts_with(module)))
            .map(without_number)
            .collect();
        bed.appctl("exit");
        (messages, compacted)
    });
    assert_eq!(real, sim);
    assert_eq!(sim.0.len(), 8, "{sim:?}");
}

#[test]
fn a_cluster_without_changes_is_not_compacted_twice() {
    let [real, sim] = Bed::both().map(|bed| {
        let created = bed
            .command(&testing::program("ovsdb-tool"))
            .args(["create-cluster", "cluster"])
            .arg(testing::installed_nb_schema())
            .arg("unix:raft.sock")
            .status();
        assert!(created.unwrap().success());
        start(&bed, &["cluster"]);
        let wait = bed
            .command(&testing::program("ovsdb-client"))
            .args(["--timeout=20", "wait", "unix:db.sock", "OVN_Northbound", "connected"])
            .status();
        assert!(wait.unwrap().success());
        let compact = || bed.appctl("ovsdb-server/compact").0;
        let compacted = [compact(), compact()];
        bed.appctl("exit");
        compacted.map(|output| output.replace(&bed.path("").display().to_string(), ""))
    });
    assert_eq!(real[0], sim[0]);
    for output in [&real[1], &sim[1]] {
        assert!(output.starts_with("ovsdb error: not storing a duplicate snapshot\n"), "{output}");
    }
}

#[test]
fn sources_that_cannot_be_reached_are_logged_until_the_pauses_are_long() {
    for source in [
        &["relay:OVN_Northbound:tcp:127.0.0.1:1"][..],
        &["--sync-from=tcp:127.0.0.1:1", "db"],
        &["--sync-from=unix:missing", "db"],
    ] {
        let [real, sim] = Bed::both().map(|bed| {
            start(&bed, source);
            let messages = messages_until(&bed, &["reconnect"], "suppressing further logging");
            bed.appctl("exit");
            let folder = bed.path("").display().to_string();
            let messages = messages.into_iter();
            messages.map(|message| message.replace(&folder, "")).collect::<Vec<_>>()
        });
        assert_eq!(real, sim, "{source:?}");
        assert!(sim.len() > 8, "{sim:?}");
    }
}

#[test]
fn a_source_that_cannot_be_reached_is_one_warning() {
    let folder = testing::ScratchDir::new();
    let log = folder.path().join("log");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
        .args(["relay:D:tcp:127.0.0.1:1", "--listen=ptcp:0:127.0.0.1"])
        .arg(format!("--log-file={}", log.display()))
        .env_remove("RUST_LOG")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !fs::read_to_string(&log)
        .unwrap_or_default()
        .contains("waiting 2 seconds before reconnect")
    {
        assert!(begin.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(5));
    }
    testing::signal(&child, "TERM");
    let mut warnings = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut warnings).unwrap();
    patchbay_ovn_programs::testing::wait(&mut child);
    let failure = "tcp:127.0.0.1:1: connection attempt failed (Connection refused)";
    assert_eq!(warnings.matches(failure).count(), 1, "{warnings}");
    let others = warnings.lines().filter(|line| !line.contains("terminating"));
    assert_eq!(others.count(), 1, "{warnings}");
}

#[test]
fn databases_are_listed_in_the_same_order() {
    let [real, sim] = Bed::both().map(|bed| {
        for name in ["B", "C", "T", "Z"] {
            let schema = format!(r#"{{"name":"{name}","tables":{{}}}}"#);
            fs::write(bed.path("schema"), schema).unwrap();
            let created = bed
                .command(&testing::program("ovsdb-tool"))
                .args(["create", &format!("{name}.db"), "schema"])
                .status();
            assert!(created.unwrap().success());
        }
        let copied = fs::copy(bed.path("T.db"), bed.path("t1.db"));
        copied.unwrap();
        start(&bed, &["Z.db", "B.db", "t1.db", "C.db"]);
        let mut stream = UnixStream::connect(bed.path("db.sock")).unwrap();
        let request = br#"{"id":1,"method":"list_dbs","params":[]}"#;
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut listed = String::new();
        stream.read_to_string(&mut listed).unwrap();
        bed.appctl("exit");
        listed
    });
    assert_eq!(real, sim);
}

#[test]
fn a_host_may_have_a_name() {
    let mut program = Program::start(&["--listen=ptcp:0:localhost"]);
    program.line();
    let line = program.line();
    let remote = line.strip_prefix("listening on ").unwrap();
    let (_, port) = remote.rsplit_once(':').unwrap();
    let listed = std::process::Command::new(testing::program("ovsdb-client"))
        .args(["--timeout=20", "list-dbs", remote])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{remote}: {listed:?}");
    // A relay of it, whose source has a name, too.
    let source = format!("relay:OVN_Northbound:tcp:localhost:{port}");
    let mut relay = Program::start(&[&source]);
    relay.line();
    let connected = std::process::Command::new(testing::program("ovsdb-client"))
        .args(["--timeout=60", "wait", &relay.remote(), "OVN_Northbound", "connected"])
        .output()
        .unwrap();
    assert!(connected.status.success(), "{connected:?}");
}
