//! The protocol of one connection, without its socket.
//!
//! ```text
//! AskingServer --> FetchingSchema --> StartingMonitor(V3) --> Live --+
//!   | no _Server      ^   ^               |  unknown method    ^     | the schema changes
//!   +-> ListingDatabases  |               +-> (V2) --> (V1) ---+     |
//!                     ^   +------------------------------------------+
//!                     +--- Bulk <--- a bulk transaction is sent -----+
//! ```
//!
//! The schema may change between its fetching and the monitor, of which no server tells: it is fetched once more when the
//! session is live.
//!
//! An error in any state ends the connection; the next one begins from the first state. So does a server that is not good
//! enough any more, which its `_Server` database tells at any time.
//!
//! Beside this, the session builds a [`Fence`] between this connection and the former ones.

mod bulk;
mod follow;
mod setup;
mod streaming;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::json::{Json, Reader, TextBuf, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Message, MonitorRequests, MonitorVersion, Reply};
use uuid::Uuid;

use super::condition::Reached;
use super::config::Config;
use super::connection_events::Resync;
use super::error::{SessionError, unexpected};
use super::fence::Fence;
use super::known::Known;
use super::lock::{Locks, Notice};
use super::outgoing::{Outgoing, Place};
use super::remote::Remote;
use super::rpc::Rpc;
use super::server_database::{DatabaseStatus, ServerDatabase};
use bulk::Bulk;
use streaming::IncomingMessage;

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    config: Arc<Config>,
    rpc: Rpc,
    started: Instant,
    /// When the server last did something towards the next state.
    progress: Instant,
    state: State,
    /// Decoding state of the message that is being received.
    incoming: IncomingMessage,
    fence: Fence,
    /// What the server says of its databases; none when it says nothing.
    server: Option<ServerDatabase>,
    status: Option<DatabaseStatus>,
    /// Requests whose answers, which are to come, mean nothing, whatever they are.
    unawaited: BTreeSet<i64>,
}

#[derive(Debug)]
enum State {
    /// Waits for what the server says of its databases.
    AskingServer { request: i64 },
    /// The server does not say. Waits for the answer to `list_dbs`.
    ListingDatabases { request: i64 },
    /// Waits for the answer to `get_schema`.
    FetchingSchema { request: i64 },
    /// Waits for the contents of the database.
    StartingMonitor(Box<Starting>),
    /// The replica follows the database.
    Live(Box<Following>),
    /// The server reports nothing while it executes a transaction.
    Bulk(Bulk),
    /// An error has ended the session.
    Failed,
}

/// A monitor that was asked for.
#[derive(Debug)]
struct Starting {
    request: i64,
    version: MonitorVersion,
    schema: Arc<DatabaseSchema>,
    asked: MonitorRequests,
    /// The last transaction that need not be reported.
    since: Option<Uuid>,
}

/// A monitor.
#[derive(Debug)]
struct Following {
    version: MonitorVersion,
    schema: Arc<DatabaseSchema>,
    asked: MonitorRequests,
    /// The last transaction that the replica shows; none from servers that keep no history.
    last: Option<Uuid>,
    /// A change of conditions on its way: the request, and what will be asked once it is answered.
    change: Option<(i64, MonitorRequests)>,
    /// The request that shows whether the schema was still this one when the monitor began.
    check: Option<i64>,
}

/// What a message means to the owner of the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// The replica holds the database.
    Live(Live),
    /// The replica has changed.
    Changed,
    /// The replica holds the rows that filters let through.
    Filtered(Reached),
    /// What the server reports is not followed any more, because its schema has changed.
    SchemaChanged,
    /// A transaction was answered; the text is a reply.
    Answer { request: i64, reply: TextBuf },
    /// The server is done with all former connections of this client.
    Fenced,
    /// The server has said something of a lock of this name.
    Lock { name: Vec<u8>, notice: Notice },
}

/// The replica holds the database.
#[derive(Debug)]
pub(super) struct Live {
    /// How it came to.
    pub(super) resync: Resync,
    /// How many rows have changed.
    pub(super) rows: usize,
    /// Those whose filters are in force now.
    pub(super) reached: Reached,
}

impl Session {
    /// Begins to talk to `remote`. `lock` is the name of the lock of this client's connections.
    pub(super) fn new(config: Arc<Config>, remote: &Remote, lock: Arc<str>, now: Instant) -> Self {
        let mut rpc = Rpc::new(config.max_message, config.probe_interval(remote), now);
        let request = rpc.request(
            super::server_database::VERSION.method(),
            ServerDatabase::write_params,
        );
        let state = State::AskingServer { request };
        let fence = Fence::new(lock, &mut rpc);
        let change_aware = rpc.request("set_db_change_aware", |out| {
            out.extend_from_slice(b"[true]");
        });
        Self {
            config,
            rpc,
            started: now,
            progress: now,
            state,
            incoming: IncomingMessage::default(),
            fence,
            server: None,
            status: None,
            // Not all servers know it.
            unawaited: BTreeSet::from([change_aware]),
        }
    }

    /// What the server says of the database; none when it says nothing.
    pub(super) fn status(&self) -> Option<&DatabaseStatus> {
        self.status.as_ref()
    }

    /// Whether the replica follows the database.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// Whether the server is done with all former connections of this client.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.is_up()
    }

    /// See [`Rpc::buffers`].
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &[u8]) {
        self.rpc.buffers()
    }

    /// Bytes were received at `now`.
    pub(super) fn received(&mut self, now: Instant) {
        self.rpc.received(now);
    }

    /// Bytes were handed to the system to be sent.
    pub(super) fn sent(&mut self, len: usize) {
        self.rpc.sent(len);
    }

    /// What had to wait to be sent has moved on at `now`: the server reads, however slow the way to it is.
    pub(super) fn moved(&mut self, now: Instant) {
        self.rpc.moved(now);
        self.progress = now;
    }

    /// How many bytes wait to be sent; what is not encoded yet is counted by operations.
    pub(super) fn unsent(&self) -> usize {
        self.rpc.unsent()
    }

    /// Up to where everything has been sent.
    pub(super) fn sent_up_to(&self) -> Place {
        self.rpc.sent_up_to()
    }

    /// When to call [`on_deadline`](Self::on_deadline).
    pub(super) fn deadline(&self) -> Option<Instant> {
        let setup = match self.state {
            // A limit beyond the end of time is none.
            State::AskingServer { .. } => self.started.checked_add(self.config.connect_timeout),
            State::Live { .. } | State::Bulk(_) => None,
            _ => self.progress.checked_add(self.config.setup_timeout),
        };
        self.rpc.deadline().into_iter().chain(setup).min()
    }

    /// Looks whether the server has been silent for too long.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<(), SessionError> {
        self.rpc.on_deadline(now).map_err(SessionError::Silent)?;
        let (silent, limit) = match self.state {
            State::AskingServer { .. } => (now - self.started, self.config.connect_timeout),
            State::Live { .. } | State::Bulk(_) => return Ok(()),
            _ => (now - self.progress, self.config.setup_timeout),
        };
        if silent < limit {
            return Ok(());
        }
        Err(SessionError::Silent(silent))
    }

    /// Sends a `transact` request of which everything is there but its id. Returns the id, and up to where in the
    /// what is sent it goes.
    pub(super) fn transact(&mut self, request: impl Into<Outgoing>) -> (i64, Place) {
        self.rpc.request_from_head(request)
    }

    /// Deals with received messages until one means something to the owner; none when there are no more.
    pub(super) fn next_event(&mut self, known: &mut Known) -> Result<Option<Event>, SessionError> {
        while let Some(text) = self.next_text(known)? {
            let event = match Message::decode(&text)? {
                Message::Request {
                    method,
                    mut params,
                    id,
                } => {
                    let outcome = if method == "echo" {
                        Ok(params.skip())
                    } else {
                        Err("unknown method")
                    };
                    if !self.rpc.answer(&id, outcome) {
                        return Err(unexpected(
                            "request",
                            "the server does not read its answers",
                        ));
                    }
                    None
                }
                Message::Notification { method, params } => {
                    self.notification(&method, params, known)?
                }
                Message::Reply(Reply { id, .. }) if Rpc::is_probe(&id) => None,
                Message::Reply(Reply { id, outcome }) => match id {
                    Json::Integer(request) if self.awaits(request) => {
                        self.progress = self.rpc.heard();
                        self.answer(outcome, known)?
                    }
                    Json::Integer(request) if self.awaits_change(request) => {
                        Some(self.filters_answered(outcome, known))
                    }
                    Json::Integer(request) if self.awaits_check(request) => {
                        self.schema_checked(outcome, known)?
                    }
                    Json::Integer(request) if self.fence.awaits(request) => {
                        self.fence.answered(outcome)?.then_some(Event::Fenced)
                    }
                    Json::Integer(request) if self.unawaited.remove(&request) => None,
                    Json::Integer(request) => Some(Event::Answer {
                        request,
                        reply: text,
                    }),
                    _ => return Err(unexpected("reply", "nobody asked for it")),
                },
            };
            self.incoming.finish()?;
            if event.is_some() {
                return Ok(event);
            }
        }
        if self.rpc.is_receiving() {
            // A long message, such as the contents of a large database, may take its time.
            self.progress = self.rpc.heard();
            self.decode_received_rows(known);
        }
        Ok(None)
    }

    /// Looks whether the server is still good enough.
    fn check_server(&mut self, known: &mut Known) -> Result<(), SessionError> {
        if let Some(server) = &self.server {
            self.status = Some(server.check(&self.config, &mut known.seen)?);
        }
        Ok(())
    }

    fn notification(
        &mut self,
        method: &str,
        params: Reader<'_>,
        known: &mut Known,
    ) -> Result<Option<Event>, SessionError> {
        let mut at = params;
        at.enter_array();
        if method == "locked" || method == "stolen" {
            return self.lock_noticed(method, at);
        }
        if method == "monitor_canceled" {
            return self.monitor_canceled(at);
        }
        if self.server.is_some() && method == super::server_database::VERSION.update_method() {
            let mut at = at;
            if at.next_element()
                && at.string().as_deref() == Some(super::server_database::MONITOR.as_bytes())
            {
                return self.server_changed(at, known).map(|()| None);
            }
        }
        self.database_changed(method, at, known)
    }

    /// The server says that a lock is ours now, or not any more; `at` is before its name.
    fn lock_noticed(
        &mut self,
        method: &str,
        mut at: Reader<'_>,
    ) -> Result<Option<Event>, SessionError> {
        let name = at.next_element().then(|| at.string()).flatten();
        let name = name.ok_or_else(|| unexpected("locked", "it names no lock"))?;
        let notice = if method == "locked" {
            Notice::Locked
        } else {
            Notice::Stolen
        };
        Ok(match notice {
            Notice::Locked if self.fence.locked(&name) => Some(Event::Fenced),
            _ => Some(Event::Lock {
                name: name.into_owned(),
                notice,
            }),
        })
    }

    /// Tells the server which locks are wanted, once it reads what it gets.
    pub(super) fn ask_for_locks(&mut self, locks: &Locks) {
        if !self.is_live() || self.unsent() > 0 {
            return;
        }
        locks.send(|method, name| {
            self.rpc.request(method, |out| {
                out.push(b'[');
                write::string(out, name.as_bytes());
                out.push(b']');
            })
        });
    }

    /// The server has changed what it says of its databases; `at` is before the contents of the update.
    fn server_changed(
        &mut self,
        mut at: Reader<'_>,
        known: &mut Known,
    ) -> Result<(), SessionError> {
        if !at.next_element() {
            return Err(unexpected("update2", "it has no content"));
        }
        if let Some(server) = &mut self.server {
            server.apply(at)?;
        }
        self.check_server(known)
    }
}

#[cfg(test)]
mod tests;
