//! What tests need of the program: schemas by name, rows from files, an end with the parent, and
//! errors instead of surprises.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use jsonrpsee::http_client::HttpClient;
use ovsdb_sim::ControlApiClient;
use patchbay_ovn_programs::testing::{self, ScratchDir, nbctl};

use crate::passive_source::wait_until;
use crate::{Program, run};

const SIM: &str = env!("CARGO_BIN_EXE_ovsdb-sim");

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn without_options_the_program_says_what_it_needs() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("no remote is given at which clients can connect (--listen)"),
        "{error}"
    );
    // The examples are in the help, too, and the first one works.
    let help = run(&["--help"]);
    let example = "ovsdb-sim exec -- ovn-nbctl show";
    assert!(error.contains(example) && text(&help.stdout).contains(example));
    let program = testing::program("ovn-nbctl");
    let output = run(&["exec", "--", program.to_str().unwrap(), "show"]);
    assert!(output.status.success(), "{output:?}");
    // A server that nobody can reach is of no use either.
    let output = run(&["--seed=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no remote is given"), "{output:?}");
}

#[test]
fn a_live_socket_is_refused_unless_it_is_to_be_replaced() {
    let mut first = Program::start(&[]);
    first.line();
    let listen = format!("--listen=punix:{}", first.socket().display());
    let output = run(&[&listen]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    let wanted = format!("a server listens at {}", first.socket().display());
    assert!(error.contains(&wanted) && error.contains("--replace-sockets"), "{error}");
    let output = run(&["--listen=ptcp:0", &format!("--unixctl={}", first.socket().display())]);
    assert!(text(&output.stderr).contains(&wanted), "{output:?}");
    assert!(nbctl(&first.remote()).arg("show").status().unwrap().success());

    // As ovsdb-server, it does what ovsdb-server does.
    let folder = ScratchDir::new();
    let server = folder.path().join("ovsdb-server");
    std::os::unix::fs::symlink(SIM, &server).unwrap();
    for mut command in [Command::new(SIM), Command::new(server)] {
        if command.get_program() == SIM {
            command.arg("--replace-sockets");
        } else {
            command.arg("--no-dbs");
        }
        let unixctl = folder.path().join("ctl");
        let mut child =
            command.arg(&listen).arg(format!("--unixctl={}", unixctl.display())).spawn().unwrap();
        wait_until(|| UnixStream::connect(&unixctl).is_ok(), "the server listens");
        testing::signal(&child, "TERM");
        assert!(testing::wait(&mut child).success());
    }
}

#[test]
fn rows_of_files_are_there_at_the_start_and_after_a_reset() {
    let folder = ScratchDir::new();
    let [rows, more] = ["rows.yaml", "more.json"].map(|name| folder.path().join(name));
    fs::write(
        &rows,
        "Logical_Switch: {sw0: {ports: [sw0-p1]}}\nLogical_Switch_Port: {sw0-p1: {}}\n",
    )
    .unwrap();
    fs::write(&more, r#"{"Chassis_Private": {"hv1": {}}}"#).unwrap();
    let mut program = Program::start(&[
        "--schema=northbound",
        "--schema=OVN_Southbound",
        &format!("--rows={}", rows.display()),
        &format!("--rows=OVN_Southbound={}", more.display()),
        "--control=127.0.0.1:0",
    ]);
    program.line();
    let address = program.line().strip_prefix("control API on ").unwrap().to_owned();
    let names = || {
        let output = nbctl(&program.remote())
            .args(["--bare", "--columns=name", "list", "Logical_Switch"])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(names(), "sw0\n");
    assert!(nbctl(&program.remote()).args(["ls-del", "sw0"]).status().unwrap().success());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let http = HttpClient::builder().build(&address).unwrap();
        http.reset(Some("start".to_owned())).await.unwrap();
        let chassis = http.text(Some("OVN_Southbound".to_owned())).await.unwrap();
        assert_eq!(chassis, "Chassis_Private hv1\n    name: hv1\n");
    });
    assert_eq!(names(), "sw0\n");

    fs::write(&rows, "Logical_Switch: {sw0: {ports: [p]}}").unwrap();
    for (arguments, problem) in [
        (
            format!("--rows={}", rows.display()),
            format!(
                "{}: Logical_Switch sw0, column ports: there is no Logical_Switch_Port \"p\"",
                rows.display()
            ),
        ),
        (
            format!("--rows=OVN_Southbound={}", rows.display()),
            format!("{}: there is no database OVN_Southbound for the rows", rows.display()),
        ),
        ("--rows=/nowhere".to_owned(), "cannot read /nowhere".to_owned()),
    ] {
        let output = run(&["--listen=ptcp:0", &arguments]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(&problem), "{arguments}: {output:?}");
    }
}

#[test]
fn the_server_ends_with_its_parent() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("sock");
    let script = format!(
        "{SIM} --listen=punix:{} --exit-with-parent=$$ --control=127.0.0.1:0 & wait",
        socket.display()
    );
    let mut shell =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    testing::signal(&shell, "KILL");
    testing::wait(&mut shell);
    // The server has the only other end of the pipe.
    out.read_to_string(&mut String::new()).unwrap();
    assert!(!socket.exists(), "the socket is removed");

    // The parent has ended before the server began.
    let mut child = Command::new(SIM)
        .arg(format!("--listen=punix:{}", socket.display()))
        .arg("--exit-with-parent=1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(testing::wait(&mut child).success());
}

#[test]
fn an_end_that_a_user_wants_is_no_warning() {
    let folder = ScratchDir::new();
    let mut child = Command::new(SIM)
        .arg(format!("--listen=punix:{}", folder.path().join("sock").display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    testing::signal(&child, "TERM");
    assert!(testing::wait(&mut child).success());
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
