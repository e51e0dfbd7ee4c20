//! Children that end with the lab, however it ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Program of util-linux that makes the kernel kill a child when its parent thread ends.
const SETPRIV: &str = "setpriv";
/// Settings of the C library: memory that a program frees can be merged and returned to the system.
/// ovn-northd keeps a tenth less.
const MALLOC_SETTINGS: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.arena_max=1:\
     glibc.malloc.trim_threshold=131072:glibc.malloc.top_pad=32768:glibc.malloc.mmap_threshold=65536",
);
/// Lines of a log that an error shows.
const SHOWN_LOG_LINES: usize = 5;

/// Error: a program does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program cannot be started.
    #[error("cannot start {program} by {SETPRIV} of util-linux: {source}")]
    Start {
        /// Name of the program.
        program: &'static str,
        /// The error.
        source: io::Error,
    },
    /// The log of the program cannot be created.
    #[error("{}: {source}", .path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The program has ended by itself.
    #[error("{node}: {program} ended: {status}{log}")]
    Ended {
        /// Node of the program.
        node: String,
        /// Name of the program.
        program: &'static str,
        /// Exit status, or the reason why it is not known.
        status: String,
        /// Last lines of the log, each after a line break and two spaces.
        log: String,
    },
}

/// Request to the thread that starts the children.
type SpawnRequest = (Command, oneshot::Sender<io::Result<Child>>);

/// Thread that starts children. The kernel kills them when it ends, so it lives as long as the
/// lab; a thread of the runtime may end earlier.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    requests: mpsc::Sender<SpawnRequest>,
}

impl Spawner {
    /// Starts the thread, which ends when the last clone is dropped.
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, received) = mpsc::channel::<SpawnRequest>();
        let runtime = Handle::current();
        thread::Builder::new().name("lab-children".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            for (mut command, started) in received {
                // The caller may have been dropped; then the child is killed on drop.
                let _ = started.send(command.spawn());
            }
        })?;
        Ok(Self { requests })
    }

    async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (started, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts programs has ended");
        self.requests.send((command, started)).map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }
}

/// Running program of a node.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    node: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program with its own log in `folder`. `command`: program with all arguments.
    pub(crate) async fn start(
        spawner: &Spawner,
        name: &'static str,
        node: &str,
        folder: &Path,
        command: Vec<OsString>,
    ) -> Result<Self, ProgramError> {
        let log = folder.join(format!("{name}.log"));
        let (output, errors) = match File::options()
            .create(true)
            .append(true)
            .open(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
        {
            Ok(files) => files,
            Err(source) => return Err(ProgramError::Log { path: log, source }),
        };
        let mut child = Command::new(SETPRIV);
        child
            .args(["--pdeathsig", "KILL", "--"])
            .args(command)
            .envs(environment(folder))
            .envs([MALLOC_SETTINGS])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C is for the lab, which ends its children in order.
            .process_group(0)
            .kill_on_drop(true);
        let child = spawner
            .spawn(child)
            .await
            .map_err(|source| ProgramError::Start { program: name, source })?;
        Ok(Self { name, node: node.to_owned(), child, log })
    }

    /// Name of the program.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Process id. `None`: the program has ended.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the program ends, and returns this as an error.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub(crate) async fn ended(&mut self) -> ProgramError {
        let status = self.child.wait().await;
        self.ended_error(status)
    }

    /// Fails if the program has ended.
    pub(crate) fn check(&mut self) -> Result<(), ProgramError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended_error(Ok(status))),
            Err(error) => Err(self.ended_error(Err(error))),
        }
    }

    /// Kills the program and waits for its end.
    pub(crate) async fn kill(&mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::debug!(program = self.name, %error, "cannot kill");
        }
    }

    fn ended_error(&self, status: io::Result<ExitStatus>) -> ProgramError {
        ProgramError::Ended {
            node: self.node.clone(),
            program: self.name,
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            log: last_lines(&self.log),
        }
    }
}

/// Environment of OVN's and Open vSwitch's programs on a node, so that their files are in its
/// folder.
pub(crate) fn environment(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let variables = [
        "OVS_RUNDIR",
        "OVN_RUNDIR",
        "OVS_LOGDIR",
        "OVN_LOGDIR",
        "OVS_DBDIR",
        "OVN_DBDIR",
        "OVS_SYSCONFDIR",
        "OVN_SYSCONFDIR",
    ];
    variables.map(|name| (name, folder.to_owned())).to_vec()
}

fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = VecDeque::new();
    for line in text.lines() {
        if lines.len() == SHOWN_LOG_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
    let mut shown = String::new();
    for line in lines {
        shown.push_str("\n  ");
        shown.push_str(line);
    }
    shown
}
