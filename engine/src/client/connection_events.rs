//! What happens to the connection, for those who want to know.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};

use super::error::{Ended, Lost};
use super::remote::Remote;
use super::server_database::DatabaseStatus;

/// How many events may wait to be read by somebody who is slow.
pub(super) const EVENTS: usize = 64;

/// Something happened to the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A server was found that is good enough, and the replica follows its database.
    Connected {
        /// The server's address.
        remote: Remote,
        /// What it says of itself; none when it says nothing.
        status: Option<DatabaseStatus>,
    },
    /// The replica shows the database as it is now, after a time in which it did not follow it.
    Resynced {
        /// How it got there.
        kind: Resync,
        /// How many rows have changed meanwhile.
        rows: usize,
    },
    /// The server does not lead its cluster any more. The connection is given up for one to another server.
    LeaderLost {
        /// The server's address.
        remote: Remote,
    },
    /// The server has stopped to report changes because the database has another schema now. The replica is brought up to
    /// date on the same connection.
    SchemaChanged,
    /// The connection is lost, or given up.
    Disconnected(Arc<Lost>),
    /// A server cannot be used; another one is tried.
    Failed(Arc<Lost>),
    /// No server can be used. All are tried again after this time.
    Waiting(Duration),
    /// So many events were not read in time and are gone.
    Missed(u64),
}

/// How a replica was brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resync {
    /// The server sent what had changed since the last transaction that the replica had shown.
    Continued,
    /// The server sent the whole database; the replica has changed where it differed.
    Full,
}

/// Waits for what happens to the connection.
#[derive(Debug)]
pub struct ConnectionEvents(broadcast::Receiver<ConnectionEvent>);

impl ConnectionEvents {
    pub(super) fn new(receiver: broadcast::Receiver<ConnectionEvent>) -> Self {
        Self(receiver)
    }

    /// The next event.
    ///
    /// # Errors
    /// The client has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<ConnectionEvent, Ended> {
        match self.0.recv().await {
            Ok(event) => Ok(event),
            Err(RecvError::Lagged(count)) => Ok(ConnectionEvent::Missed(count)),
            Err(RecvError::Closed) => Err(Ended),
        }
    }
}
