//! The control API: JSON-RPC 2.0 over HTTP and WebSocket, beside OVSDB's own JSON-RPC 1.0.
//!
//! A connection has one long answer at a time ([`ConnectionTurn`]). Requests and answers are bounded
//! in bytes, and there are no batches.

mod connection_turn;
mod description;
mod request_guard;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jsonrpsee::core::middleware::RpcServiceBuilder;
use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::server::{BatchRequestConfig, ServerConfig, ServerHandle};
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::{Extensions, ResponsePayload};
use patchbay_nbctl_text::{Release, northbound, show, show_named};
use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::decode_transaction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::chunk::Chunk;
use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::model::Role;
use crate::reply;
use crate::served_database::ServedDatabase;
use crate::sim::Sim;
use crate::sim::database::SimDatabase;
use crate::sim::rows::RowDocument;

use connection_turn::{ConnectionTurn, ConnectionTurns, PendingRequest};
use request_guard::RequestGuard;

/// Name of the database that methods use if they are given none and it is served.
const NORTHBOUND: &str = "OVN_Northbound";
/// Length of the longest request, in bytes: rows of a test.
const MAX_REQUEST_BYTES: u32 = 4 << 20;
/// Length of the longest answer, in bytes.
const MAX_ANSWER_BYTES: u32 = 10 << 20;
/// Number of answers of a connection that wait to be written.
const MAX_UNWRITTEN_ANSWERS: u32 = 1;
/// Number of characters of a request's text that an error repeats.
const MAX_QUOTED_CHARACTERS: usize = 100;

/// Error code "Invalid params" of JSON-RPC 2.0.
const INVALID_PARAMS: i32 = -32602;
/// Error code "Internal error" of JSON-RPC 2.0.
const INTERNAL_ERROR: i32 = -32603;

/// Counters of a simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimStats {
    /// The server's id, another one after every start.
    pub server_id: String,
    /// Number of open connections.
    pub sessions: usize,
    /// Bytes that the connections hold together, in steps of 64 KiB.
    pub connection_bytes: usize,
    /// Counters of the databases, `_Server` included.
    pub databases: Vec<DatabaseStats>,
}

/// Counters of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseStats {
    /// Name of the database.
    pub name: String,
    /// Number of rows in all tables.
    pub rows: usize,
    /// Number of transactions that changed something.
    pub commits: u64,
    /// Number of monitors of all sessions.
    pub monitors: usize,
    /// Longest time in milliseconds that a request has waited for other requests.
    pub longest_wait_ms: u64,
}

/// Methods of the control API.
#[rpc(server, client, namespace = "sim")]
pub trait ControlApi {
    /// Prints OVN_Northbound like `ovn-nbctl show` of the schema's release: all of it, or the
    /// switch or router with a name or UUID.
    #[method(name = "show", with_extensions)]
    async fn show(&self, name: Option<String>) -> ResponsePayload<'static, String>;

    /// Returns all rows of a database in RFC 7047 notation: an object of tables, each an object of
    /// rows by UUID. Refused if they have more than 10 MiB.
    #[method(name = "dump", with_extensions)]
    async fn dump(&self, database: Option<String>) -> ResponsePayload<'static, serde_json::Value>;

    /// Returns the simulator's counters.
    #[method(name = "stats", with_extensions)]
    async fn stats(&self) -> ResponsePayload<'static, SimStats>;

    /// Returns the open connections, in the order in which they were made.
    #[method(name = "connections", with_extensions)]
    async fn connections(&self) -> ResponsePayload<'static, Vec<ConnectionId>>;

    /// Prints all rows of a database with names in place of UUIDs: equal for databases with equal
    /// content. See [`patchbay_nbctl_text::northbound`].
    #[method(name = "text", with_extensions)]
    async fn text(&self, database: Option<String>) -> ResponsePayload<'static, String>;

    /// Removes all rows or, with the name of a snapshot, returns to its rows; clears faults; ends
    /// an outage. Connections stay. See [`Sim::reset`].
    #[method(name = "reset")]
    async fn reset(&self, snapshot: Option<String>) -> RpcResult<()>;

    /// Keeps the present rows of all databases under a name. See [`Sim::take_snapshot`].
    #[method(name = "snapshot", blocking)]
    fn snapshot(&self, name: String) -> RpcResult<()>;

    /// Returns to the rows of a snapshot. See [`Sim::restore_snapshot`].
    #[method(name = "restore", blocking)]
    fn restore(&self, name: String) -> RpcResult<()>;

    /// Returns the names of the snapshots.
    #[method(name = "snapshots", blocking)]
    fn snapshots(&self) -> RpcResult<Vec<String>>;

    /// Inserts rows by table and name, and returns their UUIDs. The rows are an object, or a string
    /// of YAML or JSON. See [`RowDocument`].
    #[method(name = "insert_rows", with_extensions)]
    async fn insert_rows(
        &self,
        rows: serde_json::Value,
        database: Option<String>,
    ) -> ResponsePayload<'static, BTreeMap<String, BTreeMap<String, String>>>;

    /// Executes the operations of a transaction as a client's, without its faults, and returns the
    /// results (RFC 7047 section 4.1.3). A `wait` that is not satisfied is an error.
    #[method(name = "transact", with_extensions)]
    async fn transact(
        &self,
        operations: Vec<serde_json::Value>,
        database: Option<String>,
    ) -> ResponsePayload<'static, serde_json::Value>;

    /// Sets a fault, which strikes once unless the rule says how often, and returns it. See
    /// [`Sim::set_fault`].
    #[method(name = "set_fault")]
    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultStatus>;

    /// Returns the faults that are set.
    #[method(name = "faults", with_extensions)]
    async fn faults(&self) -> ResponsePayload<'static, Vec<FaultStatus>>;

    /// Clears a fault, or all of them.
    #[method(name = "clear_faults")]
    fn clear_faults(&self, fault: Option<FaultId>) -> RpcResult<()>;

    /// Changes the server's role in a database's cluster. See
    /// [`SimDatabase::set_role`](crate::SimDatabase::set_role).
    #[method(name = "set_role", blocking)]
    fn set_role(&self, role: Role, database: Option<String>) -> RpcResult<()>;

    /// Removes all transactions but the last from a database's history. See
    /// [`SimDatabase::truncate_history`](crate::SimDatabase::truncate_history).
    #[method(name = "truncate_history", blocking)]
    fn truncate_history(&self, database: Option<String>) -> RpcResult<()>;

    /// Gives the server another id and returns it. See [`Sim::new_server_id`].
    #[method(name = "new_server_id")]
    fn new_server_id(&self) -> RpcResult<String>;

    /// Closes all listeners and ends all connections. See [`Sim::go_down`].
    #[method(name = "go_down")]
    async fn go_down(&self) -> RpcResult<()>;

    /// Serves clients again, at the same addresses. See [`Sim::come_back`].
    #[method(name = "come_back")]
    async fn come_back(&self) -> RpcResult<()>;
}

struct Control {
    sim: Sim,
}

impl Control {
    fn database(&self, name: Option<&str>) -> RpcResult<Arc<ServedDatabase>> {
        find_database(&self.sim, &or_default(&self.sim, name))
    }

    /// Makes an answer in the turn of the request's connection.
    async fn answer<T>(
        &self,
        extensions: &Extensions,
        make: impl FnOnce(&Sim, &PendingRequest) -> RpcResult<T> + Send + 'static,
    ) -> ResponsePayload<'static, T>
    where
        T: Clone + Serialize + Send + 'static,
    {
        let Some(turn) = extensions.get::<ConnectionTurn>() else {
            return ResponsePayload::error(internal_error("a request without a connection"));
        };
        let sim = self.sim.clone();
        turn.answer(move |pending| make(&sim, pending)).await
    }
}

fn find_database(sim: &Sim, name: &str) -> RpcResult<Arc<ServedDatabase>> {
    sim.server().database(name).ok_or_else(|| {
        let name: String = name.chars().take(MAX_QUOTED_CHARACTERS).collect();
        invalid_params(format!("this server has no database {name}"))
    })
}

/// The database that methods use if they are given none: OVN_Northbound, or the first one by name.
fn or_default(sim: &Sim, database: Option<&str>) -> String {
    if let Some(database) = database {
        return database.to_owned();
    }
    let names = sim.database_names();
    let northbound = names.iter().find(|name| *name == NORTHBOUND);
    northbound.or(names.first()).map_or(NORTHBOUND, String::as_str).to_owned()
}

/// The database for the simulator's owner.
fn find_owned(sim: &Sim, database: Option<&str>) -> RpcResult<SimDatabase> {
    let served = find_database(sim, &or_default(sim, database))?;
    Ok(SimDatabase::new(sim.server().clone(), served))
}

/// Executes operations in RFC 7047 notation, and returns the results of its reply.
fn execute(
    sim: &Sim,
    operations: &[serde_json::Value],
    database: Option<&str>,
) -> RpcResult<serde_json::Value> {
    let database = find_database(sim, &or_default(sim, database))?;
    let schema = database.schema();
    let text = serde_json::to_vec(operations).map_err(|error| internal_error(error.to_string()))?;
    let text = TextBuf::parse(text).map_err(|error| invalid_params(error.to_string()))?;
    let mut reader = Reader::new(text.as_text());
    reader.enter_array();
    let mut uuids = sim.server().owner_uuids();
    let transaction = StringCache::with_thread(|strings| {
        decode_transaction(reader, &schema, strings, &mut uuids)
    });
    let total = transaction.total;
    let outcome = database.execute_for_owner(transaction, &schema);
    let (results, error) = outcome.map_err(|error| invalid_params(error.to_string()))?;
    let limit = MAX_ANSWER_BYTES as usize;
    let reply = reply::transaction(&Json::Null, &schema, &results, error.as_ref(), total, limit);
    let chunks = reply.ok_or_else(|| {
        internal_error(format!("the results have more than {MAX_ANSWER_BYTES} bytes"))
    })?;
    let text: Vec<u8> = chunks.iter().flat_map(Chunk::bytes).copied().collect();
    serde_json::from_slice(&text)
        .map(|reply: Reply| reply.result)
        .map_err(|error| internal_error(error.to_string()))
}

/// Reply to `transact`.
#[derive(Deserialize)]
struct Reply {
    result: serde_json::Value,
}

fn invalid_params(message: String) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(INVALID_PARAMS, message, None::<()>)
}

fn internal_error(message: impl Into<String>) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(INTERNAL_ERROR, message, None::<()>)
}

fn show_northbound(sim: &Sim, name: Option<&str>) -> RpcResult<String> {
    let snapshot = find_database(sim, NORTHBOUND)?.snapshot();
    let release = Release::of_schema(snapshot.schema());
    match name {
        Some(name) => show_named(&snapshot, name, release),
        None => show(&snapshot, release),
    }
    .map_err(|error| invalid_params(error.to_string()))
}

/// The rows of a database, or an error as soon as they have too many bytes or nobody waits for them.
fn dump_database(
    sim: &Sim,
    database: &str,
    pending: &PendingRequest,
) -> RpcResult<serde_json::Value> {
    let snapshot = find_database(sim, database)?.snapshot();
    let schema = snapshot.schema();
    let mut len = 0;
    let mut tables = serde_json::Map::new();
    for id in schema.table_ids() {
        let table = schema.table(id);
        let mut rows = serde_json::Map::new();
        for row in snapshot.table(id).iter() {
            if pending.is_gone() {
                return Err(internal_error("canceled"));
            }
            if len > MAX_ANSWER_BYTES as usize {
                let text = format!("the rows have more than {MAX_ANSWER_BYTES} bytes");
                return Err(internal_error(text));
            }
            let columns = table.column_ids().map(|column| {
                let mut text = Vec::new();
                row.get(column).write_json(&mut text);
                len += table.column_name(column).len() + text.len();
                let value = serde_json::from_slice(&text)
                    .map_err(|error| invalid_params(error.to_string()))?;
                Ok((table.column_name(column).to_owned(), value))
            });
            let columns: serde_json::Map<_, _> = columns.collect::<RpcResult<_>>()?;
            rows.insert(row.uuid.to_string(), columns.into());
        }
        tables.insert(table.name.to_string(), rows.into());
    }
    Ok(tables.into())
}

fn read_stats(sim: &Sim) -> SimStats {
    let server = sim.server();
    let databases = server
        .databases()
        .all()
        .values()
        .map(|database| DatabaseStats {
            name: database.name().to_owned(),
            rows: database.snapshot().row_count(),
            commits: database.commit_count(),
            monitors: database.state().monitors.len(),
            longest_wait_ms: database.longest_wait().as_millis() as u64,
        })
        .collect();
    SimStats {
        server_id: server.id().to_string(),
        sessions: server.session_count(),
        connection_bytes: server.budget().charged(),
        databases,
    }
}

#[async_trait]
impl ControlApiServer for Control {
    async fn show(
        &self,
        extensions: &Extensions,
        name: Option<String>,
    ) -> ResponsePayload<'static, String> {
        let make = move |sim: &Sim, _: &_| show_northbound(sim, name.as_deref());
        self.answer(extensions, make).await
    }

    async fn dump(
        &self,
        extensions: &Extensions,
        database: Option<String>,
    ) -> ResponsePayload<'static, serde_json::Value> {
        let make = move |sim: &Sim, pending: &_| {
            dump_database(sim, &or_default(sim, database.as_deref()), pending)
        };
        self.answer(extensions, make).await
    }

    async fn stats(&self, extensions: &Extensions) -> ResponsePayload<'static, SimStats> {
        self.answer(extensions, |sim, _| Ok(read_stats(sim))).await
    }

    async fn connections(
        &self,
        extensions: &Extensions,
    ) -> ResponsePayload<'static, Vec<ConnectionId>> {
        let make = |sim: &Sim, _: &_| Ok(sim.server().connections());
        self.answer(extensions, make).await
    }

    async fn text(
        &self,
        extensions: &Extensions,
        database: Option<String>,
    ) -> ResponsePayload<'static, String> {
        let make = move |sim: &Sim, _: &_| {
            let database = find_database(sim, &or_default(sim, database.as_deref()))?;
            Ok(northbound(&database.snapshot()))
        };
        self.answer(extensions, make).await
    }

    async fn reset(&self, snapshot: Option<String>) -> RpcResult<()> {
        let reset = self.sim.reset(snapshot.as_deref()).await;
        reset.map_err(|error| invalid_params(error.to_string()))
    }

    fn snapshot(&self, name: String) -> RpcResult<()> {
        self.sim.take_snapshot(name).map_err(|error| invalid_params(error.to_string()))
    }

    fn restore(&self, name: String) -> RpcResult<()> {
        self.sim.restore_snapshot(&name).map_err(|error| invalid_params(error.to_string()))
    }

    fn snapshots(&self) -> RpcResult<Vec<String>> {
        Ok(self.sim.snapshot_names())
    }

    async fn insert_rows(
        &self,
        extensions: &Extensions,
        rows: serde_json::Value,
        database: Option<String>,
    ) -> ResponsePayload<'static, BTreeMap<String, BTreeMap<String, String>>> {
        let make = move |sim: &Sim, _: &_| {
            let database = find_owned(sim, database.as_deref())?;
            let inserted = RowDocument::from_json(rows)
                .and_then(|document| database.insert_rows(&document))
                .map_err(|error| invalid_params(error.to_string()))?;
            let text = |(name, uuid): (String, Uuid)| (name, uuid.to_string());
            let texts = |rows: BTreeMap<_, _>| rows.into_iter().map(text).collect();
            Ok(inserted.into_iter().map(|(table, rows)| (table, texts(rows))).collect())
        };
        self.answer(extensions, make).await
    }

    async fn transact(
        &self,
        extensions: &Extensions,
        operations: Vec<serde_json::Value>,
        database: Option<String>,
    ) -> ResponsePayload<'static, serde_json::Value> {
        let make = move |sim: &Sim, _: &_| execute(sim, &operations, database.as_deref());
        self.answer(extensions, make).await
    }

    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultStatus> {
        // A fault may strike, and be gone, before this method returns.
        let set = self.sim.set_fault(rule.clone());
        set.map(|id| FaultStatus { id, rule, struck: 0 })
            .map_err(|error| invalid_params(error.to_string()))
    }

    async fn faults(&self, extensions: &Extensions) -> ResponsePayload<'static, Vec<FaultStatus>> {
        let make = |sim: &Sim, _: &_| Ok(sim.server().faults().list());
        self.answer(extensions, make).await
    }

    fn clear_faults(&self, fault: Option<FaultId>) -> RpcResult<()> {
        match fault {
            None => self.sim.server().faults().clear_all(),
            Some(fault) if self.sim.server().faults().clear(fault) => {}
            Some(fault) => return Err(invalid_params(format!("there is no fault {fault}"))),
        }
        Ok(())
    }

    fn set_role(&self, role: Role, database: Option<String>) -> RpcResult<()> {
        self.database(database.as_deref())?
            .set_role(role)
            .map_err(|error| invalid_params(error.to_string()))
    }

    fn truncate_history(&self, database: Option<String>) -> RpcResult<()> {
        self.database(database.as_deref())?
            .truncate_history()
            .map_err(|error| invalid_params(error.to_string()))
    }

    fn new_server_id(&self) -> RpcResult<String> {
        Ok(self.sim.new_server_id().to_string())
    }

    async fn go_down(&self) -> RpcResult<()> {
        self.sim.go_down().await;
        Ok(())
    }

    async fn come_back(&self) -> RpcResult<()> {
        self.sim.come_back().await.map_err(|error| internal_error(error.to_string()))
    }
}

/// Running control API. Dropping it closes its socket.
#[derive(Debug)]
pub struct ControlServer {
    address: SocketAddr,
    _handle: ServerHandle,
}

impl ControlServer {
    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Sim {
    /// Serves the control API (JSON-RPC 2.0 over HTTP and WebSocket) at a loopback address.
    ///
    /// Requests of web pages are refused: those with an `Origin`, and those whose `Host` is neither
    /// `localhost` nor a loopback address.
    ///
    /// # Errors
    /// The address cannot be bound, or is not a loopback address.
    pub async fn serve_control(&self, address: SocketAddr) -> io::Result<ControlServer> {
        if !address.ip().is_loopback() {
            let error = format!("{address} is not a loopback address: it needs a token");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        self.start_control(address, RequestGuard::new(None)).await
    }

    /// Serves the control API at any address. Requests must have the header
    /// `Authorization: Bearer TOKEN`; those with an `Origin` are refused.
    ///
    /// # Errors
    /// The address cannot be bound, or the token is empty.
    pub async fn serve_control_with_token(
        &self,
        address: SocketAddr,
        token: &str,
    ) -> io::Result<ControlServer> {
        if token.is_empty() {
            let error = "the token of the control API is empty";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        self.start_control(address, RequestGuard::new(Some(token))).await
    }

    async fn start_control(
        &self,
        address: SocketAddr,
        guard: RequestGuard,
    ) -> io::Result<ControlServer> {
        let config = ServerConfig::builder()
            .max_request_body_size(MAX_REQUEST_BYTES)
            .max_response_body_size(MAX_ANSWER_BYTES)
            .set_message_buffer_capacity(MAX_UNWRITTEN_ANSWERS)
            .set_batch_request_config(BatchRequestConfig::Disabled)
            .build();
        let listener = jsonrpsee::server::Server::builder()
            .set_config(config)
            .set_rpc_middleware(RpcServiceBuilder::new().layer(ConnectionTurns))
            .set_http_middleware(tower::ServiceBuilder::new().layer(guard))
            .build(address)
            .await?;
        let address = listener.local_addr()?;
        let control = Control { sim: self.clone() };
        let mut methods = control.into_rpc();
        description::add(&mut methods).map_err(io::Error::other)?;
        let handle = listener.start(methods);
        Ok(ControlServer { address, _handle: handle })
    }
}
