//! Setup of a connection, from the first request to a live replica.

use std::sync::Arc;

use patchbay_schemas::atom::{parse_uuid, write_uuid};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, Reader, ValueKind, write};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};
use uuid::Uuid;

use super::{ActiveMonitor, PendingMonitor, ReplicaReady, Session, SessionEvent, SessionState};
use crate::client::connection_events::ResyncKind;
use crate::client::error::{SessionError, reply_error, unexpected};
use crate::client::replica::{Replica, TableUpdates};
use crate::client::retained_state::{HistoryPosition, RetainedState};
use crate::client::server_database::ServerDatabase;

impl Session {
    /// `true` if `id` belongs to the request whose reply leads to the next state.
    pub(super) fn awaits_setup_reply(&self, id: i64) -> bool {
        match &self.state {
            SessionState::RequestingServerStatus { request }
            | SessionState::ListingDatabases { request }
            | SessionState::FetchingSchema { request } => *request == id,
            SessionState::StartingMonitor(starting) => starting.request == id,
            SessionState::Live { .. }
            | SessionState::MonitorSuspended(_)
            | SessionState::Failed => false,
        }
    }

    /// Handles the reply that leads to the next state.
    pub(super) fn handle_setup_reply(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        retained: &mut RetainedState,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let state = std::mem::replace(&mut self.state, SessionState::Failed);
        self.state = match (state, outcome.map_err(reply_error)) {
            (SessionState::RequestingServerStatus { .. }, Ok(databases)) => {
                self.server_database = Some(ServerDatabase::decode(databases)?);
                self.check_server(retained)?;
                self.fetch_schema()
            }
            (SessionState::RequestingServerStatus { .. }, Err(error)) => {
                tracing::debug!(%error, "the server has no _Server database");
                let request = self.rpc.request("list_dbs", |out| out.extend_from_slice(b"[]"));
                SessionState::ListingDatabases { request }
            }
            (SessionState::ListingDatabases { .. }, Ok(databases)) => {
                self.handle_database_list(databases)?
            }
            (SessionState::ListingDatabases { .. }, Err(error)) => {
                return Err(refused("list_dbs", &error));
            }
            (SessionState::FetchingSchema { .. }, Ok(schema)) => {
                self.handle_schema(schema, retained)?
            }
            (SessionState::FetchingSchema { .. }, Err(error)) => {
                return Err(refused("get_schema", &error));
            }
            (SessionState::StartingMonitor(starting), Ok(contents)) => {
                return self.handle_first_contents(*starting, contents, retained).map(Some);
            }
            (SessionState::StartingMonitor(starting), Err(error)) => {
                let PendingMonitor { version, schema, monitored, .. } = *starting;
                let Some(version) = older(version).filter(|_| is_unknown_method(&error)) else {
                    let error = refused(version.method(), &error);
                    retained.filters.reject_sent(&error.to_string());
                    return Err(error);
                };
                self.start_monitor(version, schema, monitored, retained)
            }
            (
                other @ (SessionState::Live { .. }
                | SessionState::MonitorSuspended(_)
                | SessionState::Failed),
                _,
            ) => other,
        };
        Ok(None)
    }

    fn handle_database_list(
        &mut self,
        mut databases: Reader<'_>,
    ) -> Result<SessionState, SessionError> {
        let wanted = &self.config.database;
        let names = match Json::read(&mut databases) {
            Json::Array(names) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let mut present: Vec<String> =
            names.ok_or_else(|| unexpected("list_dbs", "it is not a list of names"))?;
        if !present.contains(wanted) {
            present.sort();
            return Err(SessionError::NoDatabase { wanted: wanted.clone(), present });
        }
        Ok(self.fetch_schema())
    }

    pub(super) fn fetch_schema(&mut self) -> SessionState {
        let request = self.request_schema();
        SessionState::FetchingSchema { request }
    }

    fn request_schema(&mut self) -> i64 {
        // `_Server` also has the schema, but a standalone server does not update it after a
        // conversion.
        self.rpc.request("get_schema", |out| {
            out.push(b'[');
            write::string(out, self.config.database.as_bytes());
            out.push(b']');
        })
    }

    fn handle_schema(
        &mut self,
        schema: Reader<'_>,
        retained: &mut RetainedState,
    ) -> Result<SessionState, SessionError> {
        let schema = read_schema(schema)?;
        let selection = &self.config.selection;
        let (monitored, lacking) = selection.requests(&schema, retained.filters.wanted());
        tracing::debug!(version = schema.version, "fetched the schema");
        if !lacking.is_empty() {
            tracing::info!(
                ?lacking,
                version = schema.version,
                "the server's schema lacks selected tables or columns"
            );
        }
        retained.filters.mark_sent();
        Ok(self.start_monitor(MonitorVersion::V3, Arc::new(schema), monitored, retained))
    }

    fn start_monitor(
        &mut self,
        version: MonitorVersion,
        schema: Arc<DatabaseSchema>,
        monitored: MonitorRequests,
        retained: &RetainedState,
    ) -> SessionState {
        let since = retained
            .last_transaction(&schema, &monitored)
            .filter(|_| version == MonitorVersion::V3);
        let request = self.rpc.request(version.method(), |out| {
            out.push(b'[');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            write::string(out, schema.name.as_bytes());
            out.push(b',');
            monitored.write_json(&schema, version, out);
            if version == MonitorVersion::V3 {
                // The nil UUID requests the whole database.
                out.extend_from_slice(b",\"");
                write_uuid(out, since.unwrap_or_default());
                out.push(b'"');
            }
            out.push(b']');
        });
        SessionState::StartingMonitor(Box::new(PendingMonitor {
            request,
            version,
            schema,
            monitored,
            since,
        }))
    }

    fn handle_first_contents(
        &mut self,
        starting: PendingMonitor,
        contents: Reader<'_>,
        retained: &mut RetainedState,
    ) -> Result<SessionEvent, SessionError> {
        let PendingMonitor { version, schema, monitored, since, .. } = starting;
        let (first, contents) = match version {
            MonitorVersion::V3 => first_reply(contents)?,
            _ => (FirstReply::default(), contents),
        };
        if first.found && since.is_none() {
            return Err(unexpected(
                version.method(),
                "it continues a history that was not requested",
            ));
        }
        // Malformed contents do not affect the replica, but its position in the server's history is
        // uncertain.
        retained.position = None;
        let replica = retained.replica.get_or_insert_with(|| {
            Replica::new(schema.clone(), &self.config.indexes)
                .with_strings(std::mem::take(&mut retained.strings))
        });
        let contents =
            TableUpdates { version, text: contents, streamed: self.incoming.take_rows() };
        replica.at(first.last);
        let (resync, changes) = if first.found {
            (ResyncKind::Continued, replica.catch_up(contents)?)
        } else {
            (ResyncKind::Full, replica.replace(&schema, contents)?)
        };
        retained.position =
            first.last.map(|last| HistoryPosition { last, monitored: monitored.clone() });
        self.state = SessionState::Live(Box::new(ActiveMonitor {
            version,
            schema,
            monitored,
            last: first.last,
            change: None,
            check: Some(self.request_schema()),
        }));
        Ok(SessionEvent::ReplicaReady(ReplicaReady {
            resync,
            rows: changes.rows.len(),
            applied_filters: retained.filters.take_applied(),
        }))
    }

    /// `true` if `id` belongs to the second request for the schema.
    pub(super) fn awaits_schema_check(&self, id: i64) -> bool {
        matches!(&self.state, SessionState::Live(monitor) if monitor.check == Some(id))
    }

    /// Compares the schema with the one that was fetched first. If it has changed before the
    /// monitor began, the server does not report that and uses the names of the former schema; then
    /// setup starts again.
    pub(super) fn handle_schema_check(
        &mut self,
        outcome: Result<Reader<'_>, Reader<'_>>,
        retained: &mut RetainedState,
    ) -> Result<Option<SessionEvent>, SessionError> {
        let schema = outcome.map_err(|error| refused("get_schema", &reply_error(error)))?;
        let schema = read_schema(schema)?;
        let SessionState::Live(monitor) = &mut self.state else {
            return Ok(None);
        };
        monitor.check = None;
        if schema.to_json() == monitor.schema.to_json() {
            return Ok(None);
        }
        retained.position = None;
        self.cancel_monitor();
        self.abandon_monitor();
        self.state = self.fetch_schema();
        Ok(Some(SessionEvent::SchemaChanged))
    }
}

/// Decodes the result of `get_schema`. Its order is that of ovsdb-server's relays, whose schema is a
/// copy of the sorted one in `_Server`.
fn read_schema(mut schema: Reader<'_>) -> Result<DatabaseSchema, SessionError> {
    if schema.kind() != ValueKind::Object {
        return Err(unexpected("get_schema", "it is not an object"));
    }
    let mut schema =
        DatabaseSchema::from_json(&Json::read(&mut schema)).map_err(SessionError::Schema)?;
    schema.reorder_as_copy();
    Ok(schema)
}

/// Members of the first reply of `monitor_cond_since` other than its contents.
#[derive(Debug, Default)]
struct FirstReply {
    /// `true` if the contents are the changes since the requested transaction, false if they are
    /// the whole database.
    found: bool,
    /// Id of the last transaction that they show. `None`: the server keeps no history.
    last: Option<Uuid>,
}

/// Decodes `[found, last_id, contents]`.
fn first_reply(mut at: Reader<'_>) -> Result<(FirstReply, Reader<'_>), SessionError> {
    let malformed = |problem| unexpected(MonitorVersion::V3.method(), problem);
    if !at.enter_array() || !at.next_element() {
        return Err(malformed("it is not an array"));
    }
    let found = at.boolean().ok_or_else(|| malformed("its first element is not a boolean"))?;
    let last = transaction_id(&mut at).ok_or_else(|| malformed("it has no transaction id"))?;
    let last = known_transaction(last);
    if !at.next_element() {
        return Err(malformed("it has no contents"));
    }
    Ok((FirstReply { found, last }, at))
}

/// Reads the transaction id in the next element. Servers without history send the nil UUID.
pub(super) fn transaction_id(at: &mut Reader<'_>) -> Option<Uuid> {
    at.next_element().then_some(())?;
    parse_uuid(&at.string()?)
}

/// The transaction id, unless it is nil.
pub(super) fn known_transaction(id: Uuid) -> Option<Uuid> {
    Some(id).filter(|id| !id.is_nil())
}

/// The next older monitor method.
fn older(version: MonitorVersion) -> Option<MonitorVersion> {
    match version {
        MonitorVersion::V3 => Some(MonitorVersion::V2),
        MonitorVersion::V2 => Some(MonitorVersion::V1),
        MonitorVersion::V1 => None,
    }
}

/// `true` if the error stands for an unsupported method. ovsdb-server's is `unknown method`; other
/// servers have different texts.
fn is_unknown_method(error: &OvsdbError) -> bool {
    let text = error.to_string().to_lowercase();
    ["method", "not implemented", "not supported"].iter().any(|word| text.contains(word))
}

fn refused(method: &'static str, error: &OvsdbError) -> SessionError {
    SessionError::Refused { method, error: error.to_string() }
}
