//! Updates of an active monitor, and changes of its conditions.

use patchbay_schemas::json::{Reader, write};
use patchbay_schemas::schema::TableId;
use patchbay_schemas::wire::MonitorVersion;

use super::setup::{known_transaction, transaction_id};
use super::{ActiveMonitor, Session, SessionEvent, SessionState};
use crate::client::error::{SessionError, reply_error, unexpected};
use crate::client::replica::TableUpdates;
use crate::client::retained_state::{HistoryPosition, RetainedState};
use crate::client::server_database;

impl Session {
    /// Handles an update of the database. Other notifications are ignored.
    pub(super) fn handle_database_update(
        &mut self,
        method: &str,
        mut at: Reader<'_>,
        retained: &mut RetainedState,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let SessionState::Live(monitor) = &mut self.state else {
            return Ok(None);
        };
        let version = monitor.version;
        if method != version.update_method() {
            return Ok(None);
        }
        let malformed = |problem| unexpected(version.update_method(), problem);
        if !at.next_element() || at.string().as_deref() != Some(self.config.database.as_bytes()) {
            return Err(malformed("it belongs to no monitor of this client"));
        }
        let last = match version {
            MonitorVersion::V3 => known_transaction(
                transaction_id(&mut at).ok_or_else(|| malformed("it has no transaction id"))?,
            ),
            _ => None,
        };
        if !at.next_element() {
            return Err(malformed("it has no contents"));
        }
        let Some(replica) = &mut retained.replica else {
            return Ok(None);
        };
        // After a malformed update, the whole database must be sent again.
        retained.position = None;
        let changes = replica.at(last).apply(TableUpdates {
            version,
            text: at,
            streamed: self.incoming.take_rows(),
        })?;
        tracing::debug!(transaction = ?last, rows = changes.rows.len(), "applied an update");
        monitor.last = last;
        retained.position = monitor.position();
        Ok(Some(SessionEvent::ReplicaChanged))
    }

    /// Handles `monitor_canceled`; `at` is before the monitor's name.
    pub(super) fn handle_monitor_canceled(
        &mut self,
        mut at: Reader<'_>,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let name = at.next_element().then(|| at.string()).flatten();
        let Some(name) = name else {
            return Err(unexpected("monitor_canceled", "it has no monitor name"));
        };
        if *name == *server_database::SERVER_MONITOR_ID.as_bytes() {
            return Err(unexpected(
                "monitor_canceled",
                "the server has ended the monitor of _Server",
            ));
        }
        if *name != *self.config.database.as_bytes() || !self.is_live() {
            return Ok(None);
        }
        self.abandon_monitor();
        self.state = self.fetch_schema();
        Ok(Some(SessionEvent::SchemaChanged))
    }

    /// Cancels the monitor.
    pub(super) fn cancel_monitor(&mut self) {
        let database = self.config.database.as_bytes();
        let request = self.rpc.request("monitor_cancel", |out| {
            out.push(b'[');
            write::string(out, database);
            out.push(b']');
        });
        // The request may fail, because the server may have ended the monitor itself.
        self.ignored_replies.insert(request);
    }

    /// Ends the use of the monitor. Replies to its outstanding requests are ignored.
    pub(super) fn abandon_monitor(&mut self) {
        self.last_progress = self.rpc.last_received();
        if let SessionState::Live(monitor) = &mut self.state {
            let change = monitor.change.take().map(|(request, _)| request);
            self.ignored_replies.extend(change);
            self.ignored_replies.extend(monitor.check.take());
        }
    }

    /// Sends a change of conditions if filters have changed and no former change is outstanding.
    ///
    /// Returns an event if the new filters are in effect without a request.
    pub(in crate::client) fn send_filter_change(
        &mut self,
        retained: &mut RetainedState,
    ) -> Option<SessionEvent> {
        let SessionState::Live(monitor) = &mut self.state else {
            return None;
        };
        if monitor.change.is_some() || !retained.filters.has_unsent() {
            return None;
        }
        let selection = &self.config.selection;
        let (wanted, _) = selection.requests(&monitor.schema, retained.filters.wanted());
        let changed: Vec<TableId> = wanted
            .tables
            .iter()
            .filter(|(id, table)| monitor.monitored.tables.get(id) != Some(table))
            .map(|(id, _)| *id)
            .collect();
        retained.filters.mark_sent();
        if changed.is_empty() || monitor.version == MonitorVersion::V1 {
            // The oldest monitor method has no conditions: the replica holds all rows.
            return Some(SessionEvent::FiltersApplied(retained.filters.take_applied()));
        }
        let request = self.rpc.request("monitor_cond_change", |out| {
            let name = monitor.schema.name.as_bytes();
            out.push(b'[');
            write::string(out, name);
            out.push(b',');
            write::string(out, name);
            out.push(b',');
            wanted.write_conditions(&monitor.schema, &changed, out);
            out.push(b']');
        });
        monitor.change = Some((request, wanted));
        retained.position = monitor.position();
        None
    }

    /// `true` if `id` belongs to the request to change conditions.
    pub(super) fn awaits_filter_reply(&self, id: i64) -> bool {
        match &self.state {
            SessionState::Live(monitor) => {
                monitor.change.as_ref().is_some_and(|(request, _)| *request == id)
            }
            _ => false,
        }
    }

    /// Handles the reply to the request to change conditions. The update with the affected rows
    /// came before it.
    pub(super) fn handle_filter_reply(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        retained: &mut RetainedState,
    ) -> SessionEvent {
        if let SessionState::Live(monitor) = &mut self.state
            && let Some((_, monitored)) = monitor.change.take()
        {
            match outcome.map_err(reply_error) {
                Ok(_) => monitor.monitored = monitored,
                Err(error) => retained.filters.reject_sent(&error.to_string()),
            }
            retained.position = monitor.position();
        }
        SessionEvent::FiltersApplied(retained.filters.take_applied())
    }
}

impl ActiveMonitor {
    /// Position of the replica in the server's history. `None` while a change of conditions is
    /// outstanding, because the conditions that the replica shows are uncertain.
    fn position(&self) -> Option<HistoryPosition> {
        let last = self.last.filter(|_| self.change.is_none())?;
        Some(HistoryPosition { last, monitored: self.monitored.clone() })
    }
}
