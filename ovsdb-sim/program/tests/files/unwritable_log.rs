//! A standard error that cannot be written, beside a journal that cannot be written.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir};

use super::servers::{dump, transact};
use super::steps::schema_file;

/// Program that is killed at the end of the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program with a limit of the shell (`ulimit`) and a standard error, and waits until it
/// listens at `sim.sock`.
fn start(dir: &Path, limit: &str, stderr: impl Into<Stdio>) -> Program {
    let command = format!(
        "trap '' XFSZ; ulimit {limit}; exec \"$0\" --listen punix:sim.sock --schema \"$1\" --journal D=sim.db"
    );
    let mut child = Command::new("sh")
        .args(["-c", &command, env!("CARGO_BIN_EXE_ovsdb-sim")])
        .arg(schema_file(dir))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let program = Program(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    program
}

/// `true` if the server answers an `echo`.
fn is_served(dir: &Path) -> bool {
    let mut stream = UnixStream::connect(dir.join("sim.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let request = br#"{"id":1,"method":"echo","params":[]}"#;
    stream.write_all(request).unwrap_or_default();
    matches!(stream.read(&mut [0; 64]), Ok(count) if count > 0)
}

/// Standard errors that cannot be written: a full disk, a closed pipe, and a full pipe, whose
/// reader is returned.
fn unwritable() -> Vec<(Stdio, Option<std::io::PipeReader>)> {
    let full_disk = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (closed_reader, closed) = std::io::pipe().unwrap();
    drop(closed_reader);
    let (reader, full) = std::io::pipe().unwrap();
    vec![(full_disk.into(), None), (closed.into(), None), (full.into(), Some(reader))]
}

#[test]
fn more_connections_than_descriptors_do_not_stop_the_server() {
    for (stderr, _reader) in unwritable() {
        let dir = ScratchDir::new();
        let program = start(dir.path(), "-n 64", stderr);
        let clients: Vec<_> =
            (0..80).map(|_| UnixStream::connect(dir.path().join("sim.sock")).unwrap()).collect();
        drop(clients);
        // The accepting task pauses after a failure.
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            is_served(dir.path())
        }));
        drop(program);
    }
}

#[test]
fn a_transaction_that_neither_journal_nor_log_takes_has_no_effect_after_a_restart() {
    for (stderr, _reader) in unwritable() {
        let dir = ScratchDir::new();
        let (socket, file) = (dir.path().join("sim.sock"), dir.path().join("sim.db"));
        let program = start(dir.path(), "-f 32", stderr);
        let named = |name: &str| {
            format!(r#"{{"op":"insert","table":"Parent","row":{{"name":"{name}","number":9}}}}"#)
        };
        // Many failures fill a pipe that nobody reads.
        for _ in 0..400 {
            let reply = transact(&socket, &named(&"x".repeat(20_000)));
            assert!(reply.contains(r#""error":"I/O error""#), "{reply}");
        }
        let update =
            r#"{"op":"update","table":"Parent","where":[["number","==",9]],"row":{"range":1}}"#;
        assert_eq!(transact(&socket, update), "[{\"count\":0}]\n");
        assert!(!transact(&socket, &named("small")).contains("error"));
        assert_eq!(transact(&socket, update), "[{\"count\":1}]\n");
        let before = dump(&socket);
        drop(program);
        assert_eq!(dump(RealServer::open([&file]).socket()), before);
    }
}
