//! Signals that end commands which run until they are stopped.

#[cfg(feature = "lab")]
use std::fs;
use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener for SIGINT (Ctrl-C) and SIGTERM, and optionally for SIGHUP. Once it exists, these
/// signals no longer end the process by themselves.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: SIGHUP does what it does without a listener.
    hang_up: Option<Signal>,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: None,
        })
    }

    /// A listener that listens for SIGHUP, too: the end of the terminal or of the session. A
    /// process that ignores it already, as under nohup, still does.
    #[cfg(feature = "lab")]
    pub(super) fn with_hang_up() -> io::Result<Self> {
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { hang_up, ..Self::new()? })
    }

    /// Waits for one of the signals.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub(super) async fn asked(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// `true` if the process ignores SIGHUP, signal 1 of the mask in `/proc`.
#[cfg(feature = "lab")]
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
