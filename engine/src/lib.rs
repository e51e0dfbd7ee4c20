//! Patchbay's engine: an embedded OVSDB database and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots and indexes;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction;
//! * [`client`]: a replica of a database behind an OVSDB server, and transactions on that database;
//! * [`backoff`]: delays between repeated attempts, for the client and its users;
//! * `tls`: keys and trust of `ssl:` remotes, for the client and for servers.
//!
//! A database without a server, as tests and embedded users have it:
//!
//! ```
//! use patchbay_engine::db::{Database, Index};
//! use patchbay_engine::txn::TxnBuilder;
//! use patchbay_schemas::nb::{self, LogicalSwitch};
//!
//! let mut database = Database::new(nb::schema());
//! let by_name = Index::by(LogicalSwitch::NAME);
//! database.add_index(&by_name);
//!
//! let mut txn = TxnBuilder::new(&database.snapshot());
//! txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
//! database.transact(txn.finish().operations())?;
//!
//! let snapshot = database.snapshot();
//! assert!(snapshot.typed_index(&by_name)?.one("sw0")?.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Client`](client::Client) has an example with a server, and the README the whole way.

pub mod backoff;
#[cfg(feature = "client")]
pub mod client;
pub mod db;
#[cfg(feature = "tls")]
pub mod tls;
pub mod txn;
