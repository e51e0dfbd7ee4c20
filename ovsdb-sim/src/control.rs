//! The control API: JSON-RPC 2.0 over HTTP and WebSocket, beside OVSDB's own JSON-RPC 1.0.
//!
//! Methods that read a database run on threads of their own, because they may wait for it and
//! because a long answer takes time.

mod request_guard;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::server::ServerHandle;
use jsonrpsee::types::ErrorObjectOwned;
use patchbay_snapshots::{Release, show, show_named};
use serde::{Deserialize, Serialize};

use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::model::Role;
use crate::served_database::ServedDatabase;
use crate::sim::Sim;

use request_guard::RequestGuard;

/// Name of the database that methods use if they are given none.
const NORTHBOUND: &str = "OVN_Northbound";
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
    #[method(name = "show", blocking)]
    fn show(&self, name: Option<String>) -> RpcResult<String>;

    /// Returns all rows of a database in RFC 7047 notation: an object of tables, each an object of
    /// rows by UUID.
    #[method(name = "dump", blocking)]
    fn dump(&self, database: Option<String>) -> RpcResult<serde_json::Value>;

    /// Returns the simulator's counters.
    #[method(name = "stats", blocking)]
    fn stats(&self) -> RpcResult<SimStats>;

    /// Returns the open connections, in the order in which they were made.
    #[method(name = "connections")]
    fn connections(&self) -> RpcResult<Vec<ConnectionId>>;

    /// Sets a fault and returns its number. See [`Sim::set_fault`].
    #[method(name = "set_fault")]
    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId>;

    /// Returns the faults that are set.
    #[method(name = "faults")]
    fn faults(&self) -> RpcResult<Vec<FaultStatus>>;

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
        self.sim
            .server()
            .database(name)
            .ok_or_else(|| invalid_params(format!("this server has no database {name}")))
    }
}

fn or_northbound(database: Option<&str>) -> &str {
    database.unwrap_or(NORTHBOUND)
}

fn invalid_params(message: String) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(INVALID_PARAMS, message, None::<()>)
}

#[async_trait]
impl ControlApiServer for Control {
    fn show(&self, name: Option<String>) -> RpcResult<String> {
        let snapshot = self.database(NORTHBOUND)?.snapshot();
        let release = Release::of_schema(snapshot.schema());
        match name {
            Some(name) => show_named(&snapshot, &name, release),
            None => show(&snapshot, release),
        }
        .map_err(|error| invalid_params(error.to_string()))
    }

    fn dump(&self, database: Option<String>) -> RpcResult<serde_json::Value> {
        let snapshot = self
            .database(or_northbound(database.as_deref()))?
            .snapshot();
        let schema = snapshot.schema();
        let mut tables = serde_json::Map::new();
        for id in schema.table_ids() {
            let table = schema.table(id);
            let mut rows = serde_json::Map::new();
            for row in snapshot.table(id).iter() {
                let columns = table.column_ids().map(|column| {
                    let mut text = Vec::new();
                    row.get(column).write_json(&mut text);
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

    fn stats(&self) -> RpcResult<SimStats> {
        let server = self.sim.server();
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
        Ok(SimStats {
            server_id: server.id().to_string(),
            sessions: server.session_count(),
            connection_bytes: server.budget().charged(),
            databases,
        })
    }

    fn connections(&self) -> RpcResult<Vec<ConnectionId>> {
        Ok(self.sim.server().connections())
    }

    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId> {
        self.sim
            .set_fault(rule)
            .map_err(|error| invalid_params(error.to_string()))
    }

    fn faults(&self) -> RpcResult<Vec<FaultStatus>> {
        Ok(self.sim.server().faults().list())
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
        self.sim
            .come_back()
            .await
            .map_err(|error| ErrorObjectOwned::owned(INTERNAL_ERROR, error.to_string(), None::<()>))
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
        self.start_control(address, RequestGuard::new(Some(token)))
            .await
    }

    async fn start_control(
        &self,
        address: SocketAddr,
        guard: RequestGuard,
    ) -> io::Result<ControlServer> {
        let listener = jsonrpsee::server::Server::builder()
            .set_http_middleware(tower::ServiceBuilder::new().layer(guard))
            .build(address)
            .await?;
        let address = listener.local_addr()?;
        let control = Control { sim: self.clone() };
        let handle = listener.start(control.into_rpc());
        Ok(ControlServer {
            address,
            _handle: handle,
        })
    }
}
