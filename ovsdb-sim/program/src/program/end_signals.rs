//! Signals that end the program, and SIGXFSZ, which must not.

use std::future::pending;

use nix::libc;
use nix::sys::signal::Signal as SentSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::signal_mask::SignalMask;
use super::signal_text::describe_signal;

/// Signals that end the program cleanly.
#[derive(Debug)]
pub(crate) struct EndSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
    /// SIGXFSZ, which has no effect: a write beyond the limit of file sizes fails (`EFBIG`), and so
    /// does the transaction.
    _file_size: Option<Signal>,
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
            _file_size: catch(SignalKind::from_raw(libc::SIGXFSZ)),
        }
    }

    /// Waits for one of the signals, and logs it: as a warning, as ovsdb-server does, or as what a
    /// user wants.
    pub(crate) async fn wait(&mut self, is_warning: bool) {
        let kind = tokio::select! {
            () = receive(&mut self.interrupt) => SignalKind::interrupt(),
            () = receive(&mut self.terminate) => SignalKind::terminate(),
            () = receive(&mut self.hangup) => SignalKind::hangup(),
        };
        let signal = kind.as_raw_value();
        let text = describe_signal(signal);
        if is_warning {
            tracing::warn!(target: "fatal_signal", "terminating with signal {signal} ({text})");
        } else {
            tracing::info!(target: "fatal_signal", "terminating with signal {signal} ({text})");
        }
    }
}

/// Signals that a command gets in the place of this process.
#[derive(Debug)]
pub(crate) struct Forwarded(Vec<(SentSignal, Signal)>);

impl Forwarded {
    /// Catches the signals from now on, but those that the process was started to ignore.
    pub(crate) fn catch() -> Self {
        let ignored = SignalMask::ignored();
        let kinds = [
            SentSignal::SIGINT,
            SentSignal::SIGTERM,
            SentSignal::SIGHUP,
            SentSignal::SIGQUIT,
            SentSignal::SIGUSR1,
            SentSignal::SIGUSR2,
        ];
        let caught = kinds.into_iter().filter_map(|kind| {
            let number = kind as i32;
            let is_caught = !ignored.contains(number);
            let stream = is_caught.then(|| signal(SignalKind::from_raw(number)).ok())??;
            Some((kind, stream))
        });
        Self(caught.collect())
    }

    /// Sends each signal that comes to the channel, in tasks.
    pub(crate) fn spawn(&mut self, tasks: &mut JoinSet<()>, to: &UnboundedSender<SentSignal>) {
        for (kind, mut stream) in self.0.drain(..) {
            let to = to.clone();
            tasks.spawn(
                async move { while stream.recv().await.is_some() && to.send(kind).is_ok() {} },
            );
        }
    }
}

async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => signal.recv().await.unwrap_or_default(),
        None => pending().await,
    }
}
