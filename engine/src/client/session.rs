//! The protocol of one connection, without its socket.
//!
//! ```text
//! RequestingServerStatus --> FetchingSchema --> StartingMonitor(V3) --> Live --+
//!   | no _Server      ^   ^               |  unknown method    ^     | the schema changes
//!   +-> ListingDatabases  |               +-> (V2) --> (V1) ---+     |
//!                     ^   +------------------------------------------+
//!                     +--- SuspendedMonitor <--- a bulk transaction is sent -----+
//! ```
//!
//! The schema may change between the reply to `get_schema` and the start of the monitor, and no
//! server reports that. The session fetches it once more when it is live.
//!
//! An error in any state ends the connection, and the next one begins with the first state. A
//! server that no longer qualifies by its `_Server` database is an error, too.
//!
//! Independently of these states, the session requests the lock of its [`Fence`].

mod setup;
mod streaming;
mod suspension;
mod updates;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_schemas::json::{Framer, Json, Reader, TextBuf, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Message, MonitorRequests, MonitorVersion, Reply};
use uuid::Uuid;

use super::config::Config;
use super::connection_events::ResyncKind;
use super::error::{SessionError, unexpected};
use super::fence::Fence;
use super::filter::AppliedFilters;
use super::lock::{LockNotification, LockRequests};
use super::outgoing::{Outgoing, SendPosition};
use super::remote::Remote;
use super::retained_state::RetainedState;
use super::rpc::Rpc;
use super::server_database::{DatabaseStatus, ServerDatabase};
use streaming::IncomingMessage;
use suspension::SuspendedMonitor;

/// The protocol state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    config: Arc<Config>,
    rpc: Rpc,
    started: Instant,
    /// Time at which setup last progressed.
    last_progress: Instant,
    state: SessionState,
    /// Handling of the message that is being received.
    incoming: IncomingMessage,
    fence: Fence,
    /// The server's `_Server` database. `None`: the server has none.
    server_database: Option<ServerDatabase>,
    status: Option<DatabaseStatus>,
    /// Ids of requests whose replies are ignored.
    ignored_replies: BTreeSet<i64>,
}

#[derive(Debug)]
enum SessionState {
    /// Waits for the contents of `_Server`.
    RequestingServerStatus { request: i64 },
    /// The server has no `_Server` database. Waits for the reply to `list_dbs`.
    ListingDatabases { request: i64 },
    /// Waits for the reply to `get_schema`.
    FetchingSchema { request: i64 },
    /// Waits for the first reply of the monitor.
    StartingMonitor(Box<PendingMonitor>),
    /// The monitor is active.
    Live(Box<ActiveMonitor>),
    /// The monitor is cancelled until a bulk transaction is answered.
    MonitorSuspended(SuspendedMonitor),
    /// An error has ended the session.
    Failed,
}

/// A monitor whose first reply is outstanding.
#[derive(Debug)]
struct PendingMonitor {
    request: i64,
    version: MonitorVersion,
    schema: Arc<DatabaseSchema>,
    monitored: MonitorRequests,
    /// Id of the last transaction that the replica shows. `None`: the server must send the whole
    /// database.
    since: Option<Uuid>,
}

/// A monitor that reports updates.
#[derive(Debug)]
struct ActiveMonitor {
    version: MonitorVersion,
    schema: Arc<DatabaseSchema>,
    monitored: MonitorRequests,
    /// Id of the last transaction that the replica shows. `None`: the server keeps no history.
    last: Option<Uuid>,
    /// Change of conditions without a reply: the request's id, and what is monitored after the
    /// reply.
    change: Option<(i64, MonitorRequests)>,
    /// Id of the request that checks whether the schema was current when the monitor began.
    check: Option<i64>,
}

/// An event for the owner of the connection.
#[derive(Debug)]
pub(super) enum SessionEvent {
    /// The replica holds the database.
    ReplicaReady(ReplicaReady),
    /// The replica has changed.
    ReplicaChanged,
    /// Filters have taken effect in the replica.
    FiltersApplied(AppliedFilters),
    /// The monitor has ended, because the schema has changed.
    SchemaChanged,
    /// A reply to a request that the session does not handle itself.
    Answer { request: i64, reply: TextBuf },
    /// The server has finished with all earlier connections of this client.
    Fenced,
    /// A notification about the lock of this name.
    Lock { name: Vec<u8>, notification: LockNotification },
}

/// The replica holds the database.
#[derive(Debug)]
pub(super) struct ReplicaReady {
    /// Way of the resync.
    pub(super) resync: ResyncKind,
    /// Number of rows that have changed.
    pub(super) rows: usize,
    /// Handles whose filters have taken effect.
    pub(super) applied_filters: AppliedFilters,
}

impl Session {
    /// Starts the protocol with `remote`. `fence_lock` is the name of the lock of the [`Fence`].
    pub(super) fn new(
        config: Arc<Config>,
        remote: &Remote,
        fence_lock: Arc<str>,
        now: Instant,
    ) -> Self {
        let framer = Framer::new(config.max_message).with_max_string(config.max_string);
        let mut rpc = Rpc::new(framer, config.probe_interval(remote), now);
        let request = rpc.request(
            super::server_database::SERVER_MONITOR_VERSION.method(),
            ServerDatabase::write_params,
        );
        let state = SessionState::RequestingServerStatus { request };
        let fence = Fence::new(fence_lock, &mut rpc);
        let change_aware = rpc.request("set_db_change_aware", |out| {
            out.extend_from_slice(b"[true]");
        });
        Self {
            config,
            rpc,
            started: now,
            last_progress: now,
            state,
            incoming: IncomingMessage::default(),
            fence,
            server_database: None,
            status: None,
            // Some servers do not support it.
            ignored_replies: BTreeSet::from([change_aware]),
        }
    }

    /// The database's status in `_Server`. `None`: the server has no `_Server` database.
    pub(super) fn status(&self) -> Option<&DatabaseStatus> {
        self.status.as_ref()
    }

    /// `true` while the replica follows the database.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, SessionState::Live(_))
    }

    /// `true` once the server has finished with all earlier connections of this client.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.is_held()
    }

    /// Changes the probe interval. `None`: no probes.
    pub(super) fn set_probe_interval(&mut self, interval: Option<Duration>) {
        self.rpc.set_probe_interval(interval);
    }

    /// See [`Rpc::buffers`].
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &[u8]) {
        self.rpc.buffers()
    }

    /// Handles bytes that were received at `now`.
    pub(super) fn on_received(&mut self, now: Instant) {
        self.rpc.on_received(now);
    }

    /// Handles `len` bytes that were written to the stream.
    pub(super) fn on_sent(&mut self, len: usize) {
        self.rpc.on_sent(len);
    }

    /// Handles progress of a write that had to wait: the server reads, however slow the connection
    /// is.
    pub(super) fn on_send_progress(&mut self, now: Instant) {
        self.rpc.on_send_progress(now);
        self.last_progress = now;
    }

    /// Number of bytes that wait to be sent. Operations that are not encoded yet are estimated.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.rpc.unsent_bytes()
    }

    /// Position up to which everything has been sent.
    pub(super) fn sent_position(&self) -> SendPosition {
        self.rpc.sent_position()
    }

    /// When to call [`on_deadline`](Self::on_deadline).
    pub(super) fn deadline(&self) -> Option<Instant> {
        let setup = match self.state {
            // A limit that overflows `Instant` is no limit.
            SessionState::RequestingServerStatus { .. } => {
                self.started.checked_add(self.config.connect_timeout)
            }
            SessionState::Live { .. } | SessionState::MonitorSuspended(_) => None,
            _ => self.last_progress.checked_add(self.config.setup_timeout),
        };
        self.rpc.deadline().into_iter().chain(setup).min()
    }

    /// Sends a probe if one is due. Fails if the server was silent for too long.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<(), SessionError> {
        self.rpc.on_deadline(now).map_err(SessionError::Silent)?;
        let (silent, limit) = match self.state {
            SessionState::RequestingServerStatus { .. } => {
                (now - self.started, self.config.connect_timeout)
            }
            SessionState::Live { .. } | SessionState::MonitorSuspended(_) => return Ok(()),
            _ => (now - self.last_progress, self.config.setup_timeout),
        };
        if silent < limit {
            return Ok(());
        }
        Err(SessionError::Silent(silent))
    }

    /// Sends a `transact` request that is complete but for its id. Returns the id and the position
    /// of its end.
    pub(super) fn transact(&mut self, request: impl Into<Outgoing>) -> (i64, SendPosition) {
        self.rpc.request_from_head(request)
    }

    /// Handles received messages up to the next event. `None`: no complete message is left.
    pub(super) fn next_event(
        &mut self,
        retained: &mut RetainedState,
    ) -> Result<Option<SessionEvent>, SessionError> {
        while let Some(text) = self.next_text(retained)? {
            let event = match Message::decode(&text)? {
                Message::Request { method, mut params, id } => {
                    let outcome =
                        if method == "echo" { Ok(params.skip()) } else { Err("unknown method") };
                    if !self.rpc.answer(&id, outcome) {
                        return Err(unexpected("request", "the server does not read its answers"));
                    }
                    None
                }
                Message::Notification { method, params } => {
                    self.handle_notification(&method, params, retained)?
                }
                Message::Reply(Reply { id, .. }) if Rpc::is_probe(&id) => None,
                Message::Reply(Reply { id, outcome }) => match id {
                    Json::Integer(request) if self.awaits_setup_reply(request) => {
                        self.last_progress = self.rpc.last_received();
                        self.handle_setup_reply(outcome, retained)?
                    }
                    Json::Integer(request) if self.awaits_filter_reply(request) => {
                        Some(self.handle_filter_reply(outcome, retained))
                    }
                    Json::Integer(request) if self.awaits_schema_check(request) => {
                        self.handle_schema_check(outcome, retained)?
                    }
                    Json::Integer(request) if self.fence.awaits(request) => {
                        self.fence.handle_reply(outcome)?.then_some(SessionEvent::Fenced)
                    }
                    Json::Integer(request) if self.ignored_replies.remove(&request) => None,
                    Json::Integer(request) => Some(SessionEvent::Answer { request, reply: text }),
                    _ => return Err(unexpected("reply", "its id belongs to no request")),
                },
            };
            self.incoming.finish()?;
            if event.is_some() {
                return Ok(event);
            }
        }
        if self.rpc.is_receiving() {
            // Receiving a part of a long message counts as progress.
            self.last_progress = self.rpc.last_received();
            self.decode_received_rows(retained);
        }
        Ok(None)
    }

    /// Checks that the server still qualifies.
    fn check_server(&mut self, retained: &mut RetainedState) -> Result<(), SessionError> {
        if let Some(server) = &self.server_database {
            self.status = Some(server.check(&self.config, &mut retained.log_position)?);
        }
        Ok(())
    }

    fn handle_notification(
        &mut self,
        method: &str,
        params: Reader<'_>,
        retained: &mut RetainedState,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let mut at = params;
        at.enter_array();
        if method == "locked" || method == "stolen" {
            return self.handle_lock_notification(method, at);
        }
        if method == "monitor_canceled" {
            return self.handle_monitor_canceled(at);
        }
        if self.server_database.is_some()
            && method == super::server_database::SERVER_MONITOR_VERSION.update_method()
        {
            let mut at = at;
            if at.next_element()
                && at.string().as_deref()
                    == Some(super::server_database::SERVER_MONITOR_ID.as_bytes())
            {
                return self.handle_server_update(at, retained).map(|()| None);
            }
        }
        self.handle_database_update(method, at, retained)
    }

    /// Handles `locked` and `stolen`; `at` is before the lock's name.
    fn handle_lock_notification(
        &mut self,
        method: &str,
        mut at: Reader<'_>,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let name = at
            .next_element()
            .then(|| at.string())
            .flatten()
            .ok_or_else(|| unexpected("locked", "it names no lock"))?;
        let notification =
            if method == "locked" { LockNotification::Locked } else { LockNotification::Stolen };
        Ok(match notification {
            LockNotification::Locked if self.fence.handle_locked(&name) => {
                Some(SessionEvent::Fenced)
            }
            _ => Some(SessionEvent::Lock { name: name.into_owned(), notification }),
        })
    }

    /// Sends outstanding lock requests, unless earlier messages are still unsent.
    pub(super) fn send_lock_requests(&mut self, locks: &LockRequests) {
        if !self.is_live() || self.unsent_bytes() > 0 {
            return;
        }
        locks.send_requests(|method, name| {
            self.rpc.request(method, |out| {
                out.push(b'[');
                write::string(out, name.as_bytes());
                out.push(b']');
            })
        });
    }

    /// Applies an update of `_Server`; `at` is before its contents.
    fn handle_server_update(
        &mut self,
        mut at: Reader<'_>,
        retained: &mut RetainedState,
    ) -> Result<(), SessionError> {
        if !at.next_element() {
            return Err(unexpected("update2", "it has no contents"));
        }
        if let Some(server) = &mut self.server_database {
            server.apply(at)?;
        }
        self.check_server(retained)
    }
}

#[cfg(test)]
mod tests;
