//! An in-memory OVSDB server that fits in a test process and speaks to real clients.
//!
//! ```
//! use ovsdb_sim::Sim;
//! use patchbay_engine::client::{Client, Config};
//! use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = Sim::builder()
//!     .seed(1)
//!     .rows("OVN_Northbound", |txn| {
//!         txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
//!         Ok(())
//!     })
//!     .build()?;
//!
//! // Now `ovn-nbctl --db=unix:/tmp/nb.sock show` prints the switch.
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("nb.sock");
//! let listener = sim.listen(&format!("punix:{}", path.display())).await?;
//!
//! // A client in the same process needs no socket.
//! let client = Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await?;
//! let mut changes = client.changes();
//!
//! // Clients get the changes of the simulator's owner.
//! let database = sim.database("OVN_Northbound").ok_or("served by default")?;
//! let mut txn = database.txn();
//! txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
//! database.transact(&txn.finish())?;
//! assert_eq!(changes.next().await?.row_count(), 2);
//! # drop(listener);
//! # Ok(())
//! # }
//! ```
//!
//! **Connections.** [`Sim::listen`] opens unix sockets and TCP ports. [`Sim::dial`] connects to
//! clients that wait. [`Sim::connector`] connects the engine's client in the same process, and
//! [`Sim::connect`] returns a bare byte stream. [`SimDatabase`] reads and commits without messages.
//!
//! **Faults.** [`Sim::set_fault`] injects faults: connections end, replies are lost or late,
//! requests are refused. [`Fault`] lists them. [`Sim::go_down`] and [`Sim::come_back`] are an
//! outage of the whole server, [`Sim::remove_database`] and [`Sim::add_database`] one of a
//! database.
//!
//! **The next test.** [`Sim::reset`] removes all rows or returns to a [snapshot](Sim::take_snapshot),
//! clears faults and keeps connections, so that one server is enough for a run.
//!
//! **Time** is tokio's. In a test that pauses it (`tokio::time::pause`), an hour takes no time: the
//! deadline of a `wait`, a late reply, a client's probe interval. Sockets do not wait for paused
//! time, so such tests use [`Sim::connector`].
//!
//! **UUIDs** can be drawn from a [seed](SimBuilder::seed), so that states can be compared with
//! recorded ones.
//!
//! **Conformance** with ovsdb-server, and the differences, are in `CONFORMANCE.md`. The options of
//! the program and the control API are in `README.md`.
//!
//! **Features.** Most tests need none of them:
//!
//! | feature | adds |
//! | --- | --- |
//! | `control-api` | `Sim::serve_control` and `ControlApiClient`: JSON-RPC 2.0 over HTTP and WebSocket |
//! | `rows` | `RowDocument`: rows in YAML or JSON, by table and name |
//! | `tls` | `ssl:` and `pssl:` remotes |
//! | `unixctl` | `Sim::serve_unixctl`: the protocol of ovs-appctl; `ConfigFile` |

mod budget;
mod chunk;
mod cluster;
#[cfg(feature = "unixctl")]
mod config_file;
mod connection;
#[cfg(feature = "control-api")]
mod control;
mod dial;
mod fault;
mod file;
mod following;
mod held_size;
mod history;
mod in_process;
mod limits;
mod listen;
mod locks;
mod long_work;
mod model;
mod monitors;
mod outbox;
mod peers;
mod rbac;
mod remotes;
mod reply;
mod request;
mod served_database;
mod server;
mod session;
mod settings;
mod sim;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod tls_options;
mod unix_path;
#[cfg(feature = "unixctl")]
mod unixctl;
mod update;

#[cfg(feature = "unixctl")]
pub use config_file::{ConfigFile, ConfigFileError};
#[cfg(feature = "control-api")]
pub use control::{ControlApiClient, ControlServer, DatabaseStats, SimStats};
pub use dial::Dialer;
pub use fault::{ConnectionId, Connections, Fault, FaultId, FaultRule, FaultStatus, Loss};
pub use file::{
    ClusterLogError, Damage, DatabaseLog, FileError, InitialDatabasesError, LogEnd,
    LoggedTransaction, database_file,
};
pub use limits::Limits;
pub use listen::Listener;
pub use model::{Model, Role};
pub use patchbay_engine::db::ServerRelease;
pub use remotes::Remotes;
pub use served_database::NotClustered;
pub use server::{AddDatabaseError, NoConnection, RemoveDatabaseError, SetFaultError};
pub use sim::Sim;
pub use sim::builder::{SimBuildError, SimBuilder};
pub use sim::database::{SimDatabase, TransactError};
#[cfg(feature = "rows")]
pub use sim::rows::{RowDocument, RowUuids, RowsError};
pub use sim::snapshots::{ResetError, TooManySnapshots};
pub use target::{RemoteError, parse_relay};
pub use tls_options::TlsOptions;
#[cfg(feature = "unixctl")]
pub use unixctl::{
    Configuration, Log, LogDestination, LogSink, LogSpecificationError, ReopenLogError, Unixctl,
    module_of,
};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
