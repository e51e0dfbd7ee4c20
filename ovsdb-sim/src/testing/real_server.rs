//! The real `ovsdb-server`, for the length of a test.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Release, ScratchDir};

/// How long a server may take until it answers: far more than it needs, even on a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait between two looks at whether the server answers.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running `ovsdb-server` listening on a unix socket in a folder of its own. Dropping it ends
/// the server and removes the folder.
#[derive(Debug)]
pub struct RealServer {
    child: Child,
    databases: Vec<PathBuf>,
    socket: PathBuf,
    unixctl: PathBuf,
    // Dropped after the server has ended.
    _dir: ScratchDir,
}

impl RealServer {
    /// Starts a server with one empty database for each of the `.ovsschema` files, and returns once it answers.
    ///
    /// # Panics
    ///
    /// When `ovsdb-server` or `ovsdb-tool` is not installed, refuses a schema or does not answer in time.
    #[must_use]
    pub fn start<P: AsRef<Path>>(schemas: impl IntoIterator<Item = P>) -> Self {
        Self::start_of(&Release::installed(), schemas)
    }

    /// Like [`start`](Self::start), of a release.
    ///
    /// # Panics
    ///
    /// Like [`start`](Self::start).
    #[must_use]
    pub fn start_of<P: AsRef<Path>>(
        release: &Release,
        schemas: impl IntoIterator<Item = P>,
    ) -> Self {
        let dir = ScratchDir::new();
        let databases: Vec<_> = schemas
            .into_iter()
            .enumerate()
            .map(|(number, schema)| {
                let file = dir.path().join(format!("{number}.db"));
                create(release, &file, schema.as_ref())
            })
            .collect();
        Self::serve(release, dir, databases)
    }

    /// Starts a server that is the only member of a cluster for a database of this name, empty and with the schema of
    /// the `.ovsschema` file, and returns once it leads the cluster.
    ///
    /// # Panics
    ///
    /// When a program of Open vSwitch is not installed, refuses the schema or does not answer in time.
    #[must_use]
    pub fn start_clustered(release: &Release, database: &str, schema: &Path) -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("0.db");
        let address = format!("unix:{}", dir.path().join("raft.sock").display());
        run_tool(
            release
                .command("ovsdb-tool")
                .arg("create-cluster")
                .args([&file, schema])
                .arg(address),
        );
        let server = Self::serve(release, dir, vec![file]);
        let timeout = format!("--timeout={}", START_TIMEOUT.as_secs());
        run_tool(release.command("ovsdb-client").args([
            &timeout,
            "wait",
            &server.remote(),
            database,
            "connected",
        ]));
        server
    }

    /// Starts a server with these database files, which it will go on to write, and returns once it answers.
    ///
    /// # Panics
    ///
    /// When `ovsdb-server` is not installed, refuses a file or does not answer in time.
    #[must_use]
    pub fn open<P: AsRef<Path>>(databases: impl IntoIterator<Item = P>) -> Self {
        let databases = databases
            .into_iter()
            .map(|database| database.as_ref().to_owned());
        Self::serve(
            &Release::installed(),
            ScratchDir::new(),
            databases.collect(),
        )
    }

    fn serve(release: &Release, dir: ScratchDir, databases: Vec<PathBuf>) -> Self {
        let socket = dir.path().join("db.sock");
        let unixctl = dir.path().join("ctl.sock");
        let log = dir.path().join("log");
        let child = release
            .command("ovsdb-server")
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", unixctl.display()))
            .args(&databases)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file in a fresh folder"))
            .spawn()
            .expect("an installed program starts");
        let mut server = Self {
            child,
            databases,
            socket,
            unixctl,
            _dir: dir,
        };
        server.wait_until_ready(&log);
        server
    }

    /// The socket that the server listens on.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The socket for `ovs-appctl`.
    pub fn unixctl(&self) -> &Path {
        &self.unixctl
    }

    /// The server's address as OVSDB clients spell it, `unix:PATH`.
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The database files, in the order in which they or their schemas were given. Every transaction that changes something appends to its
    /// database's file.
    pub fn databases(&self) -> &[PathBuf] {
        &self.databases
    }

    fn wait_until_ready(&mut self, log: &Path) {
        let deadline = Instant::now() + START_TIMEOUT;
        while UnixStream::connect(&self.socket).is_err() {
            let ended = self.child.try_wait().expect("a child can be waited for");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "ovsdb-server does not answer ({}):\n{}",
                ended.map_or_else(|| "still starting".to_owned(), |status| status.to_string()),
                fs::read_to_string(log).unwrap_or_default()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // Both fail only when the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an empty database file with `ovsdb-tool`.
fn create(release: &Release, database: &Path, schema: &Path) -> PathBuf {
    run_tool(
        release
            .command("ovsdb-tool")
            .arg("create")
            .args([database, schema]),
    );
    database.to_owned()
}

/// Runs a program that must succeed.
fn run_tool(command: &mut Command) {
    let output = command.output().expect("an installed program starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
