//! What users of a client hold.

use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::error::OvsdbError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::db::Snapshot;
use crate::txn::Transaction;

use super::condition::{Filter, FilterChange, FilterError};
use super::config::Config;
use super::connection_events::{ConnectionEvent, ConnectionEvents, EVENTS};
use super::driver::{Driver, Requests};
use super::embedded::{self, EmbeddedDatabase};
use super::error::{ConnectError, Ended};
use super::lock::{Lock, LockError, Locks, Mode, Tenure};
use super::outcome::{CommitOutcome, Committed, NotSent, OpError, PartsOutcome, Unknown};
use super::outgoing::Outgoing;
use super::pipeline::{Command, Job};
use super::published::{Progress, Published, Shared};
use super::subscription::{Follow, NotFollowed, Subscription};

/// A handle on a replica of a database and on the connection to its server. Clones are handles on the same; the
/// connection ends with the last.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    /// None when there is no connection to configure.
    config: Option<Arc<Config>>,
    commands: mpsc::Sender<Command>,
    filters: mpsc::Sender<FilterChange>,
    locks: Arc<Locks>,
    progress: watch::Receiver<Progress>,
    /// Weak: those who listen hear of the end of the task that sends events.
    events: broadcast::WeakSender<ConnectionEvent>,
}

impl Client {
    /// Connects to the first remote that can be used, and returns when the replica holds the database.
    ///
    /// # Errors
    /// No remote can be used: each was tried once.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(mut config: Config) -> Result<Self, ConnectError> {
        config.select_indexed_columns();
        let config = Arc::new(config);
        let mut driver = Driver::new(config.clone());
        let (connection, live) = driver.connect().await?;
        let snapshot = driver
            .first_snapshot()
            .expect("a connection begins with the contents of the database");
        let shared = Arc::new(Shared::Replica(Published::new(snapshot)));
        let (commands, transactions) = mpsc::channel(config.pipelining.queue());
        let (filters, changes) = mpsc::channel(1);
        driver.announce(&connection, live);
        let (progress, events, locks) = (driver.progress(), driver.events(), driver.locks());
        let requests = Requests {
            transactions,
            filters: changes,
        };
        let ending = driver.ending(shared.clone());
        tokio::spawn(driver.run(connection, requests, ending));
        Ok(Self {
            shared,
            config: Some(config),
            commands,
            filters,
            locks,
            progress,
            events,
        })
    }

    /// A client of a database in this process: without a connection, a replica or messages, so that nothing of them can
    /// fail. The database itself is read and changed, all of it: there is no selection of tables.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn embedded(database: impl EmbeddedDatabase + 'static) -> Self {
        let progress = watch::Sender::new(Progress {
            session: 1,
            live: true,
            fenced: true,
            changes: 0,
        });
        let (commands, _) = mpsc::channel(1);
        let (filters, _) = mpsc::channel(1);
        let handle = progress.subscribe();
        tokio::spawn(embedded::follow(database.commits(), progress));
        Self {
            config: None,
            commands,
            filters,
            locks: Arc::default(),
            progress: handle,
            events: broadcast::Sender::new(EVENTS).downgrade(),
            shared: Arc::new(Shared::Embedded(Box::new(database))),
        }
    }

    /// The database as the replica knows it, after a whole transaction of somebody. Never waits.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Whether the replica follows the database at this moment.
    pub fn is_live(&self) -> bool {
        self.progress.borrow().live
    }

    /// Tells of every transaction that changes the followed tables, from now on. [`changes`](Self::changes) is for those
    /// who only need the newest state.
    ///
    /// ```no_run
    /// # use patchbay_engine::client::{Change, ChangeEvent, Client, Ended, Follow};
    /// # use patchbay_schemas::nb::LogicalRouterPort;
    /// # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = client.follow(Follow::table::<LogicalRouterPort>())?;
    /// let mut ports = events.snapshot().typed::<LogicalRouterPort>().len();
    /// loop {
    ///     match events.next().await? {
    ///         ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => {
    ///             for change in changed.of::<LogicalRouterPort>() {
    ///                 match change? {
    ///                     Change::Inserted { .. } => ports += 1,
    ///                     Change::Deleted { .. } => ports -= 1,
    ///                     Change::Modified { old, new, .. } => println!("{} is {} now", old.mac, new.mac),
    ///                 }
    ///             }
    ///         }
    ///         ChangeEvent::Lagged(snapshot) => ports = snapshot.typed::<LogicalRouterPort>().len(),
    ///     }
    ///     println!("{ports} ports");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The client is [embedded](Self::embedded).
    pub fn follow(&self, follow: Follow) -> Result<Subscription, NotFollowed> {
        match &*self.shared {
            Shared::Replica(published) => {
                let snapshot = || self.shared.snapshot();
                Ok(published.followers.add(follow, snapshot))
            }
            Shared::Embedded(_) => Err(NotFollowed),
        }
    }

    /// Tells what happens to the connection from now on.
    ///
    /// # Errors
    /// The client has ended, or is [embedded](Self::embedded): there is no connection.
    pub fn connection_events(&self) -> Result<ConnectionEvents, Ended> {
        let events = self.events.upgrade().ok_or(Ended)?;
        Ok(ConnectionEvents::new(events.subscribe()))
    }

    /// Asks for a lock, and for it again after each reconnect, until the [`Lock`] is dropped. Returns at once: wait with
    /// [`Lock::held`].
    ///
    /// # Errors
    /// The name cannot be one of a lock, this client has asked for it already, or is [embedded](Self::embedded).
    pub fn lock(&self, name: &str) -> Result<Lock, LockError> {
        self.ask_for_lock(name, Mode::Wait)
    }

    /// Takes a lock from whoever owns it. If it is lost later, the client waits for it as with [`lock`](Self::lock).
    ///
    /// # Errors
    /// As of [`lock`](Self::lock).
    pub fn steal(&self, name: &str) -> Result<Lock, LockError> {
        self.ask_for_lock(name, Mode::Steal)
    }

    fn ask_for_lock(&self, name: &str, mode: Mode) -> Result<Lock, LockError> {
        if self.config.is_none() {
            return Err(LockError::Embedded);
        }
        Lock::new(self.clone(), self.locks.clone(), name, mode)
    }

    /// Changes which rows of a table the replica holds. Returns when it holds them.
    ///
    /// When the connection is lost meanwhile, the filter comes into force with the next one. Servers that know none but the
    /// oldest kind of monitor report all rows whatever the filter says.
    ///
    /// # Errors
    /// The server refuses the filter, or the client has ended.
    ///
    /// # Cancel safety
    /// Once the future was polled, the filter comes into force even when it is dropped.
    pub async fn set_filter(&self, table: &str, filter: Filter) -> Result<(), FilterError> {
        let table = table.to_owned();
        let config = self.config.as_ref().ok_or(FilterError::NoReplica)?;
        if !config.selection.has_table(&table) {
            return Err(FilterError::NoTable { table });
        }
        let (done, outcome) = oneshot::channel();
        let change = FilterChange {
            table,
            filter,
            done,
        };
        self.filters.send(change).await.map_err(|_| Ended)?;
        outcome.await.map_err(|_| Ended)?
    }

    /// Tells of new snapshots from now on.
    pub fn changes(&self) -> Changes {
        let mut progress = self.progress.clone();
        let seen = progress.borrow_and_update().changes;
        Changes {
            shared: self.shared.clone(),
            progress,
            seen,
        }
    }

    /// Sends a transaction and waits for what becomes of it. When it is committed, the replica shows its changes.
    ///
    /// Several transactions may be under way at the same time; they are executed in the order in which this was called.
    /// While there is no connection, nothing is sent: the transaction was made for a database that may have changed.
    ///
    /// # Cancel safety
    /// A transaction whose future is dropped while it waits for its turn is not sent. Once sent, it is executed. Who drops the
    /// future does not learn which of both it was.
    pub async fn transact(&self, transaction: Transaction) -> CommitOutcome {
        if transaction.is_empty() {
            return CommitOutcome::Committed(Committed::default());
        }
        self.send(transaction, None).await
    }

    /// The same under a lock.
    pub(super) async fn transact_under(
        &self,
        mut transaction: Transaction,
        tenure: Tenure,
    ) -> CommitOutcome {
        if transaction.is_empty() {
            return CommitOutcome::Committed(Committed::default());
        }
        // Last, so that operations and results have the places that the caller knows.
        transaction.assert_lock(&tenure.name);
        self.send(transaction, Some(tenure)).await
    }

    async fn send(&self, mut transaction: Transaction, tenure: Option<Tenure>) -> CommitOutcome {
        if let Shared::Embedded(database) = &*self.shared {
            return embedded::transact(&**database, &transaction);
        }
        let database = &transaction.schema().name;
        if let Some(config) = &self.config
            && config.database != *database
        {
            return CommitOutcome::Rejected(OpError {
                operation: None,
                error: OvsdbError::new(
                    "unknown database",
                    format!(
                        "the transaction is for database {database}, this client's is {}",
                        config.database
                    ),
                ),
            });
        }
        if self
            .config
            .as_ref()
            .is_some_and(|config| config.guard.is_some())
        {
            // The server's answer, which names the rows' UUIDs, may be lost.
            transaction.choose_uuids();
        }
        let transaction = Arc::new(transaction);
        let request = Outgoing::transact(&transaction);
        let (outcome, answer) = oneshot::channel();
        let span = tracing::debug_span!(
            "transaction",
            database = &*transaction.schema().name,
            operations = transaction.operations().len(),
            bytes = tracing::field::Empty,
            id = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        if request.rest.is_none() {
            span.record("bytes", request.text.len());
        }
        let job = Job {
            transaction,
            tenure,
            outcome,
            queued: Instant::now(),
            span,
        };
        let command = Command { request, job };
        if self.commands.send(command).await.is_err() {
            return CommitOutcome::NotSent(NotSent { lost: None });
        }
        let unknown = || {
            CommitOutcome::Unknown(Unknown {
                lost: None,
                session: u64::MAX,
            })
        };
        answer.await.unwrap_or_else(|_| unknown())
    }

    /// Commits the parts of a transaction that is too large for one request, one after the other, up to the first that
    /// is not committed. Rows that one part inserts are known to the next by what stands for them.
    pub async fn transact_parts(&self, parts: Vec<Transaction>) -> PartsOutcome {
        let mut outcome = PartsOutcome {
            parts: 0,
            committed: Committed::default(),
            stopped: None,
        };
        for mut part in parts {
            let inserted = &outcome.committed.inserted;
            part.resolve(|uuid| inserted.get(&uuid).copied());
            match self.transact(part).await.into_result() {
                Ok(committed) => outcome.committed.append(committed),
                Err(error) => {
                    outcome.stopped = Some(error);
                    break;
                }
            }
            outcome.parts += 1;
        }
        outcome
    }

    /// Waits, after an unknown outcome, until the replica holds the database as a later connection found it, and the
    /// server is done with the former connection: what the snapshot does not show, was not and will not be made.
    ///
    /// The server may need some time to see that the former connection is gone: on tcp, when the network was cut, until
    /// its own probe fails (10 s). In a cluster only a connection to the same server says as much; what was sent to
    /// another may still be made. A [`Guard`](super::Guard) tells for sure, and without waiting for servers to notice.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn resynced(&self, unknown: &Unknown) -> Result<Snapshot, Ended> {
        let mut progress = self.progress.clone();
        let later = |progress: &Progress| {
            progress.live && progress.fenced && progress.session > unknown.session
        };
        progress.wait_for(later).await.map_err(|_| Ended)?;
        Ok(self.snapshot())
    }
}

/// Waits for new snapshots. Whoever is slow skips those that are outdated; none that is current is missed.
#[derive(Clone, Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    seen: u64,
}

impl Changes {
    /// The next snapshot that is newer than the last one returned.
    ///
    /// # Errors
    /// The client has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Snapshot, Ended> {
        let seen = self.seen;
        let progress = self
            .progress
            .wait_for(|progress| progress.changes != seen)
            .await;
        self.seen = progress.map_err(|_| Ended)?.changes;
        Ok(self.shared.snapshot())
    }
}
