//! From a new connection to a replica that follows the database.

use std::sync::Arc;

use patchbay_schemas::atom::{parse_uuid, write_uuid};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};
use uuid::Uuid;

use super::{Event, Following, Live, Session, Starting, State};
use crate::client::connection_events::Resync;
use crate::client::error::{SessionError, reply_error, unexpected};
use crate::client::known::{Known, Position};
use crate::client::replica::{Replica, Updates};
use crate::client::server_database::ServerDatabase;

impl Session {
    /// Whether this is the request whose answer leads to the next state.
    pub(super) fn awaits(&self, id: i64) -> bool {
        match &self.state {
            State::AskingServer { request }
            | State::ListingDatabases { request }
            | State::FetchingSchema { request } => *request == id,
            State::StartingMonitor(starting) => starting.request == id,
            State::Live { .. } | State::Bulk(_) | State::Failed => false,
        }
    }

    /// The request that leads to the next state was answered.
    pub(super) fn answer(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        known: &mut Known,
    ) -> Result<Option<Event>, SessionError> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        self.state = match (state, outcome.map_err(reply_error)) {
            (State::AskingServer { .. }, Ok(databases)) => {
                self.server = Some(ServerDatabase::decode(databases)?);
                self.check_server(known)?;
                self.fetch_schema()
            }
            (State::AskingServer { .. }, Err(error)) => {
                tracing::debug!(%error, "the server says nothing of its databases");
                let request = self
                    .rpc
                    .request("list_dbs", |out| out.extend_from_slice(b"[]"));
                State::ListingDatabases { request }
            }
            (State::ListingDatabases { .. }, Ok(databases)) => self.databases_listed(databases)?,
            (State::ListingDatabases { .. }, Err(error)) => {
                return Err(refused("list_dbs", &error));
            }
            (State::FetchingSchema { .. }, Ok(schema)) => self.schema_fetched(schema, known)?,
            (State::FetchingSchema { .. }, Err(error)) => {
                return Err(refused("get_schema", &error));
            }
            (State::StartingMonitor(starting), Ok(contents)) => {
                return self.monitor_started(*starting, contents, known).map(Some);
            }
            (State::StartingMonitor(starting), Err(error)) => {
                let Starting {
                    version,
                    schema,
                    asked,
                    ..
                } = *starting;
                let Some(version) = older(version).filter(|_| is_unknown_method(&error)) else {
                    let error = refused(version.method(), &error);
                    known.filters.refused(&error.to_string());
                    return Err(error);
                };
                self.start_monitor(version, schema, asked, known)
            }
            (other @ (State::Live { .. } | State::Bulk(_) | State::Failed), _) => other,
        };
        Ok(None)
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
        Ok(self.fetch_schema())
    }

    pub(super) fn fetch_schema(&mut self) -> State {
        let request = self.ask_for_schema();
        State::FetchingSchema { request }
    }

    fn ask_for_schema(&mut self) -> i64 {
        // What stands in `_Server` is outdated in a server that is alone and whose schema was changed.
        self.rpc.request("get_schema", |out| {
            out.push(b'[');
            write::string(out, self.config.database.as_bytes());
            out.push(b']');
        })
    }

    fn schema_fetched(
        &mut self,
        schema: Reader<'_>,
        known: &mut Known,
    ) -> Result<State, SessionError> {
        let schema = read_schema(schema)?;
        let selection = &self.config.selection;
        let (asked, lacking) = selection.requests(&schema, known.filters.wanted());
        tracing::debug!(version = schema.version, "the server's schema");
        if !lacking.is_empty() {
            tracing::info!(
                ?lacking,
                version = schema.version,
                "left out what the server's schema lacks"
            );
        }
        known.filters.tell();
        Ok(self.start_monitor(MonitorVersion::V3, Arc::new(schema), asked, known))
    }

    fn start_monitor(
        &mut self,
        version: MonitorVersion,
        schema: Arc<DatabaseSchema>,
        asked: MonitorRequests,
        known: &Known,
    ) -> State {
        let since = known
            .last_transaction(&schema, &asked)
            .filter(|_| version == MonitorVersion::V3);
        let request = self.rpc.request(version.method(), |out| {
            out.push(b'[');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            asked.write_json(&schema, version, out);
            if version == MonitorVersion::V3 {
                // All zeros stand for no contents that the server could add to.
                out.extend_from_slice(b",\"");
                write_uuid(out, since.unwrap_or_default());
                out.push(b'"');
            }
            out.push(b']');
        });
        State::StartingMonitor(Box::new(Starting {
            request,
            version,
            schema,
            asked,
            since,
        }))
    }

    fn monitor_started(
        &mut self,
        starting: Starting,
        contents: Reader<'_>,
        known: &mut Known,
    ) -> Result<Event, SessionError> {
        let Starting {
            version,
            schema,
            asked,
            since,
            ..
        } = starting;
        let (first, contents) = match version {
            MonitorVersion::V3 => first_reply(contents)?,
            _ => (FirstReply::default(), contents),
        };
        if first.found && since.is_none() {
            return Err(unexpected(
                version.method(),
                "it continues contents that were never sent",
            ));
        }
        // Contents that make no sense are no reason to distrust the replica, but its place in the server's history.
        known.position = None;
        let replica = known.replica.get_or_insert_with(|| {
            Replica::new(schema.clone(), &self.config.indexes)
                .with_strings(std::mem::take(&mut known.strings))
        });
        let contents = Updates {
            version,
            text: contents,
            streamed: self.incoming.take_rows(),
        };
        let (resync, changes) = if first.found {
            (Resync::Continued, replica.catch_up(contents)?)
        } else {
            (Resync::Full, replica.replace(&schema, contents)?)
        };
        known.position = first.last.map(|last| Position {
            last,
            asked: asked.clone(),
        });
        self.state = State::Live(Box::new(Following {
            version,
            schema,
            asked,
            last: first.last,
            change: None,
            check: Some(self.ask_for_schema()),
        }));
        Ok(Event::Live(Live {
            resync,
            rows: changes.rows.len(),
            reached: known.filters.reached(),
        }))
    }

    /// Whether this is the request that shows whether the schema has changed before the monitor began.
    pub(super) fn awaits_check(&self, id: i64) -> bool {
        matches!(&self.state, State::Live(following) if following.check == Some(id))
    }

    /// The schema was fetched once more. If it was another already when the monitor began, the server will not tell: it
    /// reports what was asked for by the names of the former one. Then everything is begun anew.
    pub(super) fn schema_checked(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        known: &mut Known,
    ) -> Result<Option<Event>, SessionError> {
        let schema = outcome.map_err(|error| refused("get_schema", &reply_error(error)))?;
        let schema = read_schema(schema)?;
        let State::Live(following) = &mut self.state else {
            return Ok(None);
        };
        following.check = None;
        if schema.to_json() == following.schema.to_json() {
            return Ok(None);
        }
        known.position = None;
        self.cancel_monitor();
        self.stop_following();
        self.state = self.fetch_schema();
        Ok(Some(Event::SchemaChanged))
    }
}

/// Reads the result of `get_schema`.
fn read_schema(mut schema: Reader<'_>) -> Result<DatabaseSchema, SessionError> {
    if schema.kind() != ValueKind::Object {
        return Err(unexpected("get_schema", "not an object"));
    }
    DatabaseSchema::parse(schema.skip().bytes()).map_err(SessionError::Schema)
}

/// What the first reply of `monitor_cond_since` says besides its contents.
#[derive(Debug, Default)]
struct FirstReply {
    /// Whether the contents are what has changed, not everything.
    found: bool,
    /// The last transaction that they show; none from servers that keep no history.
    last: Option<Uuid>,
}

/// Reads `[found, last_id, contents]`.
fn first_reply(mut at: Reader<'_>) -> Result<(FirstReply, Reader<'_>), SessionError> {
    let malformed = |problem| unexpected(MonitorVersion::V3.method(), problem);
    if !at.enter_array() || !at.next_element() {
        return Err(malformed("not an array"));
    }
    let found = at
        .boolean()
        .ok_or_else(|| malformed("it does not say whether it is complete"))?;
    let last = transaction_id(&mut at).ok_or_else(|| malformed("it has no transaction id"))?;
    let last = known_transaction(last);
    if !at.next_element() {
        return Err(malformed("it has no content"));
    }
    Ok((FirstReply { found, last }, at))
}

/// The transaction id that is the next element; all zeros from servers that keep no history.
pub(super) fn transaction_id(at: &mut Reader<'_>) -> Option<Uuid> {
    at.next_element().then_some(())?;
    parse_uuid(&at.string()?)
}

/// The transaction of an id.
pub(super) fn known_transaction(id: Uuid) -> Option<Uuid> {
    Some(id).filter(|id| !id.is_nil())
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
