//! Real `ovsdb-server` for a test.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Release, ScratchDir};

/// Time in which a server must answer: far more than it needs, even on a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time between two checks whether the server answers.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Running `ovsdb-server` that listens at a unix socket in a temporary folder. Dropping it kills
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
    /// Starts a server with one empty database for each of the `.ovsschema` files. Returns when it
    /// answers.
    ///
    /// # Panics
    ///
    /// If `ovsdb-server` or `ovsdb-tool` is not installed, rejects a schema or does not answer in
    /// time.
    #[must_use]
    pub fn start<P: AsRef<Path>>(schemas: impl IntoIterator<Item = P>) -> Self {
        Self::start_release(&Release::installed(), schemas)
    }

    /// Starts the server of a release, like [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// If [`start`](Self::start) does.
    #[must_use]
    pub fn start_release<P: AsRef<Path>>(
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

    /// Starts a server that is the only member of a cluster. The empty database has this name and
    /// the schema of the `.ovsschema` file. Returns when the server leads the cluster.
    ///
    /// # Panics
    ///
    /// If a program of Open vSwitch is not installed, rejects the schema or does not answer in
    /// time.
    #[must_use]
    pub fn start_clustered(release: &Release, database: &str, schema: &Path) -> Self {
        let dir = ScratchDir::new();
        let file = dir.path().join("0.db");
        let address = format!("unix:{}", dir.path().join("raft.sock").display());
        run_tool(
            release.command("ovsdb-tool").arg("create-cluster").args([&file, schema]).arg(address),
        );
        let server = Self::serve(release, dir, vec![file]);
        server.wait_until_connected(release, database);
        server
    }

    /// Starts a relay of the database of this name at a remote. Returns when it is connected.
    ///
    /// # Panics
    ///
    /// If a program of Open vSwitch is not installed or does not answer in time.
    #[must_use]
    pub fn start_relay(release: &Release, database: &str, remote: &str) -> Self {
        let argument = format!("relay:{database}:{remote}");
        let server = Self::serve(release, ScratchDir::new(), vec![argument.into()]);
        server.wait_until_connected(release, database);
        server
    }

    /// Starts a server with these database files, to which it appends. Returns when it answers.
    ///
    /// # Panics
    ///
    /// If `ovsdb-server` is not installed, rejects a file or does not answer in time.
    #[must_use]
    pub fn open<P: AsRef<Path>>(databases: impl IntoIterator<Item = P>) -> Self {
        let databases = databases.into_iter().map(|database| database.as_ref().to_owned());
        Self::serve(&Release::installed(), ScratchDir::new(), databases.collect())
    }

    fn serve(release: &Release, dir: ScratchDir, databases: Vec<PathBuf>) -> Self {
        let socket = dir.path().join("db.sock");
        let unixctl = dir.path().join("ctl.sock");
        let log = dir.path().join("log");
        let child = release
            .command("ovsdb-server")
            // Lock files of relays are made there.
            .current_dir(dir.path())
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", unixctl.display()))
            .args(&databases)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file in a fresh folder"))
            .spawn()
            .expect("an installed program starts");
        let mut server = Self { child, databases, socket, unixctl, _dir: dir };
        server.wait_until_ready(&log);
        server
    }

    /// The path of the socket for clients.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The path of the socket for `ovs-appctl`.
    pub fn unixctl(&self) -> &Path {
        &self.unixctl
    }

    /// The address for clients, `unix:PATH`.
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The database files, in the order of the arguments of the constructor. Every transaction that
    /// changes something appends to its database's file.
    pub fn databases(&self) -> &[PathBuf] {
        &self.databases
    }

    /// Waits until the server of a cluster or of a relay is connected.
    fn wait_until_connected(&self, release: &Release, database: &str) {
        let timeout = format!("--timeout={}", START_TIMEOUT.as_secs());
        run_tool(release.command("ovsdb-client").args([
            &timeout,
            "wait",
            &self.remote(),
            database,
            "connected",
        ]));
    }

    /// Waits until both sockets are open. That of `ovs-appctl` is the last one.
    fn wait_until_ready(&mut self, log: &Path) {
        let deadline = Instant::now() + START_TIMEOUT;
        let sockets = [self.socket.clone(), self.unixctl.clone()];
        while sockets.iter().any(|socket| UnixStream::connect(socket).is_err()) {
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
        // Both fail only if the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates an empty database file with `ovsdb-tool`.
fn create(release: &Release, database: &Path, schema: &Path) -> PathBuf {
    run_tool(release.command("ovsdb-tool").arg("create").args([database, schema]));
    database.to_owned()
}

/// Runs a program, which must succeed.
fn run_tool(command: &mut Command) {
    let output = command.output().expect("an installed program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
