//! The two servers as processes, and what the system says of them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ovsdb_sim::testing::{ScratchDir, installed_nb_schema, program};

/// A server process; dropping it ends it.
pub(crate) struct Server {
    child: Child,
    socket: PathBuf,
    _folder: ScratchDir,
}

impl Server {
    /// The real one, on an empty database file.
    pub(crate) fn real() -> Result<Self> {
        let folder = ScratchDir::new();
        let (database, socket) = (folder.path().join("db"), folder.path().join("sock"));
        let created = Command::new(program("ovsdb-tool"))
            .arg("create")
            .arg(&database)
            .arg(installed_nb_schema())
            .status()?;
        anyhow::ensure!(created.success(), "ovsdb-tool create failed");
        let child = Command::new(program("ovsdb-server"))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", folder.path().join("ctl").display()))
            .arg(&database)
            .stderr(Stdio::null())
            .spawn()?;
        for _ in 0..1000 {
            if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
                return Ok(Self {
                    child,
                    socket,
                    _folder: folder,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("ovsdb-server does not answer");
    }

    /// Ours, built in release mode by the same `cargo bench`.
    pub(crate) fn simulator() -> Result<Self> {
        let folder = ScratchDir::new();
        let socket = folder.path().join("sock");
        let mut child = Command::new(simulator_program()?)
            .arg(format!("--listen=punix:{}", socket.display()))
            .arg("--schema")
            .arg(installed_nb_schema())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("a piped output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(Self {
            child,
            socket,
            _folder: folder,
        })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Resident bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// CPU time so far, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Fields 14 and 15, counted behind the name, which may hold spaces; in ticks of 10 ms.
        let (_, fields) = stat.rsplit_once(')').context("stat")?;
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse().unwrap_or(0))
            .sum();
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the server has ended already.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

/// `ovsdb-sim` in the folder where cargo puts the release programs; built when it is not there.
fn simulator_program() -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--package", "ovsdb-sim"])
        .status()?;
    anyhow::ensure!(status.success(), "ovsdb-sim does not build");
    // .../target/release/deps/server-<hash>
    let folder = std::env::current_exe()?
        .parent()
        .and_then(Path::parent)
        .context("a target folder")?
        .to_owned();
    Ok(folder.join("ovsdb-sim"))
}
