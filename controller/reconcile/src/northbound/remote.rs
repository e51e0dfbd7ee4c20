//! A database of an OVSDB server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use patchbay_engine::client::{
    Client, ClientClosed, CommitOutcome, Config, ConnectError, ConnectionEvent, ConnectionEvents,
    Remote as Address, RemoteError, Remotes, SnapshotChanges, Tls, UnknownOutcome,
};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};

use super::{BULK_ROWS, CommitError, DATABASE, Northbound, ReconnectError};

/// Minimum and maximum of the delay between two rounds of connection attempts. They are shorter
/// than those of OVSDB's own clients, because a command waits for the connection.
const RECONNECT_BACKOFF: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(2));

/// Failure of [`Remote::open`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is not a list of remotes.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// No server can make this socket, so that it is not waited for.
    #[error("cannot use {remote}: there is no folder {}", .folder.display())]
    NoFolder {
        /// Remote of the socket.
        remote: String,
        /// Folder of the socket.
        folder: PathBuf,
    },
    /// No remote serves the database, or none within the time limit.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client was closed right after it had connected.
    #[error(transparent)]
    Ended(#[from] ClientClosed),
}

impl OpenError {
    /// `true` if the time limit has ended.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Connect(error) if error.within.is_some())
    }
}

/// A client of a server, with a replica of its Northbound database.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    events: ConnectionEvents,
    /// Maximum time for a reply, and from the first failure to the next commit.
    limit: Duration,
    /// Time of the first failure since the last commit. `None`: nothing has failed since.
    failing_since: Option<Instant>,
    unknown: Option<UnknownOutcome>,
}

impl Remote {
    /// Connects to `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT` or several of them, separated by
    /// commas. `tls`: keys for `ssl:` remotes.
    ///
    /// `limit` is the maximum time to wait for the server: until the database is read, for the
    /// reply to a transaction, and after a lost connection until the next commit.
    ///
    /// # Errors
    /// `remotes` cannot be parsed, or no remote serves the database within the limit.
    pub async fn open(remotes: &str, tls: Option<Tls>, limit: Duration) -> Result<Self, OpenError> {
        let client = Client::connect_within(config(remotes, tls)?, limit).await?;
        Ok(Self::of_client(client, limit)?)
    }

    /// Connects as [`open`](Self::open) does. Instead of log lines, `waiting` gets the failures of
    /// each round of attempts after which the client waits.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_waiting(
        remotes: &str,
        tls: Option<Tls>,
        limit: Duration,
        mut waiting: impl FnMut(&ConnectError),
    ) -> Result<Self, OpenError> {
        let config = config(remotes, tls)?;
        let connected = Client::connect_waiting(config, limit, |error, _| waiting(error));
        Ok(Self::of_client(connected.await?, limit)?)
    }

    /// The database of a client that others may use, too. `limit` is as for [`open`](Self::open).
    ///
    /// # Errors
    /// The client is closed.
    pub fn of_client(client: Client, limit: Duration) -> Result<Self, ClientClosed> {
        Ok(Self {
            events: client.connection_events()?,
            client,
            limit,
            failing_since: None,
            unknown: None,
        })
    }

    /// Waits for later snapshots, whoever commits.
    pub fn changes(&self) -> SnapshotChanges {
        self.client.changes()
    }

    /// `true` if the replica follows the server: `false` after a lost connection, until the next one.
    pub fn is_live(&self) -> bool {
        self.client.is_live()
    }

    /// Waits until the replica is live.
    ///
    /// # Errors
    /// The replica is not live within the time limit, or the client is closed.
    pub async fn wait_until_live(&self) -> Result<(), ReconnectError> {
        self.live_until(Instant::now() + self.limit).await
    }

    async fn live_until(&self, deadline: Instant) -> Result<(), ReconnectError> {
        // Subscribed before `is_live`, so that no event is missed in between.
        let mut events = self.client.connection_events()?;
        let live = async {
            while !self.client.is_live() {
                events.next().await?;
            }
            Ok::<_, ClientClosed>(())
        };
        let waited = timeout_at(deadline, live).await;
        Ok(waited.map_err(|_| ReconnectError::Timeout(self.limit))??)
    }

    /// Waits for the next resync after a lost connection: other clients may have changed the
    /// database meanwhile. Never returns once the client is closed.
    ///
    /// # Cancel safety
    /// No resync is lost if the future is dropped.
    pub async fn wait_for_resync(&mut self) {
        loop {
            match self.events.next().await {
                Ok(ConnectionEvent::Resynced { .. } | ConnectionEvent::Missed(_)) => return,
                Ok(_) => {}
                // The next commit returns the error.
                Err(ClientClosed) => std::future::pending().await,
            }
        }
    }
}

impl Northbound for Remote {
    fn snapshot(&self) -> Snapshot {
        self.client.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let Ok(outcome) = timeout(self.limit, self.client.transact(transaction)).await else {
            return Err(CommitError::NoReply(self.limit));
        };
        let failed = match outcome {
            CommitOutcome::Committed(_) => {
                self.failing_since = None;
                return Ok(());
            }
            CommitOutcome::Rejected(error) => return Err(error.into()),
            CommitOutcome::NotSent(error) => error.into(),
            CommitOutcome::Unknown(unknown) => {
                self.unknown = Some(unknown.clone());
                unknown.into()
            }
        };
        self.failing_since.get_or_insert_with(Instant::now);
        Err(failed)
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        let deadline = self.failing_since.unwrap_or_else(Instant::now) + self.limit;
        if let Some(unknown) = self.unknown.take() {
            let resync = timeout_at(deadline, self.client.wait_for_resync(&unknown)).await;
            resync.map_err(|_| ReconnectError::Timeout(self.limit))??;
        }
        self.live_until(deadline).await
    }
}

/// Configuration of a client of remotes.
fn config(remotes: &str, tls: Option<Tls>) -> Result<Config, OpenError> {
    let remotes: Remotes = remotes.parse()?;
    let mut missing = remotes.as_slice().iter().map(missing_folder);
    // If one of several remotes can be there, the others are tried beside it.
    if let Some(Some((remote, folder))) = missing.next()
        && missing.all(|other| other.is_some())
    {
        let remote = remote.to_string();
        return Err(OpenError::NoFolder { remote, folder });
    }
    let mut config = Config::new(remotes, DATABASE);
    config.tls = tls;
    config.bulk_rows = Some(BULK_ROWS);
    config.backoff = RECONNECT_BACKOFF;
    Ok(config)
}

/// The folder of a remote's socket, if it does not exist.
fn missing_folder(remote: &Address) -> Option<(&Address, PathBuf)> {
    let Address::Unix(path) = remote else {
        return None;
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""))?;
    (!folder.exists()).then(|| (remote, folder.to_owned()))
}
