//! The simulator at a socket, and the real programs as clients of it and of the real server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ovsdb_sim::{Listener, Sim, SimBuilder};
use patchbay_ovn_programs::testing::{ScratchDir, program};
use tokio::runtime::Runtime;

/// Simulator with a socket.
pub(crate) struct SimServer {
    socket: PathBuf,
    // Dropped in this order, because a listener needs its runtime.
    _listener: Listener,
    _runtime: Runtime,
    _dir: ScratchDir,
}

impl SimServer {
    /// Starts the simulator that a builder describes.
    pub(crate) fn start(builder: SimBuilder) -> Self {
        let dir = ScratchDir::new();
        let socket = dir.path().join("sim.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let sim = builder.build().unwrap();
        let target = format!("punix:{}", socket.display());
        let listener = runtime.block_on(sim.listen(&target)).unwrap();
        Self { socket, _listener: listener, _runtime: runtime, _dir: dir }
    }

    /// Starts a simulator that loads a file.
    pub(crate) fn load(file: &Path) -> Self {
        Self::start(Sim::builder().load(file))
    }

    /// Starts a simulator with a file as its journal.
    pub(crate) fn journal(file: &Path) -> Self {
        Self::start(Sim::builder().journal(file))
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Runs a program, which must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The error output of a program.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn client(socket: &Path, method: &str, argument: &str) -> String {
    run(Command::new(program("ovsdb-client"))
        .args(["--timeout=20", method])
        .arg(format!("unix:{}", socket.display()))
        .arg(argument))
}

/// The reply to operations on database D.
pub(crate) fn transact(socket: &Path, operations: &str) -> String {
    client(socket, "transact", &format!("[\"D\",{operations}]"))
}

/// All rows of database D, in an order that depends only on them.
pub(crate) fn dump(socket: &Path) -> String {
    client(socket, "dump", "D")
}

/// `ovsdb-tool` on a file.
pub(crate) fn tool(command: &str, file: &Path) -> Command {
    let mut tool = Command::new(program("ovsdb-tool"));
    tool.arg(command).arg(file);
    tool
}
