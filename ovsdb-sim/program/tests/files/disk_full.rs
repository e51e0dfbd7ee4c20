//! A journal that cannot be written.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

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

/// The program, allowed to write files of 16 KiB.
fn start(dir: &Path) -> Program {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 32; exec \"$0\" --listen punix:sim.sock --schema \"$1\" --journal D=sim.db")
        .arg(env!("CARGO_BIN_EXE_ovsdb-sim"))
        .arg(schema_file(dir))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    let program = Program(child);
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    program
}

#[test]
fn a_transaction_that_cannot_be_written_changes_nothing() {
    let dir = ScratchDir::new();
    let (socket, file) = (dir.path().join("sim.sock"), dir.path().join("sim.db"));
    let program = start(dir.path());
    let child = r#"{"op":"insert","table":"Child","uuid-name":"c","row":{"name":"child"}}"#;
    let parent =
        r#"{"op":"insert","table":"Parent","row":{"name":"parent","children":["named-uuid","c"]}}"#;
    let other = r#"{"op":"insert","table":"Parent","row":{"name":"other","number":1}}"#;
    let befriend = r#"{"op":"insert","table":"Parent","uuid-name":"f","row":{"name":"friend","number":2}},
        {"op":"update","table":"Parent","where":[["name","==","other"]],"row":{"friends":["named-uuid","f"]}}"#;
    for step in [&format!("{child},{parent}"), other, befriend] {
        let reply = transact(&socket, step);
        assert!(!reply.contains("error"), "{reply}");
    }
    let before = dump(&socket);

    // Inserts, updates and deletes, with removed references and collected rows.
    let too_much = format!(
        r#"{{"op":"insert","table":"Parent","row":{{"name":"{}","number":9}}}},
           {{"op":"delete","table":"Parent","where":[["name","==","friend"]]}},
           {{"op":"update","table":"Parent","where":[["name","==","parent"]],"row":{{"children":["set",[]],"range":3}}}}"#,
        "x".repeat(20_000)
    );
    for _ in 0..2 {
        let reply = transact(&socket, &too_much);
        let details =
            reply.split_once(r#"{"count":1},{"count":1},{"#).unwrap_or_else(|| panic!("{reply}")).1;
        let error = r#"sim.db: write failed","error":"I/O error","io-error":"File too large"}"#;
        assert!(details.contains(error), "{reply}");
        assert_eq!(dump(&socket), before);
    }

    // A transaction that is small enough is still written.
    let small =
        r#"{"op":"update","table":"Parent","where":[["name","==","other"]],"row":{"range":1}}"#;
    assert_eq!(transact(&socket, small), "[{\"count\":1}]\n");
    let after = dump(&socket);
    assert_ne!(after, before);
    drop(program);
    assert_eq!(dump(RealServer::open([&file]).socket()), after);
}
