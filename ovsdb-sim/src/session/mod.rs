//! A session: the requests of one connection, executed in order.

mod streaming;

use std::ops::Deref;
use std::sync::Arc;

use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::RowTemplates;

use crate::budget::BudgetExceeded;
use crate::server::Server;
use crate::session_handle::SessionHandle;

pub(crate) use streaming::{IncomingRequest, StreamedTransaction};

/// Session with its server: what the execution of a request needs. Dereferences to the session's
/// handle.
#[derive(Debug)]
pub(crate) struct Session {
    server: Arc<Server>,
    handle: Arc<SessionHandle>,
}

/// Reason why a session ends before its client closes the connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Json(#[from] patchbay_schemas::json::JsonError),
    #[error(transparent)]
    Message(#[from] patchbay_schemas::wire::MessageError),
    #[error("a reply to no request")]
    UnexpectedReply,
    #[error("a request that does not end as what it began as, a transaction")]
    OtherEnd,
    #[error("a message of more than {limit} bytes is not complete after a minute")]
    IncompleteMessage { limit: usize },
    #[error("no answer to an inactivity probe")]
    Inactive,
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Session {
    pub(crate) fn new(server: Arc<Server>, handle: Arc<SessionHandle>) -> Self {
        Self { server, handle }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn handle(&self) -> &Arc<SessionHandle> {
        &self.handle
    }
}

impl Deref for Session {
    type Target = SessionHandle;

    fn deref(&self) -> &SessionHandle {
        &self.handle
    }
}

/// State of the decoding of a session's requests.
pub(crate) struct DecodeContext {
    pub(crate) uuids: UuidSource,
    /// Rows of short requests.
    pub(crate) templates: RowTemplates,
}
