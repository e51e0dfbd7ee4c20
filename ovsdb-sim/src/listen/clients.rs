//! Clients of a listener.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::session_id::SessionId;

/// Clients of a listener, with their probe interval.
#[derive(Debug)]
pub(super) struct ListenerClients {
    /// Time of silence after which a client must answer an `echo`. `None`: no probes.
    pub(super) probe_interval: watch::Sender<Option<Duration>>,
    registered: Mutex<RegisteredClients>,
}

#[derive(Debug, Default)]
pub(super) struct RegisteredClients {
    pub(super) sessions: BTreeSet<SessionId>,
    /// True after the listener's end: no more clients are served.
    pub(super) is_closed: bool,
}

impl ListenerClients {
    pub(super) fn new(probe_interval: Option<Duration>) -> Self {
        Self {
            probe_interval: watch::Sender::new(probe_interval),
            registered: Mutex::default(),
        }
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
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
