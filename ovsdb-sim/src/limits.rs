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
    /// that wait for slow readers, in changes that are collected for them, and in what connections
    /// leave behind. A request that would leave behind more is refused; more of the others end the
    /// connection that adds them.
    pub memory: usize,
    /// Bytes that one connection may leave behind: names of locks, monitors with their ids and
    /// conditions, waiting transactions with their ids and comments. A request for more of them is
    /// refused.
    ///
    /// A message that is not complete, and replies that are not read, may be longer for a minute.
    pub connection_memory: usize,
    /// Number of connections that are served at the same time.
    pub connections: usize,
    /// Number of connections of one peer: a user at a unix socket, or an IP address.
    pub connections_per_peer: usize,
    /// Number of locks that one connection may own or wait for.
    pub locks: usize,
    /// Number of monitors that one connection may have, of all databases together.
    pub monitors: usize,
    /// Number of waiting transactions that one connection may have in one database.
    pub waiting_transactions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 1 << 29,
            backlog: 1 << 29,
            memory: 1 << 30,
            connection_memory: 1 << 26,
            connections: 1 << 16,
            connections_per_peer: 7 << 13,
            locks: 1 << 16,
            monitors: 1 << 16,
            waiting_transactions: 1 << 16,
        }
    }
}

/// The error of a request that would exceed a limit of its connection.
pub(crate) fn resources_exhausted(what: &str, limit: usize) -> OvsdbError {
    let details = format!("a connection may not have more than {limit} {what}");
    OvsdbError::new("resources exhausted", details)
}
