//! The protocol of one connection, without its socket.
//!
//! ```text
//! ListingDatabases --> FetchingSchema --> StartingMonitor(V3) --> Live
//!                                             |  unknown method     ^
//!                                             +-> (V2) --> (V1) ----+
//! ```
//!
//! An error in any state ends the connection; the next one begins from the first state.
//!
//! Beside this, the session builds a [`Fence`] between this connection and the former ones.

use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::atom::write_uuid;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Kind, Reader, TextBuf, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Message, MonitorRequests, MonitorVersion, Reply};
use uuid::Uuid;

use super::config::Config;
use super::error::{SessionError, reply_error, unexpected};
use super::fence::Fence;
use super::remote::Remote;
use super::replica::Replica;
use super::rpc::Rpc;

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    config: Arc<Config>,
    rpc: Rpc,
    state: State,
    fence: Fence,
}

#[derive(Debug)]
enum State {
    /// Waits for the answer to `list_dbs`.
    ListingDatabases { request: i64 },
    /// Waits for the answer to `get_schema`.
    FetchingSchema { request: i64 },
    /// Waits for the contents of the database.
    StartingMonitor {
        request: i64,
        version: MonitorVersion,
        schema: Arc<DatabaseSchema>,
        asked: MonitorRequests,
    },
    /// The replica follows the database.
    Live { version: MonitorVersion },
    /// An error has ended the session.
    Failed,
}

/// What a message means to the owner of the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// The replica holds the database.
    Live,
    /// The replica has changed.
    Changed,
    /// A transaction was answered; the text is a reply.
    Answer { request: i64, reply: TextBuf },
    /// The server is done with all former connections of this client.
    Fenced,
}

impl Session {
    /// Begins to talk to `remote`. `lock` is the name of the lock of this client's connections.
    pub(super) fn new(config: Arc<Config>, remote: &Remote, lock: Arc<str>, now: Instant) -> Self {
        let mut rpc = Rpc::new(config.max_message, config.probe_interval(remote), now);
        let request = rpc.request("list_dbs", |out| out.extend_from_slice(b"[]"));
        let state = State::ListingDatabases { request };
        let fence = Fence::new(lock, &mut rpc);
        Self {
            config,
            rpc,
            state,
            fence,
        }
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

    /// How many bytes wait to be sent.
    pub(super) fn unsent(&self) -> u64 {
        self.rpc.unsent()
    }

    /// How many bytes have been sent since the connection began.
    pub(super) fn total_sent(&self) -> u64 {
        self.rpc.total_sent()
    }

    /// When to call [`on_deadline`](Self::on_deadline).
    pub(super) fn deadline(&self) -> Option<Instant> {
        let setup = match self.state {
            State::Live { .. } => None,
            _ => Some(self.rpc.heard() + self.config.setup_timeout),
        };
        self.rpc.deadline().into_iter().chain(setup).min()
    }

    /// Looks whether the server has been silent for too long.
    pub(super) fn on_deadline(&mut self, now: Instant) -> Result<(), SessionError> {
        self.rpc.on_deadline(now).map_err(SessionError::Silent)?;
        let silent = now - self.rpc.heard();
        match self.state {
            State::Live { .. } => Ok(()),
            _ if silent < self.config.setup_timeout => Ok(()),
            _ => Err(SessionError::Silent(silent)),
        }
    }

    /// Sends a `transact` request of which everything is there but its id. Returns the id, and up to where in the
    /// stream of sent bytes it goes.
    pub(super) fn transact(&mut self, request: Vec<u8>) -> (i64, u64) {
        self.rpc.request_from_head(request)
    }

    /// Deals with received messages until one means something to the owner; none when there are no more.
    pub(super) fn next_event(
        &mut self,
        replica: &mut Option<Replica>,
    ) -> Result<Option<Event>, SessionError> {
        while let Some(text) = self.rpc.next_text()? {
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
                    self.notification(&method, params, replica)?
                }
                Message::Reply(Reply { id, .. }) if Rpc::is_probe(&id) => None,
                Message::Reply(Reply { id, outcome }) => match id {
                    Json::Integer(request) if self.awaits(request) => {
                        self.answer(outcome, replica)?
                    }
                    Json::Integer(request) if self.fence.awaits(request) => {
                        self.fence.answered(outcome)?.then_some(Event::Fenced)
                    }
                    Json::Integer(request) => Some(Event::Answer {
                        request,
                        reply: text,
                    }),
                    _ => return Err(unexpected("reply", "nobody asked for it")),
                },
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Whether this is the request whose answer leads to the next state.
    fn awaits(&self, id: i64) -> bool {
        match self.state {
            State::ListingDatabases { request }
            | State::FetchingSchema { request }
            | State::StartingMonitor { request, .. } => request == id,
            State::Live { .. } | State::Failed => false,
        }
    }

    fn answer(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        replica: &mut Option<Replica>,
    ) -> Result<Option<Event>, SessionError> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        self.state = match (state, outcome.map_err(reply_error)) {
            (State::ListingDatabases { .. }, Ok(databases)) => self.databases_listed(databases)?,
            (State::ListingDatabases { .. }, Err(error)) => {
                return Err(refused("list_dbs", &error));
            }
            (State::FetchingSchema { .. }, Ok(schema)) => self.schema_fetched(schema)?,
            (State::FetchingSchema { .. }, Err(error)) => {
                return Err(refused("get_schema", &error));
            }
            (
                State::StartingMonitor {
                    version, schema, ..
                },
                Ok(contents),
            ) => {
                let contents = match version {
                    MonitorVersion::V3 => after_transaction_id(contents)?,
                    _ => contents,
                };
                let replica = replica
                    .get_or_insert_with(|| Replica::new(schema.clone(), &self.config.indexes));
                replica.replace(&schema, contents, version)?;
                State::Live { version }
            }
            (
                State::StartingMonitor {
                    version,
                    schema,
                    asked,
                    ..
                },
                Err(error),
            ) => match older(version).filter(|_| is_unknown_method(&error)) {
                Some(version) => self.start_monitor(version, schema, asked),
                None => return Err(refused(version.method(), &error)),
            },
            (other @ (State::Live { .. } | State::Failed), _) => other,
        };
        Ok(matches!(self.state, State::Live { .. }).then_some(Event::Live))
    }

    fn databases_listed(&mut self, mut databases: Reader<'_>) -> Result<State, SessionError> {
        let wanted = &self.config.database;
        let names = match Json::read(&mut databases) {
            Json::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let mut present: Vec<String> =
            names.ok_or_else(|| unexpected("list_dbs", "not a list of names"))?;
        if !present.contains(wanted) {
            present.sort();
            return Err(SessionError::NoDatabase {
                wanted: wanted.clone(),
                present,
            });
        }
        let request = self.rpc.request("get_schema", |out| {
            out.push(b'[');
            write::string(out, wanted.as_bytes());
            out.push(b']');
        });
        Ok(State::FetchingSchema { request })
    }

    fn schema_fetched(&mut self, mut schema: Reader<'_>) -> Result<State, SessionError> {
        if schema.kind() != Kind::Object {
            return Err(unexpected("get_schema", "not an object"));
        }
        let schema = DatabaseSchema::parse(schema.skip().bytes()).map_err(SessionError::Schema)?;
        let (asked, lacking) = self.config.selection.requests(&schema);
        tracing::debug!(version = schema.version, "the server's schema");
        if !lacking.is_empty() {
            tracing::info!(
                ?lacking,
                version = schema.version,
                "left out what the server's schema lacks"
            );
        }
        Ok(self.start_monitor(MonitorVersion::V3, Arc::new(schema), asked))
    }

    fn start_monitor(
        &mut self,
        version: MonitorVersion,
        schema: Arc<DatabaseSchema>,
        asked: MonitorRequests,
    ) -> State {
        let request = self.rpc.request(version.method(), |out| {
            out.push(b'[');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            asked.write_json(&schema, version, out);
            if version == MonitorVersion::V3 {
                // No contents are known that the server could add to.
                out.extend_from_slice(b",\"");
                write_uuid(out, Uuid::nil());
                out.push(b'"');
            }
            out.push(b']');
        });
        State::StartingMonitor {
            request,
            version,
            schema,
            asked,
        }
    }

    fn notification(
        &mut self,
        method: &str,
        params: Reader<'_>,
        replica: &mut Option<Replica>,
    ) -> Result<Option<Event>, SessionError> {
        let mut at = params;
        at.enter_array();
        if method == "locked" {
            return Ok(self.fence.locked(at).then_some(Event::Fenced));
        }
        let State::Live { version } = self.state else {
            return Ok(None);
        };
        if method != version.update_method() {
            return Ok(None);
        }
        let malformed = |problem| unexpected(version.update_method(), problem);
        if !at.next_element() || at.string().as_deref() != Some(self.config.database.as_bytes()) {
            return Err(malformed("it is of no monitor that was asked for"));
        }
        if version == MonitorVersion::V3 && (!at.next_element() || at.string().is_none()) {
            return Err(malformed("it has no transaction id"));
        }
        if !at.next_element() {
            return Err(malformed("it has no content"));
        }
        let Some(replica) = replica else {
            return Ok(None);
        };
        replica.apply(at, version)?;
        Ok(Some(Event::Changed))
    }
}

/// The contents in the first reply of `monitor_cond_since`: `[found, last_id, contents]`.
fn after_transaction_id(mut at: Reader<'_>) -> Result<Reader<'_>, SessionError> {
    let malformed = |problem| unexpected(MonitorVersion::V3.method(), problem);
    if !at.enter_array() || !at.next_element() {
        return Err(malformed("not an array"));
    }
    match at.boolean() {
        Some(false) => {}
        Some(true) => return Err(malformed("it continues contents that were never sent")),
        None => return Err(malformed("it does not say whether it is complete")),
    }
    if !at.next_element() || at.string().is_none() {
        return Err(malformed("it has no transaction id"));
    }
    if !at.next_element() {
        return Err(malformed("it has no content"));
    }
    Ok(at)
}

/// The next older way to monitor.
fn older(version: MonitorVersion) -> Option<MonitorVersion> {
    match version {
        MonitorVersion::V3 => Some(MonitorVersion::V2),
        MonitorVersion::V2 => Some(MonitorVersion::V1),
        MonitorVersion::V1 => None,
    }
}

/// Whether a server does not know a method. ovsdb-server says `unknown method`, others have words of their own.
fn is_unknown_method(error: &OvsdbError) -> bool {
    let text = error.to_string().to_lowercase();
    ["method", "not implemented", "not supported"]
        .iter()
        .any(|word| text.contains(word))
}

fn refused(method: &'static str, error: &OvsdbError) -> SessionError {
    SessionError::Refused {
        method,
        error: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
