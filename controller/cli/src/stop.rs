//! Signals that end commands which run until they are stopped.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener for SIGINT (Ctrl-C) and SIGTERM. Once it exists, these signals no longer end the
/// process by themselves.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for SIGINT or SIGTERM.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
