//! The control API: JSON-RPC 2.0 over HTTP and WebSocket, beside OVSDB's own JSON-RPC 1.0.
//!
//! A connection has one long answer at a time ([`ConnectionTurn`]). Requests and answers are bounded
//! in bytes, and there are no batches.

mod connection_turn;
mod request_guard;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jsonrpsee::core::middleware::RpcServiceBuilder;
use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::server::{BatchRequestConfig, ServerConfig, ServerHandle};
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::{Extensions, ResponsePayload};
use patchbay_nbctl_text::{Release, show, show_named};
use serde::{Deserialize, Serialize};

use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::model::Role;
use crate::served_database::ServedDatabase;
use crate::sim::Sim;

use connection_turn::{ConnectionTurn, ConnectionTurns, PendingRequest};
use request_guard::RequestGuard;

/// Name of the database that methods use if they are given none.
const NORTHBOUND: &str = "OVN_Northbound";
/// Length of the longest request, in bytes: more than any has but that of an error text.
const MAX_REQUEST_BYTES: u32 = 1 << 16;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Sets a fault and returns its number. See [`Sim::set_fault`].
    #[method(name = "set_fault")]
    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId>;

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
    fn database(&self, name: &str) -> RpcResult<Arc<ServedDatabase>> {
        find_database(&self.sim, name)
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

fn or_northbound(database: Option<&str>) -> &str {
    database.unwrap_or(NORTHBOUND)
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
            dump_database(sim, or_northbound(database.as_deref()), pending)
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

    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId> {
        self.sim.set_fault(rule).map_err(|error| invalid_params(error.to_string()))
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
        self.database(or_northbound(database.as_deref()))?
            .set_role(role)
            .map_err(|error| invalid_params(error.to_string()))
    }

    fn truncate_history(&self, database: Option<String>) -> RpcResult<()> {
        self.database(or_northbound(database.as_deref()))?
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
        let handle = listener.start(control.into_rpc());
        Ok(ControlServer { address, _handle: handle })
    }
}
