//! The places at which a server is reached, by the names that they were given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dial::Dialer;
use crate::listen::{ListenError, Listener};
use crate::sim::Sim;

/// Listeners and active connections that can be added and removed while the server runs. Clones are handles to the same
/// ones; with the last of them they end.
#[derive(Clone, Debug)]
pub struct Remotes {
    sim: Sim,
    open: Arc<Mutex<BTreeMap<String, Remote>>>,
}

#[derive(Debug)]
enum Remote {
    Passive(Listener),
    Active(Dialer),
}

impl Remotes {
    /// None yet, of this server.
    pub fn of(sim: &Sim) -> Self {
        Self {
            sim: sim.clone(),
            open: Arc::default(),
        }
    }

    /// Serves clients at `punix:PATH` or `ptcp:PORT[:HOST]`, or connects to the one at `unix:PATH` or `tcp:HOST[:PORT]`.
    /// Returns what it does, in words: `listening on tcp:127.0.0.1:6641`. One that is there already stays as it is.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound.
    pub async fn add(&self, target: &str) -> Result<String, ListenError> {
        if let Some(remote) = self.open().get(target) {
            return Ok(remote.says());
        }
        let is_active = target.starts_with("unix:") || target.starts_with("tcp:");
        let remote = if is_active {
            Remote::Active(self.sim.dial(target)?)
        } else {
            Remote::Passive(self.sim.listen(target).await?)
        };
        let says = remote.says();
        self.open().insert(target.to_owned(), remote);
        Ok(says)
    }

    /// Ends one; false when there is none of this name. The connections of a listener go on.
    pub fn remove(&self, target: &str) -> bool {
        self.open().remove(target).is_some()
    }

    /// What they were added as, sorted.
    pub fn targets(&self) -> Vec<String> {
        self.open().keys().cloned().collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Remote>> {
        // Each change is one call.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remote {
    fn says(&self) -> String {
        match self {
            Self::Passive(listener) => format!("listening on {}", listener.remote()),
            Self::Active(dialer) => format!("connecting to {}", dialer.target()),
        }
    }
}
