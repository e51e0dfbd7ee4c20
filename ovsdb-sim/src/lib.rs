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
//! // From here on `ovn-nbctl --db=unix:/tmp/nb.sock show` prints the switch.
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("nb.sock");
//! let listener = sim.listen(&format!("punix:{}", path.display())).await?;
//!
//! // A client in the same process needs no socket.
//! let client = Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await?;
//! let mut changes = client.changes();
//!
//! // Clients see what the simulator's owner does.
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
//! **Ways in.** [`Sim::listen`] opens unix sockets and TCP ports, [`Sim::dial`] connects to clients that wait, [`Sim::connector`] is the way for the engine's client in
//! the same process, [`Sim::connect`] is a bare stream of bytes, and [`SimDatabase`] reads and commits without messages.
//!
//! **Faults.** [`Sim::set_fault`] makes something go wrong: connections end, replies get lost or late, requests are refused.
//! [`Fault`] lists what. [`Sim::go_down`] and [`Sim::come_back`] are for the server as a whole, [`Sim::remove_database`]
//! and [`Sim::add_database`] for a database.
//!
//! **Time** is tokio's. A test that pauses it (`tokio::time::pause`) lets an hour pass at once: deadlines of `wait`s, late
//! replies and clients' probes included. Sockets do not know of this, so such tests connect without.
//!
//! **UUIDs** follow from a [seed](SimBuilder::seed), so that states can be compared with recorded ones.
//!
//! **Conformance** with ovsdb-server, and differences, are in `CONFORMANCE.md`; the program's options and the control API
//! in `README.md`.

mod control;
mod database;
mod databases;
mod dial;
mod fault;
mod file;
mod history;
mod hosted;
mod listen;
mod lock;
mod model;
mod monitor;
mod outbox;
mod pace;
mod remotes;
mod reply;
mod request;
mod server;
mod server_database;
mod session;
mod sim;
pub mod testing;
mod unixctl;

pub use control::{ControlApiClient, DatabaseStats, SimStats};
pub use database::{SimDatabase, TransactError};
pub use databases::{AddDatabaseError, RemoveDatabaseError};
pub use dial::Dialer;
pub use fault::{ConnectionId, Connections, Fault, FaultId, FaultRule, FaultStatus, Loss};
pub use file::{Damage, FileError};
pub use hosted::NotClustered;
pub use listen::{ListenError, Listener};
pub use model::{Model, Role};
pub use remotes::Remotes;
pub use server::{Limits, NoConnection};
pub use sim::{Sim, SimBuilder};
pub use unixctl::{Log, Unixctl};

/// Its examples are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
