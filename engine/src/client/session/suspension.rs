//! Suspension of the monitor during a bulk transaction, after which the database is read again.

use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};

use super::streaming::IncomingMessage;
use super::{Session, SessionState};
use crate::client::retained_state::RetainedState;

/// A monitor that was cancelled for a bulk transaction.
#[derive(Debug)]
pub(super) struct SuspendedMonitor {
    monitored: MonitorRequests,
}

impl Session {
    /// Cancels the monitor for the transaction that is sent next.
    /// [`resume_monitor`](Self::resume_monitor) ends the suspension.
    ///
    /// Returns `false` if that is not possible: a change of filters is outstanding; the server
    /// supports only the oldest monitor method; or an update is received in part.
    pub(in crate::client) fn suspend_monitor(&mut self, retained: &mut RetainedState) -> bool {
        let SessionState::Live(monitor) = &mut self.state else {
            return false;
        };
        if monitor.version == MonitorVersion::V1
            || monitor.change.is_some()
            || matches!(self.incoming, IncomingMessage::Rows(_))
        {
            return false;
        }
        let monitored = std::mem::take(&mut monitor.monitored);
        self.cancel_monitor();
        self.abandon_monitor();
        // The order of this transaction among those of other clients is unknown.
        retained.position = None;
        self.state = SessionState::MonitorSuspended(SuspendedMonitor { monitored });
        true
    }

    /// `true` while the monitor is suspended.
    pub(in crate::client) fn is_monitor_suspended(&self) -> bool {
        matches!(self.state, SessionState::MonitorSuspended(_))
    }

    /// Ends the suspension after the reply: reads the schema and the database again. Returns what
    /// was monitored before. `None`: the monitor is not suspended.
    pub(in crate::client) fn resume_monitor(&mut self) -> Option<MonitorRequests> {
        let SessionState::MonitorSuspended(suspended) = &mut self.state else {
            return None;
        };
        let monitored = std::mem::take(&mut suspended.monitored);
        self.last_progress = self.rpc.last_received();
        // Without a monitor, a change of the schema was not reported.
        self.state = self.fetch_schema();
        Some(monitored)
    }
}
