//! Patchbay's engine: an embedded OVSDB transaction engine and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction;
//! * [`client`]: a replica of a database behind a server, and transactions on the original;
//! * [`backoff`]: delays between repeated attempts, for the client and its users.

pub mod backoff;
pub mod client;
pub mod db;
pub mod txn;
