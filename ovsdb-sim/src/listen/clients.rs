//! Clients of a listener.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::remotes::options::RemoteOptions;
use crate::session::id::SessionId;

/// Clients of a listener, with their options.
#[derive(Debug)]
pub(super) struct ListenerClients {
    pub(super) options: watch::Sender<RemoteOptions>,
    registered: Mutex<RegisteredClients>,
}

#[derive(Debug, Default)]
pub(super) struct RegisteredClients {
    pub(super) sessions: BTreeSet<SessionId>,
    /// `true` after the listener's end: no more clients are served.
    pub(super) is_closed: bool,
}

impl ListenerClients {
    pub(super) fn new(options: RemoteOptions) -> Self {
        Self { options: watch::Sender::new(options), registered: Mutex::default() }
    }

    /// Registers a client for the lifetime of the guard. `None`: the listener has ended.
    pub(super) fn register(self: &Arc<Self>, session: SessionId) -> Option<ClientGuard> {
        let mut registered = self.registered();
        if registered.is_closed {
            return None;
        }
        registered.sessions.insert(session);
        let clients = self.clone();
        Some(ClientGuard { clients, session })
    }

    pub(super) fn registered(&self) -> MutexGuard<'_, RegisteredClients> {
        // Each change is one call or assignment.
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a client. Dropping it unregisters the client.
pub(super) struct ClientGuard {
    clients: Arc<ListenerClients>,
    session: SessionId,
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.clients.registered().sessions.remove(&self.session);
    }
}
