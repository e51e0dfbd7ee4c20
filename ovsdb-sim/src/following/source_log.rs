//! Log of the connections to a source, in the words of ovsdb-server's module `reconnect`.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use patchbay_engine::client::{Client, ConnectionEvent, ConnectionFailure, SessionError};

use crate::dial::MAX_BACKOFF;
use crate::file::system_text;

/// Log of one source. A change of its state is a warning: it cannot be reached, or can be again.
/// Further attempts are information, until there are too many of them.
#[derive(Debug, Default)]
pub(super) struct SourceLog {
    /// `true` after a failure, until a connection is made.
    is_away: bool,
    /// `true` if the attempts are not logged any more.
    is_suppressed: bool,
}

impl SourceLog {
    /// Logs an attempt to connect that has failed.
    pub(super) fn failed(&mut self, failure: &ConnectionFailure) {
        if self.is_suppressed {
            return;
        }
        let remote = &failure.remote;
        let reason = reason(&failure.error);
        tracing::info!(target: "reconnect", "{remote}: connecting...");
        if self.is_away {
            tracing::info!(target: "reconnect", "{remote}: connection attempt failed ({reason})");
        } else {
            tracing::warn!(
                target: "reconnect::source",
                "{remote}: connection attempt failed ({reason})"
            );
        }
        self.is_away = true;
    }

    /// Logs the pause before the next attempts.
    pub(super) fn waiting(&mut self, remote: &dyn Display, delay: Duration) {
        if self.is_suppressed {
            return;
        }
        let seconds = delay.as_secs();
        if delay >= MAX_BACKOFF {
            self.is_suppressed = true;
            tracing::info!(
                target: "reconnect",
                "{remote}: continuing to reconnect in the background but suppressing further logging"
            );
        } else if seconds > 1 {
            tracing::info!(
                target: "reconnect",
                "{remote}: waiting {seconds} seconds before reconnect"
            );
        }
    }

    /// Logs that a connection is made.
    pub(super) fn connected(&mut self, remote: &dyn Display) {
        if std::mem::take(self).is_away {
            tracing::warn!(target: "reconnect::source", "{remote}: connected");
        } else {
            tracing::info!(target: "reconnect", "{remote}: connected");
        }
    }

    fn lost(&mut self, failure: &ConnectionFailure) {
        let remote = &failure.remote;
        self.is_away = true;
        if matches!(failure.error, SessionError::Closed) {
            tracing::warn!(target: "reconnect::source", "{remote}: connection closed by peer");
            return;
        }
        let reason = reason(&failure.error);
        tracing::warn!(target: "reconnect", "{remote}: connection dropped ({reason})");
    }
}

/// Logs the losses of a client's connection, and the attempts to connect again.
pub(super) async fn log_reconnects(client: &Client) -> Infallible {
    let mut log = SourceLog::default();
    let Ok(mut events) = client.connection_events() else {
        return std::future::pending().await;
    };
    let mut last = String::new();
    loop {
        match events.next().await {
            Ok(ConnectionEvent::Connected { remote, .. }) => log.connected(&remote),
            Ok(ConnectionEvent::Disconnected(failure)) => {
                last = failure.remote.to_string();
                log.lost(&failure);
            }
            Ok(ConnectionEvent::Failed(failure)) => {
                last = failure.remote.to_string();
                log.failed(&failure);
            }
            Ok(ConnectionEvent::Waiting(delay)) => log.waiting(&last, delay),
            Ok(_) => {}
            // A removed follower ends with its task.
            Err(_) => return std::future::pending().await,
        }
    }
}

/// The system's text of an error, or that of the session.
fn reason(error: &SessionError) -> String {
    match error {
        SessionError::Io(error) => system_text(error),
        SessionError::ConnectTimeout(_) => "Connection timed out".to_owned(),
        error => error.to_string(),
    }
}
