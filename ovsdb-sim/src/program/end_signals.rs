//! Signals that end the program.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::signal_mask::SignalMask;
use super::signal_text::describe_signal;

/// Signals that end the program cleanly.
#[derive(Debug)]
pub(crate) struct EndSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Catches the signals from now on. A signal that the process was started to ignore stays
    /// ignored, as in ovsdb-server: nohup and background jobs of shells do that.
    pub(crate) fn catch() -> Self {
        let ignored = SignalMask::ignored();
        let catch = |kind: SignalKind| {
            let is_caught = !ignored.contains(kind.as_raw_value());
            // Without a handler the signal ends the process.
            is_caught.then(|| signal(kind).ok()).flatten()
        };
        Self {
            interrupt: catch(SignalKind::interrupt()),
            terminate: catch(SignalKind::terminate()),
            hangup: catch(SignalKind::hangup()),
        }
    }

    /// Waits for one of the signals, and logs it as ovsdb-server does.
    pub(crate) async fn wait(&mut self) {
        let kind = tokio::select! {
            () = receive(&mut self.interrupt) => SignalKind::interrupt(),
            () = receive(&mut self.terminate) => SignalKind::terminate(),
            () = receive(&mut self.hangup) => SignalKind::hangup(),
        };
        let signal = kind.as_raw_value();
        let text = describe_signal(signal);
        tracing::warn!(target: "fatal_signal", "terminating with signal {signal} ({text})");
    }
}

async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => signal.recv().await.unwrap_or_default(),
        None => pending().await,
    }
}
