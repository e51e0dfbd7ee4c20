//! Patchbay's engine: an embedded OVSDB database and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots and indexes;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction;
//! * [`client`]: a replica of a database behind an OVSDB server, and transactions on that database.

pub mod client;
pub mod db;
pub mod txn;
