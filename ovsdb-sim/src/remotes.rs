//! The places at which a server is reached, by the names that they were given.

mod configured;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dial::{self, Dialer};
use crate::listen::{self, ListenError, Listener};
use crate::server::Server;
use crate::sim::Sim;

use configured::Configured;

/// Listeners and active connections that can be added and removed while the server runs. Clones are handles to the same
/// ones; with the last of them they end.
#[derive(Clone, Debug)]
pub struct Remotes {
    server: Arc<Server>,
    named: Arc<Mutex<BTreeMap<String, Named>>>,
}

#[derive(Debug)]
enum Named {
    One(Remote),
    /// What a database says.
    Configured(Configured),
}

/// One that is open.
#[derive(Debug)]
enum Remote {
    Passive(Door),
    Active(Dialer),
}

/// A listener whose clients are hung up on when it goes.
#[derive(Debug)]
struct Door {
    listener: Listener,
    server: Arc<Server>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.listener.hang_up(&self.server);
    }
}

impl Remotes {
    /// None yet, of this server.
    pub fn of(sim: &Sim) -> Self {
        Self {
            server: sim.server().clone(),
            named: Arc::default(),
        }
    }

    /// Serves clients at `punix:PATH` or `ptcp:PORT[:HOST]`, or connects to the one at `unix:PATH` or `tcp:HOST[:PORT]`.
    /// `db:DATABASE,TABLE,COLUMN` stands for the targets in a column of strings, or in the column `target` of the rows
    /// that a column refers to, now and whenever they change; one of them that cannot be opened is tried again. Every
    /// few seconds the columns `is_connected` and `status` of such rows are told how it is with the connections.
    ///
    /// Returns what it does, in words: `listening on tcp:127.0.0.1:6641`. One that is there already stays as it is.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound, or there is no such column.
    pub async fn add(&self, target: &str) -> Result<String, ListenError> {
        if let Some(named) = self.named().get(target) {
            return Ok(named.says());
        }
        let named = if target.starts_with("db:") {
            Named::Configured(Configured::start(&self.server, target)?)
        } else {
            let probe = listen::default_probe(target);
            Named::One(Remote::open(&self.server, target, probe).await?)
        };
        let says = named.says();
        self.named().insert(target.to_owned(), named);
        Ok(says)
    }

    /// Ends one and its connections; false when there is none of this name.
    pub fn remove(&self, target: &str) -> bool {
        self.named().remove(target).is_some()
    }

    /// What they were added as, sorted.
    pub fn targets(&self) -> Vec<String> {
        self.named().keys().cloned().collect()
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<String, Named>> {
        // Each change is one call.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named {
    fn says(&self) -> String {
        match self {
            Self::One(Remote::Passive(door)) => format!("listening on {}", door.listener.remote()),
            Self::One(Remote::Active(dialer)) => format!("connecting to {}", dialer.target()),
            Self::Configured(configured) => format!("following {}", configured.target()),
        }
    }
}

impl Remote {
    async fn open(
        server: &Arc<Server>,
        target: &str,
        probe: Option<Duration>,
    ) -> Result<Self, ListenError> {
        match target.split_once(':') {
            Some(("unix" | "tcp", _)) => {
                dial::dial(server.clone(), target, probe).map(Self::Active)
            }
            Some(("punix" | "ptcp", _)) => {
                let listener = listen::listen(server.clone(), target, probe).await?;
                Ok(Self::Passive(Door {
                    listener,
                    server: server.clone(),
                }))
            }
            _ => Err(ListenError::Remote(target.to_owned())),
        }
    }

    /// Changes the time of silence after which clients must prove to be there.
    fn set_probe(&self, probe: Option<Duration>) {
        match self {
            Self::Passive(door) => door.listener.set_probe(probe),
            Self::Active(dialer) => dialer.set_probe(probe),
        }
    }
}
