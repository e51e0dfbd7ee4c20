//! The two servers of a comparison, with a folder for their clients.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir};

/// Server with a folder for its clients.
pub(crate) struct Server {
    socket: PathBuf,
    _process: Process,
    dir: ScratchDir,
}

enum Process {
    Real { _server: RealServer },
    Sim(Child),
}

impl Server {
    /// Starts the real ovsdb-server with empty databases.
    pub(crate) fn real(release: &Release, schemas: &Vec<PathBuf>) -> Self {
        let server = RealServer::start_release(release, schemas);
        Self {
            socket: server.socket().to_owned(),
            _process: Process::Real { _server: server },
            dir: ScratchDir::new(),
        }
    }

    /// Starts the real ovsdb-server as the only member of a cluster, with an empty database.
    pub(crate) fn real_member(release: &Release, database: &str, schema: &Path) -> Self {
        let server = RealServer::start_clustered(release, database, schema);
        Self {
            socket: server.socket().to_owned(),
            _process: Process::Real { _server: server },
            dir: ScratchDir::new(),
        }
    }

    /// Starts the program `ovsdb-sim` with empty databases.
    pub(crate) fn sim(_: &Release, schemas: &Vec<PathBuf>) -> Self {
        Self::sim_as("standalone", schemas)
    }

    /// Starts the program `ovsdb-sim` with empty databases of a model.
    pub(crate) fn sim_as(model: &str, schemas: &Vec<PathBuf>) -> Self {
        let dir = ScratchDir::new();
        let socket = dir.path().join("db.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovsdb-sim"));
        command.args(["--model", model, "--listen"]).arg(format!("punix:{}", socket.display()));
        for schema in schemas {
            command.arg("--schema").arg(schema);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a built program starts");
        let stdout = child.stdout.take().expect("a piped output");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        assert!(
            read.is_ok() && line.starts_with("listening on "),
            "ovsdb-sim does not listen: {line}"
        );
        Self { socket, _process: Process::Sim(child), dir }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The server's address for OVSDB clients.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The folder for files of clients.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Sim(child) = self {
            // Both fail only if the program has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
