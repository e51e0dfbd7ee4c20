//! An in-memory OVSDB server that fits in a test process and speaks to real clients.
//!
//! ```
//! use ovsdb_sim::Sim;
//! use patchbay_engine::txn::TxnBuilder;
//! use patchbay_schemas::nb::LogicalRouter;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = Sim::builder().seed(1).build()?;
//! let database = sim.database("OVN_Northbound").ok_or("served by default")?;
//!
//! let mut txn = TxnBuilder::new(&database.snapshot());
//! txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
//! database.transact(&txn.finish())?;
//!
//! // From here on `ovn-nbctl --db=unix:/tmp/nb.sock show` prints the router.
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("nb.sock");
//! let listener = sim.listen(&format!("punix:{}", path.display())).await?;
//! # drop(listener);
//! # Ok(())
//! # }
//! ```

mod control;
mod file;
mod hosted;
mod listen;
mod lock;
mod monitor;
mod outbox;
mod reply;
mod request;
mod server;
mod server_database;
mod session;
mod sim;
pub mod testing;

pub use control::{ControlApiClient, DatabaseStats, SimStats};
pub use file::FileError;
pub use listen::{ListenError, Listener};
pub use server::Limits;
pub use sim::{Sim, SimBuilder, SimDatabase, TransactError};
