//! Command of `--run`: the server ends with it.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread;

use tokio::sync::oneshot;

/// Starts a command of the shell. The receiver gets its status when it has ended.
pub(crate) fn start(command: &str) -> io::Result<oneshot::Receiver<io::Result<ExitStatus>>> {
    let mut child = Command::new("/bin/sh").args(["-c", command]).spawn()?;
    let (sender, receiver) = oneshot::channel();
    // A thread of its own, because the runtime would wait for its blocking tasks when the server
    // ends before the command.
    thread::spawn(move || {
        // The server has ended if nobody receives.
        sender.send(child.wait()).unwrap_or_default();
    });
    Ok(receiver)
}
