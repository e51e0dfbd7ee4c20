//! Limits of one server.

use patchbay_schemas::error::OvsdbError;

/// Limits that bound the memory of a server, whatever its clients do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Length of the longest message that is read, in bytes. A longer one ends the connection.
    pub message: usize,
    /// Bytes of replies that may wait for a slow reader. More of them end the connection, and so
    /// does a longer reply. Updates of monitors do not count, because they are merged while they
    /// wait.
    pub backlog: usize,
    /// Bytes that all connections may hold together: in messages that are not complete, in replies
    /// that wait for slow readers, and in changes that are collected for them. More of them end the
    /// connection that adds them.
    pub memory: usize,
    /// Number of connections that are served at the same time.
    pub connections: usize,
    /// Number of connections of one peer: a process at a unix socket, or an IP address.
    pub connections_per_peer: usize,
    /// Number of locks that one connection may own or wait for.
    pub locks: usize,
    /// Number of monitors that one connection may have, of all databases together.
    pub monitors: usize,
    /// Bytes of the requests for the monitors of one connection: their ids, columns and conditions.
    pub monitor_bytes: usize,
    /// Number of waiting transactions that one connection may have in one database.
    pub waiting_transactions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 1 << 30,
            backlog: 1 << 30,
            memory: 1 << 32,
            connections: 1 << 16,
            connections_per_peer: 7 << 13,
            locks: 1 << 16,
            monitors: 1 << 16,
            monitor_bytes: 1 << 26,
            waiting_transactions: 1 << 16,
        }
    }
}

/// The error of a request that would exceed a limit of its connection.
pub(crate) fn resources_exhausted(what: &str, limit: usize) -> OvsdbError {
    let details = format!("a connection may not have more than {limit} {what}");
    OvsdbError::new("resources exhausted", details)
}
