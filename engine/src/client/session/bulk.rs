//! The server reports nothing while it executes a bulk transaction; afterwards its database is read anew.

use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};

use super::streaming::IncomingMessage;
use super::{Session, State};
use crate::client::known::Known;

/// What was monitored before.
#[derive(Debug)]
pub(super) struct Bulk {
    asked: MonitorRequests,
}

impl Session {
    /// Tells the server to report nothing until a transaction that is sent next is answered and
    /// [`end_bulk`](Self::end_bulk) is called. False when that cannot be: the replica does not hold all rows, so that
    /// nobody knows which of the new ones it would; the server knows only the oldest kind of monitor; or a report has
    /// come in part, which is dealt with in the state in which it began.
    pub(in crate::client) fn begin_bulk(&mut self, known: &mut Known) -> bool {
        let State::Live(following) = &mut self.state else {
            return false;
        };
        let mut tables = following.asked.tables.values();
        if following.version == MonitorVersion::V1
            || following.change.is_some()
            || matches!(self.incoming, IncomingMessage::Rows(_))
            || tables.any(|table| !table.condition.0.is_empty())
        {
            return false;
        }
        let asked = std::mem::take(&mut following.asked);
        self.cancel_monitor();
        self.stop_following();
        // Nobody knows which of others' transactions come before ours.
        known.position = None;
        self.state = State::Bulk(Bulk { asked });
        true
    }

    /// Whether nothing is reported because of a transaction.
    pub(in crate::client) fn is_in_bulk(&self) -> bool {
        matches!(self.state, State::Bulk(_))
    }

    /// The transaction was answered: reads the database anew. Returns what was monitored before; none when
    /// [nothing was to be reported](Self::is_in_bulk) for another reason.
    pub(in crate::client) fn end_bulk(&mut self) -> Option<MonitorRequests> {
        let State::Bulk(bulk) = &mut self.state else {
            return None;
        };
        let asked = std::mem::take(&mut bulk.asked);
        self.progress = self.rpc.heard();
        // Nobody would have told of another schema meanwhile.
        self.state = self.fetch_schema();
        Some(asked)
    }
}
