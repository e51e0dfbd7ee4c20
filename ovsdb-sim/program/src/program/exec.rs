//! `ovsdb-sim exec`: a command with a server of its own, which ends with it.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::end_signals::Forwarded;
use super::parent::ParentWatch;

/// Name of the socket in the folder of the server: that of ovs-vsctl's default.
const SOCKET: &str = "db.sock";
/// Time that a command has to end after SIGTERM, when the parent has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit status for a command that a signal ended, less the signal.
const SIGNAL_STATUS: u8 = 128;
/// Exit status if the command cannot be executed, as of env(1).
const NOT_EXECUTABLE_STATUS: u8 = 126;
/// Exit status if there is no such command, as of env(1).
const NOT_FOUND_STATUS: u8 = 127;

/// Environment variables with the remote, of the clients that have one.
const REMOTE_VARIABLES: [(&str, &str); 4] = [
    ("OVN_Northbound", "OVN_NB_DB"),
    ("OVN_Southbound", "OVN_SB_DB"),
    ("OVN_IC_Northbound", "OVN_IC_NB_DB"),
    ("OVN_IC_Southbound", "OVN_IC_SB_DB"),
];

/// Folder of a server that serves one command.
#[derive(Debug)]
pub(crate) struct ExecFolder(TempDir);

impl ExecFolder {
    /// Makes the folder.
    pub(crate) fn create() -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("ovsdb-sim-").tempdir()?))
    }

    /// The target of the listener.
    pub(crate) fn target(&self) -> String {
        format!("punix:{}", self.0.path().join(SOCKET).display())
    }

    /// The environment variables of the command.
    pub(crate) fn variables(&self, databases: &[String], control: &str) -> Vec<(&str, String)> {
        let remote = format!("unix:{}", self.0.path().join(SOCKET).display());
        let is_served = |database: &str| databases.iter().any(|name| name == database);
        let of_clients = REMOTE_VARIABLES
            .into_iter()
            .filter(|(database, _)| is_served(database))
            .map(|(_, variable)| (variable, remote.clone()));
        let run_folder = is_served("Open_vSwitch").then(|| folder_text(self.0.path()));
        [("OVSDB_SIM_REMOTE", remote.clone()), ("OVSDB_SIM_CONTROL", control.to_owned())]
            .into_iter()
            .chain(of_clients)
            .chain(run_folder.map(|folder| ("OVS_RUNDIR", folder)))
            .collect()
    }
}

fn folder_text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs the command to its end, and returns its exit status: 128 and the signal that has ended it,
/// or 126 or 127 if it cannot be started. Signals are forwarded. If the parent of this process ends,
/// so does the command.
pub(crate) async fn run(
    command: &[OsString],
    variables: &[(&str, String)],
    mut signals: Forwarded,
    parent: &ParentWatch,
) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::FAILURE;
    };
    let mut process = Command::new(program);
    process.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = match process.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("ovsdb-sim exec: {}: {error}", Path::new(program).display());
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            return if is_missing { NOT_FOUND_STATUS } else { NOT_EXECUTABLE_STATUS }.into();
        }
    };
    let pid = child.id().try_into().ok().map(Pid::from_raw);
    let (sender, mut ended) = oneshot::channel();
    thread::spawn(move || {
        // This process has ended if nobody receives.
        sender.send(child.wait()).unwrap_or_default();
    });
    let send = |signal: Signal| {
        if let Some(pid) = pid {
            // The command may have ended.
            kill(pid, signal).unwrap_or_default();
        }
    };
    let mut forwarding = JoinSet::new();
    let (forward, mut received) = tokio::sync::mpsc::unbounded_channel();
    signals.spawn(&mut forwarding, &forward);
    loop {
        tokio::select! {
            status = &mut ended => return exit_code(status.ok().and_then(Result::ok)),
            Some(signal) = received.recv() => {
                if !is_sent_to_group(signal) {
                    send(signal);
                }
            }
            () = parent.wait() => {
                send(Signal::SIGTERM);
                if timeout(END_TIMEOUT, &mut ended).await.is_err() {
                    send(Signal::SIGKILL);
                }
                return ExitCode::FAILURE;
            }
        }
    }
}

/// `true` if the command gets the signal of a key itself: the terminal sends it to all processes in
/// its foreground.
fn is_sent_to_group(signal: Signal) -> bool {
    let input = io::stdin();
    matches!(signal, Signal::SIGINT | Signal::SIGQUIT)
        && input.is_terminal()
        && tcgetpgrp(&input).is_ok_and(|group| group == getpgrp())
}

/// The exit status for that of the command. `None`: it is not known.
fn exit_code(status: Option<ExitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::FAILURE;
    };
    let signal = status.signal().map(|signal| i32::from(SIGNAL_STATUS) + signal);
    let code = status.code().or(signal).and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
