//! Signals that end commands which run until they are stopped.

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

    /// A listener that listens for SIGHUP, too: the end of the terminal.
    #[cfg(feature = "lab")]
    pub(super) fn with_hang_up() -> io::Result<Self> {
        let hang_up = Some(signal(SignalKind::hangup())?);
        Ok(Self {
            hang_up,
            ..Self::new()?
        })
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
