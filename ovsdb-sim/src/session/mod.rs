//! A session: the requests of one connection, executed in order.

pub(crate) mod handle;
pub(crate) mod id;
pub(crate) mod monitors;
mod streaming;

use std::ops::Deref;
use std::sync::Arc;

use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::RowTemplates;

use crate::budget::{BudgetExceeded, HeldBytes};
use crate::held_size::template_bytes;
use crate::server::Server;
use crate::session::handle::SessionHandle;

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
    /// Bytes of the templates in the budget of the connection. `None`: there are no templates.
    held: Option<HeldBytes>,
    /// [Revision](RowTemplates::revision) of the templates whose bytes are charged.
    charged_revision: u64,
}

impl DecodeContext {
    pub(crate) fn new(uuids: UuidSource) -> Self {
        let templates = RowTemplates::default();
        Self { uuids, charged_revision: templates.revision(), templates, held: None }
    }

    /// Charges the templates to the session if they have changed. Templates for which it has no
    /// bytes are dropped, because requests are decoded without them, too.
    pub(crate) fn charge_templates(&mut self, session: &SessionHandle) {
        if self.templates.revision() == self.charged_revision {
            return;
        }
        self.held = None;
        match session.hold(template_bytes(&self.templates)) {
            Ok(held) => self.held = Some(held),
            Err(_) => self.templates.clear(),
        }
        self.charged_revision = self.templates.revision();
    }
}
