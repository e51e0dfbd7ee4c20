//! Remotes of a server: listeners and active connections, by their targets.

pub(crate) mod column;
mod configured;
pub(crate) mod options;
mod retried;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dial::{self, Dialer};
use crate::file::system_text;
use crate::listen::{self, Listener};
use crate::remotes::options::RemoteOptions;
use crate::sim::Sim;
use crate::target::RemoteError;

use configured::ConfiguredRemotes;
use retried::RetriedRemote;

/// Remotes of a simulator, which can be added and removed while it runs. Clones are handles of the
/// same remotes, which end with the last handle.
#[derive(Clone, Debug)]
pub struct Remotes {
    sim: Sim,
    by_target: Arc<Mutex<BTreeMap<String, Remote>>>,
}

#[derive(Debug)]
enum Remote {
    Open(OpenRemote),
    /// Remote whose socket could not be bound at first.
    Retried(RetriedRemote),
    /// Remotes in a column of a database.
    Configured(ConfiguredRemotes),
}

#[derive(Debug)]
enum OpenRemote {
    Passive(PassiveRemote),
    Active(Dialer),
}

/// Listener that closes its clients' connections when it is dropped.
#[derive(Debug)]
struct PassiveRemote {
    listener: Listener,
    sim: Sim,
}

impl Drop for PassiveRemote {
    fn drop(&mut self) {
        self.listener.close_clients(self.sim.server());
    }
}

impl Remotes {
    /// Makes an empty set of remotes.
    pub fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), by_target: Arc::default() }
    }

    /// Adds a remote. A target that was added before stays as it is.
    ///
    /// | target | meaning |
    /// | --- | --- |
    /// | `punix:PATH`, `ptcp:PORT[:HOST]`, `pssl:PORT[:HOST]` | serve clients there |
    /// | `unix:PATH`, `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` | connect to a client that waits there, again and again |
    /// | `db:DATABASE,TABLE,COLUMN` | the targets in a column of strings, or in the column `target` of the rows that a column refers to, now and whenever they change |
    ///
    /// A target in a column that cannot be opened is tried again. The columns `is_connected` and
    /// `status` of rows with targets are updated every few seconds.
    ///
    /// Returns a description for users, such as `listening on tcp:127.0.0.1:6641`.
    ///
    /// # Errors
    /// The target is malformed or cannot be bound, or there is no such column.
    pub async fn add(&self, target: &str) -> Result<String, RemoteError> {
        self.add_with(target, RemoteOptions::of_target(target)).await
    }

    /// Adds a remote, as [`add`](Self::add) does. As in ovsdb-server, a socket that cannot be bound
    /// is logged and tried again every second.
    ///
    /// # Errors
    /// The target is malformed, or there is no such column.
    pub async fn add_or_retry(&self, target: &str) -> Result<String, RemoteError> {
        self.add_or_retry_with(target, RemoteOptions::of_target(target)).await
    }

    /// Adds a remote with options. One that was added before gets them. Those of a `db:` remote are
    /// in its rows.
    async fn add_with(&self, target: &str, options: RemoteOptions) -> Result<String, RemoteError> {
        if let Some(remote) = self.by_target().get(target) {
            remote.set_options(options);
            return Ok(remote.describe());
        }
        let remote = if target.starts_with("db:") {
            Remote::Configured(ConfiguredRemotes::start(&self.sim, target)?)
        } else {
            Remote::Open(OpenRemote::open(&self.sim, target, options).await?)
        };
        Ok(self.insert(target, remote))
    }

    /// Adds a remote with options, which is tried again if its socket cannot be bound.
    pub(crate) async fn add_or_retry_with(
        &self,
        target: &str,
        options: RemoteOptions,
    ) -> Result<String, RemoteError> {
        match self.add_with(target, options.clone()).await {
            Err(RemoteError::Io { target, source }) => {
                // The text is ovsdb-server's.
                tracing::error!(
                    target: "ovsdb_jsonrpc_server",
                    "{target}: listen failed: {}",
                    system_text(&source)
                );
                let remote = RetriedRemote::start(&self.sim, &target, options);
                Ok(self.insert(&target, Remote::Retried(remote)))
            }
            added => added,
        }
    }

    /// Inserts a remote, and returns its description for users.
    fn insert(&self, target: &str, remote: Remote) -> String {
        let description = remote.describe();
        self.by_target().insert(target.to_owned(), remote);
        description
    }

    /// Removes a remote and ends its connections. Returns `false` if there is none with this
    /// target.
    pub fn remove(&self, target: &str) -> bool {
        self.by_target().remove(target).is_some()
    }

    /// The targets as they were added, sorted.
    pub fn targets(&self) -> Vec<String> {
        self.by_target().keys().cloned().collect()
    }

    fn by_target(&self) -> MutexGuard<'_, BTreeMap<String, Remote>> {
        // Each change is one call.
        self.by_target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remote {
    /// Description for users.
    fn describe(&self) -> String {
        match self {
            Self::Open(remote) => remote.describe(),
            Self::Retried(remote) => remote.describe(),
            Self::Configured(configured) => format!("following {}", configured.target()),
        }
    }

    /// Changes the options of the remote. Those of a `db:` remote are in its rows.
    fn set_options(&self, options: RemoteOptions) {
        match self {
            Self::Open(remote) => remote.set_options(options),
            Self::Retried(remote) => remote.set_options(options),
            Self::Configured(_) => {}
        }
    }
}

impl OpenRemote {
    async fn open(sim: &Sim, target: &str, options: RemoteOptions) -> Result<Self, RemoteError> {
        match target.split_once(':') {
            Some(("unix" | "tcp" | "ssl", _)) => {
                dial::dial(sim.server().clone(), target, options).map(Self::Active)
            }
            Some(("punix" | "ptcp" | "pssl", _)) => {
                let listener =
                    listen::listen(sim.server(), sim.endpoints(), target, options).await?;
                Ok(Self::Passive(PassiveRemote { listener, sim: sim.clone() }))
            }
            _ => Err(RemoteError::Kind(target.to_owned())),
        }
    }

    /// Description for users.
    fn describe(&self) -> String {
        match self {
            Self::Passive(passive) => format!("listening on {}", passive.listener.remote()),
            Self::Active(dialer) => format!("connecting to {}", dialer.target()),
        }
    }

    /// Changes the options of the remote.
    fn set_options(&self, options: RemoteOptions) {
        match self {
            Self::Passive(passive) => passive.listener.set_options(options),
            Self::Active(dialer) => dialer.set_options(options),
        }
    }
}
