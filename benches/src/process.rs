//! Server processes, and measurements of processes.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use patchbay_ovn_programs::testing::{Release, ScratchDir};

/// Time in which a server listens.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts to connect to a server that starts: short beside the start.
const START_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Program that serves the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// The installed `ovsdb-server`, on an empty database file.
    Real,
    /// The newest `ovsdb-server` that can be had, likewise.
    Newest,
    /// The `ovsdb-sim` of this workspace.
    Simulator,
}

impl ServerKind {
    /// The servers that can be had, in the order of table columns. The last one is ovsdb-sim.
    pub fn available() -> Vec<Self> {
        let mut kinds = vec![Self::Real];
        if Release::newest().is_some() {
            kinds.push(Self::Newest);
        }
        kinds.push(Self::Simulator);
        kinds
    }

    /// Name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real | Self::Newest => "ovsdb-server",
            Self::Simulator => "ovsdb-sim",
        }
    }

    /// Name and version of ovsdb-server, name of ovsdb-sim.
    pub fn title(self) -> String {
        match self {
            Self::Real => format!("server {}", Release::installed().version()),
            Self::Newest => {
                let version = Release::newest().map(|release| release.version());
                format!("server {}", version.unwrap_or_default())
            }
            Self::Simulator => self.name().to_owned(),
        }
    }
}

/// Northbound schema of the newest OVN that the project knows.
fn nb_schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/ovn-nb.ovsschema")
}

/// Server process on a unix socket, with the newest Northbound schema and an empty database.
/// The process ends with the value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    socket: PathBuf,
    start_time: Duration,
    _folder: ScratchDir,
}

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// The server cannot be started. `ovsdb-server` and `ovsdb-tool` must be installed; `ovsdb-sim`
    /// is built if it has changed.
    pub fn start(kind: ServerKind) -> Result<Self> {
        let folder = ScratchDir::new();
        match kind {
            ServerKind::Real => Self::real(&Release::installed(), folder),
            ServerKind::Newest => {
                let release = Release::newest().context("there is no newer release")?;
                Self::real(&release, folder)
            }
            ServerKind::Simulator => Self::simulator(folder),
        }
    }

    fn real(release: &Release, folder: ScratchDir) -> Result<Self> {
        let (database, socket) = (folder.path().join("db"), folder.path().join("sock"));
        let created =
            release.command("ovsdb-tool").arg("create").arg(&database).arg(nb_schema()).status()?;
        ensure!(created.success(), "ovsdb-tool create failed");
        let begin = Instant::now();
        let child = release
            .command("ovsdb-server")
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", folder.path().join("ctl").display()))
            .arg(&database)
            .stderr(Stdio::null())
            .spawn()?;
        Self::wait_until_it_listens(child, socket, begin, folder)
    }

    fn simulator(folder: ScratchDir) -> Result<Self> {
        let socket = folder.path().join("sock");
        let mut command = Command::new(workspace_program("ovsdb-sim")?);
        command
            .arg(format!("--listen=punix:{}", socket.display()))
            .arg("--schema")
            .arg(nb_schema())
            .stdout(Stdio::null());
        let begin = Instant::now();
        let child = command.spawn()?;
        Self::wait_until_it_listens(child, socket, begin, folder)
    }

    fn wait_until_it_listens(
        child: Child,
        socket: PathBuf,
        begin: Instant,
        folder: ScratchDir,
    ) -> Result<Self> {
        let mut server = Self { child, socket, start_time: Duration::ZERO, _folder: folder };
        while begin.elapsed() < START_TIMEOUT {
            if UnixStream::connect(&server.socket).is_ok() {
                server.start_time = begin.elapsed();
                return Ok(server);
            }
            std::thread::sleep(START_POLL_INTERVAL);
        }
        bail!("{} does not listen", server.socket.display());
    }

    /// Path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Time from the start of the process until it listened.
    pub fn start_time(&self) -> Duration {
        self.start_time
    }

    /// Remote of the socket: `unix:PATH`.
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.child.id())
    }

    /// Maximum of resident memory since the start, in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn peak_bytes(&self) -> Result<u64> {
        memory_of(self.child.id(), "VmHWM:")
    }

    /// CPU time since the start.
    ///
    /// # Errors
    /// The process has ended.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the server has ended.
        self.child.kill().unwrap_or_default();
        let _ = self.child.wait();
    }
}

/// Returns the resident memory of a process in bytes.
///
/// # Errors
/// The process has ended.
pub fn resident_bytes(process: u32) -> Result<u64> {
    memory_of(process, "VmRSS:")
}

/// Reads an amount of memory in `/proc/PID/status`, in bytes.
fn memory_of(process: u32, name: &'static str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Returns the CPU time of a process, user and system, with all threads, ended ones included. It
/// reads the clock of the process, because the unit of `/proc/PID/stat` is 10 ms.
///
/// # Errors
/// The process has ended.
pub fn cpu_time(process: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(process)?))?;
    Ok(clock.now()?.into())
}

/// Costs of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time, user and system.
    pub cpu: Duration,
    /// Wall-clock time from start to end.
    pub wall: Duration,
}

/// Runs a program to its end and measures it.
///
/// # Errors
/// The program cannot be started.
pub fn run_measured(command: &mut Command) -> Result<(ExitStatus, Usage)> {
    let started = Instant::now();
    let mut child = command.spawn()?;
    // The CPU clock of a process exists until its status is collected.
    let id = Id::Pid(Pid::from_raw(i32::try_from(child.id())?));
    waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    let wall = started.elapsed();
    let cpu = cpu_time(child.id())?;
    Ok((child.wait()?, Usage { cpu, wall }))
}

/// Builds a program of this workspace in release if it has changed, and returns its path.
///
/// # Errors
/// The program does not build.
pub fn workspace_program(name: &str) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--workspace", "--bin"])
        .arg(name)
        .status()?;
    ensure!(status.success(), "{name} does not build");
    // .../target/release/deps/server-<hash>
    let folder = std::env::current_exe()?
        .parent()
        .and_then(Path::parent)
        .context("a target folder")?
        .to_owned();
    Ok(folder.join(name))
}
