//! The replica follows the database, and shows other rows of it when it is told to.

use patchbay_schemas::json::{Reader, write};
use patchbay_schemas::schema::TableId;
use patchbay_schemas::wire::MonitorVersion;

use super::setup::{known_transaction, transaction_id};
use super::{Event, Following, Session, State};
use crate::client::error::{SessionError, reply_error, unexpected};
use crate::client::known::{Known, Position};
use crate::client::replica::Updates;
use crate::client::server_database;

impl Session {
    /// A notification that may be about the database.
    pub(super) fn database_changed(
        &mut self,
        method: &str,
        mut at: Reader<'_>,
        known: &mut Known,
    ) -> Result<Option<Event>, SessionError> {
        let State::Live(following) = &mut self.state else {
            return Ok(None);
        };
        let version = following.version;
        if method != version.update_method() {
            return Ok(None);
        }
        let malformed = |problem| unexpected(version.update_method(), problem);
        if !at.next_element() || at.string().as_deref() != Some(self.config.database.as_bytes()) {
            return Err(malformed("it is of no monitor that was asked for"));
        }
        let last = match version {
            MonitorVersion::V3 => known_transaction(
                transaction_id(&mut at).ok_or_else(|| malformed("it has no transaction id"))?,
            ),
            _ => None,
        };
        if !at.next_element() {
            return Err(malformed("it has no content"));
        }
        let Some(replica) = &mut known.replica else {
            return Ok(None);
        };
        // What makes no sense is a reason to have the whole database sent again.
        known.position = None;
        let changes = replica.apply(Updates {
            version,
            text: at,
            streamed: self.incoming.take_rows(),
        })?;
        tracing::debug!(transaction = ?last, rows = changes.rows.len(), "an update");
        following.last = last;
        known.position = following.position();
        Ok(Some(Event::Changed))
    }

    /// A monitor has ended; `at` is before its name.
    pub(super) fn monitor_canceled(
        &mut self,
        mut at: Reader<'_>,
    ) -> Result<Option<Event>, SessionError> {
        let name = at.next_element().then(|| at.string()).flatten();
        let Some(name) = name else {
            return Err(unexpected("monitor_canceled", "it names no monitor"));
        };
        if *name == *server_database::MONITOR.as_bytes() {
            return Err(unexpected(
                "monitor_canceled",
                "the server does not say any more how it serves the database",
            ));
        }
        if *name != *self.config.database.as_bytes() || !self.is_live() {
            return Ok(None);
        }
        self.stop_following();
        self.state = self.fetch_schema();
        Ok(Some(Event::SchemaChanged))
    }

    /// Asks the server to report nothing any more.
    pub(super) fn cancel_monitor(&mut self) {
        let database = self.config.database.as_bytes();
        let request = self.rpc.request("monitor_cancel", |out| {
            out.push(b'[');
            write::string(out, database);
            out.push(b']');
        });
        // It may fail: the server has ended the monitor itself.
        self.unawaited.insert(request);
    }

    /// The monitor ends, and another one is asked for what is wanted then: what the server still says to requests about this
    /// one is of no interest.
    pub(super) fn stop_following(&mut self) {
        self.progress = self.rpc.heard();
        if let State::Live(following) = &mut self.state {
            let change = following.change.take().map(|(request, _)| request);
            self.unawaited.extend(change);
            self.unawaited.extend(following.check.take());
        }
    }

    /// Tells the server which rows the replica should hold, if that has changed and no former change is under way.
    /// Those whose rows it holds already are returned.
    pub(in crate::client) fn change_filters(&mut self, known: &mut Known) -> Option<Event> {
        let State::Live(following) = &mut self.state else {
            return None;
        };
        if following.change.is_some() || !known.filters.has_news() {
            return None;
        }
        let selection = &self.config.selection;
        let (wanted, _) = selection.requests(&following.schema, known.filters.wanted());
        let changed: Vec<TableId> = wanted
            .tables
            .iter()
            .filter(|(id, table)| following.asked.tables.get(id) != Some(table))
            .map(|(id, _)| *id)
            .collect();
        known.filters.tell();
        if changed.is_empty() || following.version == MonitorVersion::V1 {
            // The oldest kind of monitor knows no conditions: the replica holds all rows.
            return Some(Event::Filtered(known.filters.reached()));
        }
        let request = self.rpc.request("monitor_cond_change", |out| {
            let name = following.schema.name.as_bytes();
            out.push(b'[');
            write::string(out, name);
            out.push(b',');
            write::string(out, name);
            out.push(b',');
            wanted.write_conditions(&following.schema, &changed, out);
            out.push(b']');
        });
        following.change = Some((request, wanted));
        known.position = following.position();
        None
    }

    /// Whether this is the request to change conditions.
    pub(super) fn awaits_change(&self, id: i64) -> bool {
        match &self.state {
            State::Live(following) => following
                .change
                .as_ref()
                .is_some_and(|(request, _)| *request == id),
            _ => false,
        }
    }

    /// The request to change conditions was answered, after the update with the rows that come and go.
    pub(super) fn filters_answered(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        known: &mut Known,
    ) -> Event {
        if let State::Live(following) = &mut self.state
            && let Some((_, asked)) = following.change.take()
        {
            match outcome.map_err(reply_error) {
                Ok(_) => following.asked = asked,
                Err(error) => known.filters.refused(&error.to_string()),
            }
            known.position = following.position();
        }
        Event::Filtered(known.filters.reached())
    }
}

impl Following {
    /// Where the replica stands. While a change of conditions is under way, nobody knows which of them it shows.
    fn position(&self) -> Option<Position> {
        let last = self.last.filter(|_| self.change.is_none())?;
        Some(Position {
            last,
            asked: self.asked.clone(),
        })
    }
}
