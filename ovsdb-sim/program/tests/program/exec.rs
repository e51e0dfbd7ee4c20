//! `ovsdb-sim exec`: a command with a server of its own.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

use patchbay_ovn_programs::testing::{self, ScratchDir};

const SIM: &str = env!("CARGO_BIN_EXE_ovsdb-sim");

fn exec(options: &[&str], command: &[&str]) -> Output {
    Command::new(SIM).arg("exec").args(options).arg("--").args(command).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Starts a command that prints a line, and returns the line.
fn start(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line.trim_end().to_owned())
}

#[test]
fn a_command_finds_the_server_by_its_environment() {
    let nbctl = testing::program("ovn-nbctl");
    let script =
        format!("{0} ls-add sw0 && {0} --bare --columns=name find Logical_Switch", nbctl.display());
    let output = exec(&[], &["sh", "-c", &script]);
    assert_eq!((text(&output.stdout), output.status.code()), ("sw0\n", Some(0)), "{output:?}");

    let sbctl = testing::program("ovn-sbctl");
    let script = format!(
        "{} init && echo $OVN_NB_DB- && test -S $OVS_RUNDIR/db.sock && curl -s $OVSDB_SIM_CONTROL \
         -H content-type:application/json \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sim_text\"}}' | grep -c SB_Global",
        sbctl.display()
    );
    let output = exec(&["--schema=southbound", "--schema=vswitch"], &["sh", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    // There is no Northbound database.
    assert_eq!(text(&output.stdout), "-\n1\n");
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    let folder = ScratchDir::new();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    for (command, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["/nowhere/at/all"], 127),
        (&[file.to_str().unwrap()], 126),
    ] {
        let output = exec(&[], command);
        assert_eq!(output.status.code(), Some(status), "{command:?}: {output:?}");
    }
    for (arguments, problem) in [
        (&["exec"][..], "exec needs a command after --"),
        (&["exec", "true"], "exec needs a command after --"),
        (&["exec", "--detach", "--", "true"], "exec has neither --detach, --monitor nor --run"),
    ] {
        let output = Command::new(SIM).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(problem), "{arguments:?}: {output:?}");
    }
}

#[test]
fn options_and_arguments_are_those_of_both() {
    let output = exec(&["--seed=1"], &["sh", "-c", "echo $#-$1", "name", "--listen=x"]);
    assert_eq!(text(&output.stdout), "1---listen=x\n");
    let output = exec(&["--schema=/nowhere"], &["true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot read /nowhere"), "{output:?}");
}

#[test]
fn signals_go_to_the_command() {
    let script = "trap 'echo got it; exit 9' TERM USR1; echo ready; while :; do sleep 0.05; done";
    for signal in ["TERM", "USR1"] {
        let mut command = Command::new(SIM);
        let (mut child, mut out, line) = start(command.args(["exec", "--", "sh", "-c", script]));
        assert_eq!(line, "ready");
        testing::signal(&child, signal);
        assert_eq!(testing::wait(&mut child).code(), Some(9), "{signal}");
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got it\n");
    }
}

/// The command waits for the end of its standard input, which the test's shell holds open.
const PRINT_REMOTE: &str = "echo $OVSDB_SIM_REMOTE; exec cat";

#[test]
fn no_server_is_left_whatever_dies() {
    let socket_of = |line: &str| line.strip_prefix("unix:").unwrap().to_owned();
    // The command ends.
    let output = exec(&[], &["sh", "-c", "echo $OVSDB_SIM_REMOTE"]);
    let socket = socket_of(text(&output.stdout).trim_end());
    assert!(!std::path::Path::new(&socket).parent().unwrap().exists(), "the folder is removed");

    // The server is killed.
    let mut command = Command::new(SIM);
    command.args(["exec", "--", "sh", "-c", PRINT_REMOTE]).stdin(Stdio::piped());
    let (mut child, _out, line) = start(&mut command);
    let socket = socket_of(&line);
    assert!(UnixStream::connect(&socket).is_ok());
    testing::signal(&child, "KILL");
    testing::wait(&mut child);
    assert!(UnixStream::connect(&socket).is_err());
    drop(child);

    // The parent is killed: standard output ends when the server and the command have ended.
    let script = format!("{SIM} exec -- sh -c '{PRINT_REMOTE}' <&3 & wait");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 3<&0; {script}")]).stdin(Stdio::piped());
    let (mut child, mut out, line) = start(&mut command);
    let socket = socket_of(&line);
    assert!(UnixStream::connect(&socket).is_ok());
    testing::signal(&child, "KILL");
    // Standard input stays open meanwhile, so only the signal ends the command.
    let input = child.stdin.take();
    out.read_to_string(&mut String::new()).unwrap();
    assert!(UnixStream::connect(&socket).is_err());
    testing::wait(&mut child);
    drop(input);
}
