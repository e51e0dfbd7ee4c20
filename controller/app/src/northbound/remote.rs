//! A database of an OVSDB server.

use std::time::Duration;

use patchbay_engine::client::{
    Client, ClientClosed, CommitOutcome, Config, ConnectError, ConnectionEvent, ConnectionEvents,
    RemoteError, Remotes, Tls, UnknownOutcome,
};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use thiserror::Error;
use tokio::time::timeout;

use super::{BULK_ROWS, CommitError, DATABASE, Northbound, ReconnectError};

/// Maximum time to wait for a reconnect, so that a command ends when its server is gone.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Failure of [`Remote::open`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is not a list of remotes.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// No remote serves the database.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client was closed right after it had connected.
    #[error(transparent)]
    Ended(#[from] ClientClosed),
}

/// A client of a server, with a replica of its Northbound database.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    events: ConnectionEvents,
    unknown: Option<UnknownOutcome>,
}

impl Remote {
    /// Connects to `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT` or several of them, separated by
    /// commas. `tls`: keys for `ssl:` remotes.
    ///
    /// # Errors
    /// `remotes` cannot be parsed, or no remote serves the database.
    pub async fn open(remotes: &str, tls: Option<Tls>) -> Result<Self, OpenError> {
        let remotes: Remotes = remotes.parse()?;
        let mut config = Config::new(remotes, DATABASE);
        config.tls = tls;
        config.bulk_rows = Some(BULK_ROWS);
        let client = Client::connect(config).await?;
        Ok(Self {
            events: client.connection_events()?,
            client,
            unknown: None,
        })
    }

    /// Waits until the replica is live, for at most 30 s.
    ///
    /// # Errors
    /// The replica is not live within that time, or the client is closed.
    pub async fn wait_until_live(&self) -> Result<(), ReconnectError> {
        // Subscribed before `is_live`, so that no event is missed in between.
        let mut events = self.client.connection_events()?;
        let live = async {
            while !self.client.is_live() {
                events.next().await?;
            }
            Ok::<_, ClientClosed>(())
        };
        within_reconnect_timeout(live).await
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
        match self.client.transact(transaction).await {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Rejected(error) => Err(CommitError::Rejected(error.to_string())),
            CommitOutcome::NotSent(error) => Err(CommitError::NotSent(error.to_string())),
            CommitOutcome::Unknown(unknown) => {
                let error = CommitError::Unknown(unknown.to_string());
                self.unknown = Some(unknown);
                Err(error)
            }
        }
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        let Some(unknown) = self.unknown.take() else {
            return Ok(());
        };
        let resync = self.client.wait_for_resync(&unknown);
        within_reconnect_timeout(resync).await.map(|_| ())
    }
}

async fn within_reconnect_timeout<T>(
    wait: impl Future<Output = Result<T, ClientClosed>>,
) -> Result<T, ReconnectError> {
    let waited = timeout(RECONNECT_TIMEOUT, wait).await;
    Ok(waited.map_err(|_| ReconnectError::Timeout(RECONNECT_TIMEOUT))??)
}
