//! Patchbay's engine: an embedded OVSDB database and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots and indexes;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction;
//! * [`client`]: a replica of a database behind an OVSDB server, and transactions on that database;
//! * [`backoff`]: delays between repeated attempts, for the client and its users;
//! * `tls`: keys and trust of `ssl:` remotes, for the client and for servers.

pub mod backoff;
#[cfg(feature = "client")]
pub mod client;
pub mod db;
#[cfg(feature = "tls")]
pub mod tls;
pub mod txn;
