//! Processes of a daemon: `--detach` and `--monitor`.
//!
//! A process starts its own program again, with [`Role`] as the first argument, and waits until the
//! new process is ready. Standard output of the new process is a pipe for that message.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use clap::ValueEnum;
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, raise};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::signal_mask::SignalMask;
use super::signal_text::describe_status;

/// Option with the [`Role`], the first argument of a process that this program starts.
const ROLE_OPTION: &str = "--process-role=";

/// Name of the file in which servers keep their configuration, for those who list a process's
/// files.
const KEPT_FILE_NAME: &str = "configuration";

/// Shortest time between two restarts by a monitor, as in ovsdb-server.
const MIN_RESTART_INTERVAL: Duration = Duration::from_secs(10);

/// Signals after which a monitor starts the server again: those of errors (ovsdb-server(1)).
const ERROR_SIGNALS: [i32; 9] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Role of a process among those of one daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Restarts the server after a crash.
    Monitor,
    /// Serves, and notifies the process that has started it when it is ready.
    Server,
}

/// Error: a process of the daemon cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error("cannot start a process: {0}")]
    Start(#[source] io::Error),
    /// The process has printed its error.
    #[error("the process ended while it was starting")]
    Ended(ExitStatus),
}

impl DaemonError {
    /// The exit code of the process that failed to start. `None`: it was killed, or not started.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        match self {
            Self::Ended(status) => u8::try_from(status.code()?).ok(),
            Self::Start(_) => None,
        }
    }
}

/// Starts this program again and returns when the new process is ready.
pub(crate) fn start(role: Role, stdin: Stdio) -> Result<Child, DaemonError> {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let is_role = |argument: &OsString| {
        let bytes = argument.as_encoded_bytes();
        bytes.starts_with(ROLE_OPTION.as_bytes())
    };
    let role = role.to_possible_value().map_or_else(OsString::new, |role| {
        OsString::from(format!("{ROLE_OPTION}{}", role.get_name()))
    });
    let mut child = Command::new("/proc/self/exe")
        .arg0(name)
        .arg(role)
        .args(arguments.skip_while(is_role))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(DaemonError::Start)?;
    // The end of the pipe without a byte is the end of the process.
    let ready = child.stdout.take().map(|mut pipe| pipe.read(&mut [0]));
    if matches!(ready, Some(Ok(1))) {
        Ok(child)
    } else {
        let status = child.wait().map_err(DaemonError::Start)?;
        Err(DaemonError::Ended(status))
    }
}

/// Begins a session of its own, so that signals of a terminal do not reach the process.
pub(crate) fn leave_session() {
    // Fails only for the leader of a process group, which is no process that `start` has made.
    setsid().map(drop).unwrap_or_default();
}

/// Notifies the process that has started this one that it is ready.
pub(crate) fn notify_ready() -> io::Result<()> {
    let mut pipe = io::stdout();
    pipe.write_all(b"\n")?;
    pipe.flush()
}

/// Replaces standard input and standard error by `/dev/null`.
pub(crate) fn leave_terminal() -> io::Result<()> {
    let null = open_null()?;
    dup2_stdin(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// Replaces standard output by `/dev/null`.
pub(crate) fn close_standard_output() -> io::Result<()> {
    Ok(dup2_stdout(&open_null()?)?)
}

fn open_null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// Makes a `SIGSEGV` or `SIGBUS` that another process sends end this one, as it ends any program.
///
/// The handlers of Rust's runtime, which recognize an overflow of the stack, take the first signal
/// for a fault whose instruction is executed again. They restore the default action and return.
/// Threads that start while a handler runs are stopped for good, so that there may be none.
pub(crate) fn die_of_sent_faults() -> io::Result<()> {
    let caught = SignalMask::caught();
    for signal in [Signal::SIGSEGV, Signal::SIGBUS] {
        // Without a handler the default action is in force already.
        if caught.contains(signal as i32) {
            raise(signal)?;
        }
    }
    Ok(())
}

/// Takes the file for the configuration that a monitor keeps, which is this server's standard input
/// ([`monitor`]).
pub(crate) fn take_kept_file() -> io::Result<File> {
    let kept = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(&open_null()?)?;
    Ok(kept.into())
}

/// Starts the server, calls `on_ready` when it is ready for the first time, and starts it again
/// whenever a signal of an error has ended it. Returns when it has ended otherwise. All servers
/// have one file as their standard input, in which they keep their configuration.
pub(crate) fn monitor(on_ready: impl FnOnce() -> io::Result<()>) -> Result<(), DaemonError> {
    let kept = File::from(
        memfd_create(KEPT_FILE_NAME, MFdFlags::MFD_CLOEXEC)
            .map_err(|error| DaemonError::Start(error.into()))?,
    );
    let start_server = || {
        let stdin = kept.try_clone().map_err(DaemonError::Start)?;
        start(Role::Server, stdin.into())
    };
    let mut server = start_server()?;
    on_ready().map_err(DaemonError::Start)?;
    let mut process = server.id();
    let mut status = server.wait().map_err(DaemonError::Start)?;
    let mut crashes = 0;
    let mut last_restart: Option<Instant> = None;
    loop {
        let ended = describe_end(process, status);
        if !status.signal().is_some_and(|signal| ERROR_SIGNALS.contains(&signal)) {
            tracing::info!(target: "daemon_unix", "{ended}, exiting");
            return Ok(());
        }
        crashes += 1;
        let pause = last_restart
            .map_or(Duration::ZERO, |last| MIN_RESTART_INTERVAL.saturating_sub(last.elapsed()));
        if !pause.is_zero() {
            tracing::warn!(
                target: "daemon_unix",
                "{crashes} crashes: {ended}, waiting until 10 seconds since last restart"
            );
            thread::sleep(pause);
        }
        last_restart = Some(Instant::now());
        tracing::error!(target: "daemon_unix", "{crashes} crashes: {ended}, restarting");
        status = match start_server() {
            Ok(mut started) => {
                process = started.id();
                started.wait().map_err(DaemonError::Start)?
            }
            Err(DaemonError::Ended(status)) => status,
            Err(error) => return Err(error),
        };
    }
}

/// Describes the end of a process in ovsdb-server's words.
fn describe_end(process: u32, status: ExitStatus) -> String {
    format!("pid {process} died, {}", describe_status(status))
}
