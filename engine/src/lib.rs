//! Patchbay's engine: an embedded OVSDB transaction engine and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction;
//! * [`client`]: a live copy of a database behind a server, and transactions on it.

pub mod client;
pub mod db;
pub mod txn;
