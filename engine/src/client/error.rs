//! Errors of connections between a client and its servers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, JsonError, Reader};
use patchbay_schemas::wire::{MessageError, UpdateError};

use uuid::Uuid;

use super::remote::Remote;
use super::server_database::SERVER_DATABASE_NAME;
use super::tls::TlsError;

/// Reason for which a connection failed or could not be established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The address does not accept connections, or the connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The TLS connection could not be established.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Connecting exceeded [`Config::connect_timeout`](super::Config::connect_timeout).
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// The time limit of [`Client::connect_within`](super::Client::connect_within) ended before the
    /// replica held the database.
    #[error("not connected when the time limit ended")]
    TimeLimit,
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server sent nothing, not even a reply to an `echo` request.
    #[error("the server has been silent for {0:?}")]
    Silent(Duration),
    /// The server does not serve the database.
    #[error("no database {wanted}: the server has {}", list_databases(present))]
    NoDatabase {
        /// Configured database.
        wanted: String,
        /// Databases of the server.
        present: Vec<String>,
    },
    /// The server belongs to another cluster than the one named among the remotes, or to none.
    #[error("the server belongs to {}, not {wanted}", .found.map_or_else(|| "no cluster".to_owned(), |id| format!("cluster {id}")))]
    OtherCluster {
        /// Configured cluster.
        wanted: Uuid,
        /// Cluster of the server.
        found: Option<Uuid>,
    },
    /// The server is not connected to a majority of its cluster, or, as a relay, to its source.
    #[error("the server is not connected to its cluster")]
    NotConnected,
    /// The server is not, or is no longer, the leader of its cluster.
    #[error("the server does not lead its cluster")]
    NotLeader,
    /// The server's copy of the cluster database is older than what this client has seen.
    #[error("the server is behind: at index {index} of the cluster's log, another was at {seen}")]
    Stale {
        /// Log index of the server.
        index: i64,
        /// Highest log index that a server of the cluster has reported.
        seen: i64,
    },
    /// The guard row is not as this connection left it. Another client uses a guard of the same
    /// name, or the server has executed a transaction twice.
    #[error("another client changed the guard row")]
    GuardLost,
    /// The server has cancelled a transaction that it had begun, because the database was removed
    /// or converted. Other members of its cluster may have committed it.
    #[error("the server cancelled a transaction that was in progress")]
    Canceled,
    /// The server replied to a request with an error.
    #[error("the server rejected {method}: {error}")]
    Refused {
        /// Method of the request.
        method: &'static str,
        /// The server's error.
        error: String,
    },
    /// The server's schema is not valid.
    #[error("bad schema: {0}")]
    Schema(OvsdbError),
    /// The server sent invalid JSON, or a message over
    /// [`Config::max_message`](super::Config::max_message).
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The server sent a message that is not JSON-RPC.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A reply or notification is malformed.
    #[error("unexpected {method}: {problem}")]
    Unexpected {
        /// Method of the message, or the request that it answers.
        method: &'static str,
        /// Malformed part.
        problem: &'static str,
    },
    /// An update is malformed or contradicts the replica.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

impl SessionError {
    /// `true` if the server works but is not the leader, or not yet.
    pub(super) fn is_about_leadership(&self) -> bool {
        matches!(self, Self::NotLeader | Self::NotConnected | Self::Stale { .. })
    }

    /// `true` if a later attempt may succeed with the same configuration: the server starts, comes
    /// back, or is elected.
    pub fn is_transient(&self) -> bool {
        match self {
            // Messages of TLS, such as a refused certificate, are invalid data.
            Self::Io(error) | Self::Tls(TlsError::Handshake(error)) => !matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::InvalidData
            ),
            Self::ConnectTimeout(_)
            | Self::TimeLimit
            | Self::Closed
            | Self::Silent(_)
            | Self::Canceled => true,
            // A server opens its socket before its databases.
            Self::NoDatabase { present, .. } => {
                present.iter().all(|name| name == SERVER_DATABASE_NAME)
            }
            other => other.is_about_leadership(),
        }
    }
}

/// Names of a server's databases.
fn list_databases(present: &[String]) -> String {
    if present.is_empty() {
        return "none".to_owned();
    }
    present.join(", ")
}

/// Failure of a connection, or of an attempt to connect.
#[derive(Debug, thiserror::Error)]
#[error("{remote}: {error}")]
pub struct ConnectionFailure {
    /// Address of the server.
    pub remote: Remote,
    /// Reason of the failure.
    pub error: SessionError,
}

/// No remote could be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use database {database}{}: {}",
    within.map_or_else(String::new, |limit| format!(" within {} s", limit.as_secs_f64())),
    attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct ConnectError {
    /// Configured database.
    pub database: String,
    /// Time limit that has ended. `None`: no later attempt would have succeeded, or there was only
    /// one.
    pub within: Option<Duration>,
    /// Failure of each remote in the last round, in the order of the attempts.
    pub attempts: Vec<Arc<ConnectionFailure>>,
}

/// The client is closed: its last handle was dropped, or its runtime was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is closed")]
pub struct ClientClosed;

/// The error of a reply. A bare string is its tag.
pub(super) fn reply_error(mut at: Reader<'_>) -> OvsdbError {
    let json = Json::read(&mut at);
    OvsdbError::from_json(&json).unwrap_or_else(|| {
        let text = json.as_str().map_or_else(|| json.to_text(), str::to_owned);
        OvsdbError { tag: text.into(), details: None, syntax: None, io_error: None }
    })
}

pub(super) fn unexpected(method: &'static str, problem: &'static str) -> SessionError {
    SessionError::Unexpected { method, problem }
}
