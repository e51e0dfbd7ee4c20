//! The database of a server.

use std::time::Duration;

use patchbay_engine::client::{
    Client, ClientClosed, CommitOutcome, Config, ConnectError, ConnectionEvent, ConnectionEvents,
    RemoteError, Remotes, Tls, UnknownOutcome,
};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use thiserror::Error;
use tokio::time::timeout;

use super::{BULK_ROWS, CommitError, DATABASE, Northbound};

/// How long a server that was lost may take to come back before nobody waits for it any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a server's database cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// That is no place.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Nobody there serves the database.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client has ended as soon as it was there.
    #[error(transparent)]
    Ended(#[from] ClientClosed),
}

/// A replica of a server's database, and the connection to it.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    events: ConnectionEvents,
    unknown: Option<UnknownOutcome>,
}

impl Remote {
    /// Connects to `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT` or several of them, separated by commas. `tls` are the
    /// keys for `ssl:`.
    ///
    /// # Errors
    /// The text names no place, or none of the places serves the database.
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

    /// Waits until the snapshot shows the database as it is now: not long, if it does not.
    ///
    /// # Errors
    /// The database does not come back: a text that says so.
    pub async fn live(&self) -> Result<(), String> {
        // Asked for before the look, so that none is missed in between.
        let events = self.client.connection_events();
        let mut events = events.map_err(|ended| ended.to_string())?;
        let live = async {
            while !self.client.is_live() {
                events.next().await?;
            }
            Ok::<_, ClientClosed>(())
        };
        match timeout(PATIENCE, live).await {
            Ok(live) => live.map_err(|ended| ended.to_string()),
            Err(_) => Err(gone()),
        }
    }

    /// Waits until the snapshot shows the database after a time in which nobody knows what has happened to it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn resynced(&mut self) {
        loop {
            match self.events.next().await {
                Ok(ConnectionEvent::Resynced { .. } | ConnectionEvent::Missed(_)) => return,
                Ok(_) => {}
                // It will not be. Whoever uses the database is told so.
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

    async fn look_again(&mut self) -> Result<(), String> {
        let Some(unknown) = self.unknown.take() else {
            return Ok(());
        };
        match timeout(PATIENCE, self.client.wait_for_resync(&unknown)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(ended)) => Err(ended.to_string()),
            Err(_) => Err(gone()),
        }
    }
}

fn gone() -> String {
    let seconds = PATIENCE.as_secs();
    format!("the database did not come back within {seconds} s")
}
