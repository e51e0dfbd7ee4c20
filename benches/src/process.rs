//! The two servers as processes, and what the system says of a process.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use ovsdb_sim::testing::{ScratchDir, installed_nb_schema, program};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The installed `ovsdb-server`, on an empty database file.
    Real,
    /// The `ovsdb-sim` of this workspace.
    Simulator,
}

impl Kind {
    /// Both, in the order of tables.
    pub const BOTH: [Self; 2] = [Self::Real, Self::Simulator];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "ovsdb-server",
            Self::Simulator => "ovsdb-sim",
        }
    }
}

/// A server process on a unix socket, with OVN's installed northbound schema and an empty database; dropping it ends
/// it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    socket: PathBuf,
    _folder: ScratchDir,
}

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started. `ovsdb-server` and `ovsdb-tool` must be installed; `ovsdb-sim` is built when it has
    /// changed.
    pub fn start(kind: Kind) -> Result<Self> {
        let folder = ScratchDir::new();
        match kind {
            Kind::Real => Self::real(folder),
            Kind::Simulator => Self::simulator(folder),
        }
    }

    fn real(folder: ScratchDir) -> Result<Self> {
        let (database, socket) = (folder.path().join("db"), folder.path().join("sock"));
        let created = Command::new(program("ovsdb-tool"))
            .arg("create")
            .arg(&database)
            .arg(installed_nb_schema())
            .status()?;
        ensure!(created.success(), "ovsdb-tool create failed");
        let child = Command::new(program("ovsdb-server"))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", folder.path().join("ctl").display()))
            .arg(&database)
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self {
            child,
            socket,
            _folder: folder,
        };
        for _ in 0..2000 {
            if std::os::unix::net::UnixStream::connect(&server.socket).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("ovsdb-server does not answer");
    }

    fn simulator(folder: ScratchDir) -> Result<Self> {
        let socket = folder.path().join("sock");
        let mut child = Command::new(simulator_program()?)
            .arg(format!("--listen=punix:{}", socket.display()))
            .arg("--schema")
            .arg(installed_nb_schema())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("a piped output")?;
        let server = Self {
            child,
            socket,
            _folder: folder,
        };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        ensure!(line.starts_with("listening"), "ovsdb-sim does not listen");
        Ok(server)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The same as OVSDB's programs want it, `unix:PATH`.
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Resident bytes.
    ///
    /// # Errors
    /// It has ended.
    pub fn resident(&self) -> Result<u64> {
        resident(self.child.id())
    }

    /// CPU time so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the server has ended already.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

/// Resident bytes of a process.
///
/// # Errors
/// It has ended.
pub fn resident(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// CPU time, user and system, of a process and all its threads, ended ones included: the clock of the process instead of
/// what `stat` says, whose unit is 10 ms.
///
/// # Errors
/// It has ended.
pub fn cpu(process: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(process)?))?;
    Ok(clock.now()?.into())
}

/// `ovsdb-sim` in the folder where cargo puts the release programs; built when it is not there or has changed.
fn simulator_program() -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--quiet",
            "--workspace",
            "--bin",
            "ovsdb-sim",
        ])
        .status()?;
    ensure!(status.success(), "ovsdb-sim does not build");
    // .../target/release/deps/server-<hash>
    let folder = std::env::current_exe()?
        .parent()
        .and_then(Path::parent)
        .context("a target folder")?
        .to_owned();
    Ok(folder.join("ovsdb-sim"))
}
