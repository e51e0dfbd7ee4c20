//! What can go wrong between the client and a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, JsonError, Reader};
use patchbay_schemas::wire::{MessageError, UpdateError};

use uuid::Uuid;

use super::remote::Remote;
use super::tls::TlsError;

/// Why a connection ended or did not come to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Nobody listens there, or the connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No TLS connection came to be.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It took too long to connect.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server sent nothing, not even when it was asked for a sign of life.
    #[error("the server has been silent for {0:?}")]
    Silent(Duration),
    /// The server has not the database.
    #[error("no database {wanted}: the server has {}", .present.join(", "))]
    NoDatabase {
        /// The database that was asked for.
        wanted: String,
        /// Those that are there.
        present: Vec<String>,
    },
    /// The server belongs to another cluster than the one that the remotes name, or to none.
    #[error("the server belongs to {}, not {wanted}", .found.map_or_else(|| "no cluster".to_owned(), |id| format!("cluster {id}")))]
    OtherCluster {
        /// The cluster that was asked for.
        wanted: Uuid,
        /// That of the server.
        found: Option<Uuid>,
    },
    /// The server is not in contact with a majority of its cluster; a relay, with its source.
    #[error("the server is not connected to its cluster")]
    NotConnected,
    /// The server does not lead its cluster, or does not any more.
    #[error("the server does not lead its cluster")]
    NotLeader,
    /// The server shows its cluster's database as it was before what this client has seen already.
    #[error("the server is behind: at index {index} of the cluster's log, another was at {seen}")]
    Stale {
        /// How far the server has come.
        index: i64,
        /// How far another had come.
        seen: i64,
    },
    /// The client's guard row is not as this connection left it: another client uses a guard of the same name, or the server
    /// has executed a transaction twice.
    #[error("the guard row was changed by somebody else")]
    GuardLost,
    /// The server has given up a transaction that it had begun, because the database goes or gets another schema; the other
    /// members of its cluster may have made it.
    #[error("the server has given up a transaction that was under way")]
    Canceled,
    /// The server answered a request with an error.
    #[error("{method} was refused: {error}")]
    Refused {
        /// The method of the request.
        method: &'static str,
        /// The server's words.
        error: String,
    },
    /// The server's schema cannot be read.
    #[error("bad schema: {0}")]
    Schema(OvsdbError),
    /// What the server sends is no JSON, or a message is too long.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// What the server sends is no JSON-RPC.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An answer or notification has not the shape it should have.
    #[error("unexpected {method}: {problem}")]
    Unexpected {
        /// Which one.
        method: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// An update makes no sense.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

impl SessionError {
    /// Whether the server is well, but another one of its cluster is wanted.
    pub(super) fn is_about_leadership(&self) -> bool {
        matches!(
            self,
            Self::NotLeader | Self::NotConnected | Self::Stale { .. }
        )
    }
}

/// What went wrong with one remote.
#[derive(Debug, thiserror::Error)]
#[error("{remote}: {error}")]
pub struct Lost {
    /// The remote.
    pub remote: Remote,
    /// What went wrong.
    pub error: SessionError,
}

/// No remote could be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use database {database}: {}", .attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ConnectError {
    /// The database.
    pub database: String,
    /// What went wrong with each remote, in the order in which they were tried.
    pub attempts: Vec<Arc<Lost>>,
}

/// The client has ended: its last handle is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has ended")]
pub struct Ended;

/// The error of a reply. A bare string becomes the tag.
pub(super) fn reply_error(mut at: Reader<'_>) -> OvsdbError {
    let json = Json::read(&mut at);
    OvsdbError::from_json(&json).unwrap_or_else(|| {
        let text = json.as_str().map_or_else(|| json.to_text(), str::to_owned);
        OvsdbError {
            tag: text.into(),
            details: None,
            syntax: None,
        }
    })
}

pub(super) fn unexpected(method: &'static str, problem: &'static str) -> SessionError {
    SessionError::Unexpected { method, problem }
}
