//! Events of the connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};

use super::error::{ClientClosed, ConnectionFailure};
use super::remote::Remote;
use super::server_database::DatabaseStatus;

/// Events that a slow reader can leave unread before the oldest are dropped. Far more than a
/// reconnect causes.
pub(super) const EVENT_CHANNEL_DEPTH: usize = 64;

/// A change of the connection's state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// Connected to a server that qualifies; the replica follows its database.
    Connected {
        /// The server's address.
        remote: Remote,
        /// Status from its `_Server` database. `None`: the server has no `_Server`.
        status: Option<DatabaseStatus>,
    },
    /// The replica is up to date after a time in which it did not follow the database.
    Resynced {
        /// Way of the resync.
        kind: ResyncKind,
        /// Number of rows that differ from before.
        rows: usize,
    },
    /// The server is no longer the leader of its cluster. The client leaves it for another server.
    LeaderLost {
        /// The server's address.
        remote: Remote,
    },
    /// The database has a new schema, for which the server has ended the monitor. The replica is
    /// brought up to date on the same connection.
    SchemaChanged,
    /// The connection was lost, or the client closed it.
    Disconnected(Arc<ConnectionFailure>),
    /// An attempt to use a server failed; the next one is tried.
    Failed(Arc<ConnectionFailure>),
    /// No server can be used. All are tried again after this delay.
    Waiting(Duration),
    /// Number of events that were dropped because the reader was too slow.
    Missed(u64),
}

/// Way in which a replica was brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResyncKind {
    /// The server sent the transactions after the last one that the replica had shown.
    Continued,
    /// The server sent the whole database. Only rows that differ have changed in the replica.
    Full,
}

/// Receives the events of the connection.
#[derive(Debug)]
pub struct ConnectionEvents(broadcast::Receiver<ConnectionEvent>);

impl ConnectionEvents {
    pub(super) fn new(receiver: broadcast::Receiver<ConnectionEvent>) -> Self {
        Self(receiver)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The client is closed.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<ConnectionEvent, ClientClosed> {
        match self.0.recv().await {
            Ok(event) => Ok(event),
            Err(RecvError::Lagged(count)) => Ok(ConnectionEvent::Missed(count)),
            Err(RecvError::Closed) => Err(ClientClosed),
        }
    }
}
