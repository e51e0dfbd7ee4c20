//! The control API: JSON-RPC 2.0 over HTTP and WebSocket, beside OVSDB's own JSON-RPC 1.0.

use std::net::SocketAddr;
use std::sync::Arc;

use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::server::ServerHandle;
use jsonrpsee::types::ErrorObjectOwned;
use serde::{Deserialize, Serialize};

use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::hosted::Hosted;
use crate::model::Role;
use crate::server::Server;

/// What a simulator is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimStats {
    /// Its id, new with every start.
    pub server_id: String,
    /// Open connections.
    pub sessions: usize,
    /// Its databases, `_Server` included.
    pub databases: Vec<DatabaseStats>,
}

/// What a database holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseStats {
    /// Its name.
    pub name: String,
    /// Rows in all tables.
    pub rows: usize,
    /// Transactions that changed something.
    pub commits: u64,
    /// Monitors of all sessions.
    pub monitors: usize,
}

/// The methods.
#[rpc(server, client, namespace = "sim")]
pub trait ControlApi {
    /// OVN_Northbound as `ovn-nbctl show` prints it, all of it or what one name or UUID means.
    #[method(name = "show")]
    fn show(&self, name: Option<String>) -> RpcResult<String>;

    /// All rows of a database: an object of tables, of objects of rows by UUID, in RFC 7047 notation.
    #[method(name = "dump")]
    fn dump(&self, database: Option<String>) -> RpcResult<serde_json::Value>;

    /// Counters.
    #[method(name = "stats")]
    fn stats(&self) -> RpcResult<SimStats>;

    /// The open connections, in the order in which they were made.
    #[method(name = "connections")]
    fn connections(&self) -> RpcResult<Vec<ConnectionId>>;

    /// Makes something go wrong from now on; how to call it when it is cleared. See [`Sim::set_fault`](crate::Sim::set_fault).
    #[method(name = "set_fault")]
    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId>;

    /// The faults that are set.
    #[method(name = "faults")]
    fn faults(&self) -> RpcResult<Vec<FaultStatus>>;

    /// Ends a fault, or all of them.
    #[method(name = "clear_faults")]
    fn clear_faults(&self, fault: Option<FaultId>) -> RpcResult<()>;

    /// Changes what the server is in a database's cluster. See [`SimDatabase::set_role`](crate::SimDatabase::set_role).
    #[method(name = "set_role")]
    fn set_role(&self, role: Role, database: Option<String>) -> RpcResult<()>;

    /// Forgets a database's transactions but the last. See
    /// [`SimDatabase::truncate_history`](crate::SimDatabase::truncate_history).
    #[method(name = "truncate_history")]
    fn truncate_history(&self, database: Option<String>) -> RpcResult<()>;

    /// Gives the server another id, and returns it. See [`Sim::new_server_id`](crate::Sim::new_server_id).
    #[method(name = "new_server_id")]
    fn new_server_id(&self) -> RpcResult<String>;

    /// Closes all listeners and ends all connections. See [`Sim::go_down`](crate::Sim::go_down).
    #[method(name = "go_down")]
    async fn go_down(&self) -> RpcResult<()>;

    /// Serves clients again, at the same places.
    #[method(name = "come_back")]
    async fn come_back(&self) -> RpcResult<()>;
}

const NORTHBOUND: &str = "OVN_Northbound";
/// JSON-RPC 2.0's "Invalid params".
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC 2.0's "Internal error".
const INTERNAL: i32 = -32603;

struct Control {
    server: Arc<Server>,
}

impl Control {
    fn database(&self, name: &str) -> RpcResult<Arc<Hosted>> {
        self.server
            .database(name)
            .ok_or_else(|| refuse(format!("this server has no database {name}")))
    }
}

/// The database that is meant where none is said.
fn or_northbound(database: Option<&str>) -> &str {
    database.unwrap_or(NORTHBOUND)
}

fn refuse(message: String) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(INVALID_PARAMS, message, None::<()>)
}

#[async_trait]
impl ControlApiServer for Control {
    fn show(&self, name: Option<String>) -> RpcResult<String> {
        let snapshot = self.database(NORTHBOUND)?.snapshot();
        match name {
            Some(name) => patchbay_snapshots::show_named(&snapshot, &name),
            None => patchbay_snapshots::show(&snapshot),
        }
        .map_err(|error| refuse(error.to_string()))
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
                    let value =
                        serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
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
        let databases = self.server.databases().all();
        let databases = databases.values().map(|database| DatabaseStats {
            name: database.name().to_owned(),
            rows: database.snapshot().row_count(),
            commits: database.commits(),
            monitors: database.state().monitors.len(),
        });
        Ok(SimStats {
            server_id: self.server.id().to_string(),
            sessions: self.server.session_count(),
            databases: databases.collect(),
        })
    }

    fn connections(&self) -> RpcResult<Vec<ConnectionId>> {
        Ok(self.server.connections())
    }

    fn set_fault(&self, rule: FaultRule) -> RpcResult<FaultId> {
        let set = self.server.set_fault(rule);
        set.map_err(|error| refuse(error.to_string()))
    }

    fn faults(&self) -> RpcResult<Vec<FaultStatus>> {
        Ok(self.server.faults().list())
    }

    fn clear_faults(&self, fault: Option<FaultId>) -> RpcResult<()> {
        match fault {
            None => self.server.faults().clear_all(),
            Some(fault) if self.server.faults().clear(fault) => {}
            Some(fault) => return Err(refuse(format!("there is no fault {fault}"))),
        }
        Ok(())
    }

    fn set_role(&self, role: Role, database: Option<String>) -> RpcResult<()> {
        let set = self
            .database(or_northbound(database.as_deref()))?
            .set_role(role);
        set.map_err(|error| refuse(error.to_string()))
    }

    fn truncate_history(&self, database: Option<String>) -> RpcResult<()> {
        let truncated = self
            .database(or_northbound(database.as_deref()))?
            .truncate_history();
        truncated.map_err(|error| refuse(error.to_string()))
    }

    fn new_server_id(&self) -> RpcResult<String> {
        Ok(self.server.renew_id().to_string())
    }

    async fn go_down(&self) -> RpcResult<()> {
        self.server.go_down().await;
        Ok(())
    }

    async fn come_back(&self) -> RpcResult<()> {
        let back = self.server.come_back().await;
        back.map_err(|error| ErrorObjectOwned::owned(INTERNAL, error.to_string(), None::<()>))
    }
}

/// A running control API. Dropping it ends it.
#[derive(Debug)]
pub struct ControlServer {
    address: SocketAddr,
    _handle: ServerHandle,
}

impl ControlServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

pub(crate) async fn serve(
    server: Arc<Server>,
    address: SocketAddr,
) -> std::io::Result<ControlServer> {
    let listener = jsonrpsee::server::Server::builder().build(address).await?;
    let address = listener.local_addr()?;
    let handle = listener.start(Control { server }.into_rpc());
    Ok(ControlServer {
        address,
        _handle: handle,
    })
}
