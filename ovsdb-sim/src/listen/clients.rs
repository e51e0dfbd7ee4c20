//! Who has come in through a listener.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::session::SessionId;

/// The clients of a listener.
#[derive(Debug)]
pub(super) struct Clients {
    /// The time of silence after which they must prove to be there.
    pub(super) probe: watch::Sender<Option<Duration>>,
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
pub(super) struct Present {
    pub(super) sessions: BTreeSet<SessionId>,
    /// No more are served.
    pub(super) is_over: bool,
}

impl Clients {
    pub(super) fn new(probe: Option<Duration>) -> Self {
        Self {
            probe: watch::Sender::new(probe),
            present: Mutex::default(),
        }
    }

    /// Notes one for as long as it is there; none if it comes too late.
    pub(super) fn join(self: &Arc<Self>, session: SessionId) -> Option<Client> {
        let mut present = self.present();
        if present.is_over {
            return None;
        }
        present.sessions.insert(session);
        let clients = self.clone();
        Some(Client { clients, session })
    }

    pub(super) fn present(&self) -> MutexGuard<'_, Present> {
        // Each change is one call or assignment.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that is there.
pub(super) struct Client {
    clients: Arc<Clients>,
    session: SessionId,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.present().sessions.remove(&self.session);
    }
}
