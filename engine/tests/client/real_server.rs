//! The real `ovsdb-server`, which a test can kill, start again and hold up.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tempfile::TempDir;

use crate::TEST_TIMEOUT;

/// Debian keeps `ovsdb-server` where not every user's path goes.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// A server with one database, listening on a unix socket in a folder of its own. Ends when
/// dropped.
pub(crate) struct RealServer {
    dir: TempDir,
    child: Option<Child>,
}

impl RealServer {
    /// Serves an empty database with a schema.
    pub(crate) fn start(schema: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self { dir, child: None };
        let schema_file = server.file("schema");
        fs::write(&schema_file, schema).unwrap();
        run("ovsdb-tool", |tool| tool.arg("create").args([server.file("db"), schema_file]));
        server.start_again();
        server
    }

    /// Serves an empty database with the installed OVN's schema.
    pub(crate) fn with_installed_schema() -> Self {
        let file = env::var_os("OVN_NB_SCHEMA")
            .map_or("/usr/share/ovn/ovn-nb.ovsschema".into(), PathBuf::from);
        Self::start(
            &fs::read_to_string(file).expect("OVN's schemas; Debian: apt-get install ovn-common"),
        )
    }

    /// `unix:PATH`
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts the server on the existing database file.
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.is_none());
        let _ = fs::remove_file(self.socket());
        let mut command = Command::new(program("ovsdb-server"));
        command.arg(format!("--remote=punix:{}", self.socket().display()));
        command.arg(format!("--unixctl={}", self.file("ctl").display())).arg(self.file("db"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + TEST_TIMEOUT;
        while UnixStream::connect(self.socket()).is_err() {
            assert!(Instant::now() < deadline, "ovsdb-server does not answer");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Converts the database of a stopped server to another schema.
    pub(crate) fn convert(&self, schema: &str) {
        assert!(self.child.is_none());
        let schema_file = self.file("schema");
        fs::write(&schema_file, schema).unwrap();
        run("ovsdb-tool", |tool| tool.arg("convert").args([self.file("db"), schema_file]));
    }

    /// Stops the server's process (`SIGSTOP`).
    pub(crate) fn hold(&self) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        run("kill", |kill| kill.args(["-STOP", &pid]));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn run(name: &str, with: impl FnOnce(&mut Command) -> &mut Command) {
    let output = with(&mut Command::new(program(name))).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|file: &PathBuf| Path::is_file(file));
    found.unwrap_or_else(|| {
        panic!("{name} is not installed; Debian: apt-get install ovn-central openvswitch-common")
    })
}
