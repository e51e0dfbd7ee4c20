//! The program `ovsdb-sim`: its output, its end and its control API.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod config_file;
mod daemon;
mod exec;
mod fail_over;
mod for_tests;
mod memory;
mod passive_source;
mod rbac;
mod scripts;
mod server_texts;
mod tls;
mod user;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use jsonrpsee::http_client::HttpClient;
use jsonrpsee::ws_client::WsClientBuilder;
use ovsdb_sim::ControlApiClient;
use patchbay_ovn_programs::testing::{self, ScratchDir, nbctl};

struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    folder: ScratchDir,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let folder = ScratchDir::new();
        let socket = folder.path().join("nb.sock");
        // A shell that runs the tests in the background has SIGINT ignored, and programs inherit this.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_ovsdb-sim")])
            .arg(format!("--listen=punix:{}", socket.display()))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, folder }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("nb.sock")
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if the program has ended already.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ovsdb-sim")).args(arguments).output().unwrap()
}

#[test]
fn the_program_prints_a_line_per_listener_and_ends_cleanly() {
    for signal in ["INT", "TERM"] {
        let mut program = Program::start(&["--listen=ptcp:0:127.0.0.1"]);
        assert_eq!(program.line(), format!("listening on {}", program.remote()));
        let tcp = program.line();
        let remote = tcp.strip_prefix("listening on ").unwrap().to_owned();
        assert!(remote.starts_with("tcp:127.0.0.1:"), "{remote}");
        for remote in [&program.remote(), &remote] {
            let output = nbctl(remote).arg("show").output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        testing::signal(&program.child, signal);
        let status = testing::wait(&mut program.child);
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{signal}");
        let mut rest = String::new();
        program.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(!program.folder.path().join("nb.sock").exists(), "the socket is removed");
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let folder = ScratchDir::new();
    let file = folder.path().join("precious");
    std::fs::write(&file, "content").unwrap();
    let output = run(&[&format!("--listen=punix:{}", file.display())]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("exists and is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");

    let socket = folder.path().join("sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
        .arg(format!("--listen=punix:{}", socket.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    testing::wait(&mut child);
    assert!(line.starts_with("listening on unix:"), "{line}");
}

#[test]
fn errors_name_the_bad_argument() {
    for (arguments, complaint) in [
        (
            &["--listen=foo:127.0.0.1:1"][..],
            "foo:127.0.0.1:1: expected punix:PATH, ptcp:PORT[:HOST], pssl:PORT[:HOST], unix:PATH, \
             tcp:HOST[:PORT], ssl:HOST[:PORT] or db:DATABASE,TABLE,COLUMN",
        ),
        (&["--listen=ptcp:x"], "ptcp:x: expected punix:PATH, ptcp:PORT[:HOST] or pssl:PORT[:HOST]"),
        (
            &["--listen=tcp:127.0.0.1:x"],
            "tcp:127.0.0.1:x: expected unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT]",
        ),
        (&["--listen=ptcp:0", "--unixctl=/nowhere/at/all/ctl"], "unixctl at /nowhere/at/all/ctl"),
        (&["--listen=punix:/nowhere/at/all/sock"], "/nowhere/at/all/sock"),
        (&["--listen=ptcp:0", "--schema=/nowhere.ovsschema"], "cannot read /nowhere.ovsschema"),
        (&["--listen=ptcp:0", "--schema=/etc/passwd"], "/etc/passwd is not a schema"),
    ] {
        let output = run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(complaint), "{arguments:?}: {error}");
    }
}

#[test]
fn log_messages_are_coloured_on_a_terminal_only() {
    let folder = ScratchDir::new();
    let file = folder.path().join("damaged.db");
    let created = Command::new(testing::program("ovsdb-tool"))
        .arg("create")
        .args([&file, &testing::installed_nb_schema()])
        .status();
    assert!(created.unwrap().success());
    let mut content = std::fs::read(&file).unwrap();
    content.extend_from_slice(b"damage\n");
    std::fs::write(&file, content).unwrap();
    // The program reports the damage and ends because of the target.
    let load = format!("--load={}", file.display());
    let arguments = [&load, "--listen=none"];
    let is_coloured = |output: Output| {
        let output = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.contains("ERROR") && output.contains("damaged.db"), "{output}");
        output.contains('\x1b')
    };
    assert!(!is_coloured(run(&arguments)), "no terminal");

    let program = env!("CARGO_BIN_EXE_ovsdb-sim");
    let on_terminal = |no_color: &str| {
        let mut script = Command::new("script");
        let command = [program, &load, "--listen=none"].join(" ");
        script.args(["--quiet", "--command", &command, "/dev/null"]);
        script.env("NO_COLOR", no_color).stdin(Stdio::null());
        is_coloured(script.output().unwrap())
    };
    assert!(on_terminal(""), "a terminal");
    assert!(!on_terminal("1"), "a terminal, and NO_COLOR");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_api_shows_the_changes_of_clients() {
    let mut program = Program::start(&["--control=127.0.0.1:0"]);
    program.line();
    let address = program.line().strip_prefix("control API on http://").unwrap().to_owned();
    let made =
        nbctl(&program.remote()).args(["ls-add", "sw0", "--", "lr-add", "lr0"]).status().unwrap();
    assert!(made.success());

    let http = HttpClient::builder().build(format!("http://{address}")).unwrap();
    let printed = nbctl(&program.remote()).arg("show").output().unwrap();
    assert_eq!(http.show(None).await.unwrap(), String::from_utf8(printed.stdout).unwrap());
    assert!(http.show(Some("lr0".to_owned())).await.unwrap().starts_with("router "));

    let ws = WsClientBuilder::default().build(format!("ws://{address}")).await.unwrap();
    let dump = ws.dump(None).await.unwrap();
    let switches = dump["Logical_Switch"].as_object().unwrap();
    assert_eq!(switches.values().next().unwrap()["name"], "sw0");
    let error = ws.dump(Some("Nope".to_owned())).await.unwrap_err().to_string();
    assert!(error.contains("this server has no database Nope"), "{error}");

    let stats = ws.stats().await.unwrap();
    let northbound =
        stats.databases.iter().find(|database| database.name == "OVN_Northbound").unwrap();
    // ovn-nbctl inserts the missing row of NB_Global in the same transaction.
    assert_eq!((northbound.rows, northbound.commits), (3, 1));
}

#[test]
fn a_schema_without_an_end_is_refused() {
    let output = run(&["--schema=/dev/zero"]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    let text = "cannot read /dev/zero: it has more than 16777216 bytes";
    assert!(error.contains(text), "{error}");
}

#[test]
fn a_write_beyond_the_limit_of_file_sizes_fails_and_the_server_goes_on() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let journal = folder.path().join("nb.db");
    // The limit is in blocks of 512 bytes.
    let command = format!(
        "ulimit -f 1024; exec {} --listen=punix:{} --journal={}",
        env!("CARGO_BIN_EXE_ovsdb-sim"),
        socket.display(),
        journal.display()
    );
    let mut child =
        Command::new("sh").args(["-c", &command]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening"), "{line}");
    let remote = format!("unix:{}", socket.display());
    let value = "x".repeat(100_000);
    let add = |number: usize| {
        let mut command = nbctl(&remote);
        command.args(["ls-add", &format!("sw{number}"), "--", "set"]);
        command.args(["Logical_Switch", &format!("sw{number}")]);
        command.arg(format!("external_ids:a={value}"));
        command.output().unwrap()
    };
    let refused = (0..20).map(add).find(|output| !output.status.success());
    let error = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(error.contains("File too large"), "{error}");
    let shown = nbctl(&remote).arg("show").output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    child.kill().unwrap();
    testing::wait(&mut child);
}

#[test]
fn compact_writes_a_journal_again_that_was_unlinked() {
    let folder = ScratchDir::new();
    let [journal, unixctl] = ["nb.db", "ctl"].map(|name| folder.path().join(name));
    let mut program = Program::start(&[
        &format!("--journal={}", journal.display()),
        &format!("--unixctl={}", unixctl.display()),
    ]);
    program.line();
    let add = |name: &str| {
        let added = nbctl(&program.remote()).args(["ls-add", name]).status();
        assert!(added.unwrap().success());
    };
    add("sw0");
    std::fs::remove_file(&journal).unwrap();
    let compact = Command::new(testing::program("ovs-appctl"))
        .arg(format!("--target={}", unixctl.display()))
        .args(["--timeout=60", "ovsdb-server/compact"])
        .output()
        .unwrap();
    assert!(compact.status.success(), "{compact:?}");
    add("sw1");
    let log = Command::new(testing::program("ovsdb-tool"))
        .args(["-mm", "show-log"])
        .arg(&journal)
        .output()
        .unwrap();
    let text = String::from_utf8(log.stdout).unwrap();
    assert!(text.contains("sw0") && text.contains("sw1"), "{text}");
}
