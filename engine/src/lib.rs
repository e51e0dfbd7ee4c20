//! Patchbay's engine: an embedded OVSDB transaction engine and an OVSDB client.
//!
//! * [`db`]: tables in memory, transactions, snapshots;
//! * [`txn`]: a builder that collects changes to typed rows into one transaction.

pub mod db;
pub mod txn;
