//! The program `ovsdb-sim` for a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use patchbay_ovn_programs::testing::ScratchDir;

/// Running `ovsdb-sim` at a unix socket. Dropping it kills the program.
pub(crate) struct SimServer {
    child: Child,
    dir: ScratchDir,
}

impl SimServer {
    /// Starts the program with an empty database of the schema. Returns when it listens.
    pub(crate) fn start(schema: &Path) -> Self {
        let dir = ScratchDir::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"))
            .arg("--listen")
            .arg(format!("punix:{}", socket(&dir)))
            .arg("--schema")
            .arg(schema)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a built program starts");
        let stdout = child.stdout.take().expect("a piped output");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the program prints text");
        assert!(line.starts_with("listening on "), "ovsdb-sim does not listen: {line}");
        Self { child, dir }
    }

    /// The server's address for OVSDB clients.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", socket(&self.dir))
    }
}

impl Drop for SimServer {
    fn drop(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(dir: &ScratchDir) -> String {
    dir.path().join("db.sock").display().to_string()
}
