//! Children of tests: signals, and ends within a limit.

use std::process::{Child, Command, ExitStatus, Output};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time within which a program must end: far more than it needs, even on a loaded machine.
const END_TIMEOUT: Duration = Duration::from_secs(300);

/// Sends a signal, such as `TERM`, to a child of the test, by means of the shell.
///
/// # Panics
///
/// If the process does not exist.
pub fn signal(child: &Child, signal: &str) {
    assert!(kill(child.id(), signal), "kill -{signal} {}", child.id());
}

/// Waits for the end of a child.
///
/// # Panics
///
/// If it does not end within five minutes. It is killed then.
pub fn wait(child: &mut Child) -> ExitStatus {
    let watchdog = Watchdog::start(child.id());
    let status = child.wait().expect("a child can be waited for");
    watchdog.stop();
    status
}

/// Waits for the end of a child, and returns its output.
///
/// # Panics
///
/// If it does not end within five minutes. It is killed then.
pub fn output_of(child: Child) -> Output {
    let watchdog = Watchdog::start(child.id());
    let output = child.wait_with_output().expect("a child can be waited for");
    watchdog.stop();
    output
}

/// Thread that kills a process after [`END_TIMEOUT`].
struct Watchdog {
    ended: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    fn start(process: u32) -> Self {
        let (ended, end) = channel();
        let thread = thread::spawn(move || {
            let is_late = end.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout);
            is_late && kill(process, "KILL")
        });
        Self { ended, thread }
    }

    fn stop(self) {
        drop(self.ended);
        let is_killed = self.thread.join().expect("the watchdog does not panic");
        assert!(!is_killed, "the program has not ended within {END_TIMEOUT:?}");
    }
}

/// `true` if the process exists.
fn kill(process: u32, signal: &str) -> bool {
    let command = format!("kill -{signal} {process}");
    let sent = Command::new("sh").args(["-c", &command]).status();
    sent.is_ok_and(|status| status.success())
}
