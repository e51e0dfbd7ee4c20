//! The public handle of a client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_schemas::error::OvsdbError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::db::Snapshot;
use crate::txn::Transaction;

use super::config::Config;
use super::connection::Connection;
use super::connection_events::{ConnectionEvent, ConnectionEvents, EVENT_CHANNEL_DEPTH};
use super::driver::{Driver, HandleRequests, ProbeInterval};
use super::embedded::{self, EmbeddedDatabase};
use super::error::{ClientClosed, ConnectError};
use super::filter::{Filter, FilterChange, FilterError};
use super::forwarding::{ForwardedReplies, ForwardedRequest, Forwarder};
use super::lock::{Lock, LockError, LockMode, LockRequests, Ownership};
use super::outcome::{CommitOutcome, Committed, NotSent, OpError, PartsOutcome, UnknownOutcome};
use super::outgoing::Outgoing;
use super::pending::{PendingTransaction, QueuedTransaction};
use super::progress::ReplicaProgress;
use super::published::{PublishedReplica, SnapshotSource};
use super::session::ReplicaReady;
use super::subscription::{FollowUnsupported, FollowedTables, Subscription};

/// A handle on a replica of a database and on the connection to its server.
///
/// Clones share both. The connection is closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<SnapshotSource>,
    /// `None`: embedded, without a connection to configure.
    config: Option<Arc<Config>>,
    commands: mpsc::Sender<QueuedTransaction>,
    filters: mpsc::Sender<FilterChange>,
    forwarded: mpsc::UnboundedSender<ForwardedRequest>,
    /// `None`: the interval is that of the configuration.
    probe_interval: Arc<watch::Sender<Option<ProbeInterval>>>,
    locks: Arc<LockRequests>,
    progress: watch::Receiver<ReplicaProgress>,
    /// Weak, so that the channel closes when the task ends.
    events: broadcast::WeakSender<ConnectionEvent>,
}

impl Client {
    /// Connects to the first remote that qualifies. Returns once the replica holds the database.
    ///
    /// # Errors
    /// No remote can be used. Each was tried once; the error holds one failure for each.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(mut config: Config) -> Result<Self, ConnectError> {
        config.select_indexed_columns();
        let config = Arc::new(config);
        let mut driver = Driver::new(config.clone());
        let connected = driver.connect().await?;
        Ok(Self::start(config, driver, connected))
    }

    /// Connects to the first remote that qualifies, and tries again for at most `limit` while a
    /// server starts, comes back, or is elected. Returns once the replica holds the database.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use patchbay_engine::client::{Client, ConnectError, Config};
    /// # async fn run(config: Config) -> Result<(), ConnectError> {
    /// let client = Client::connect_within(config, Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No remote can be used within the limit, or no later attempt can succeed: see
    /// [`SessionError::is_transient`](super::SessionError::is_transient).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_within(config: Config, limit: Duration) -> Result<Self, ConnectError> {
        Self::connect_waiting(config, limit, |error, delay| {
            tracing::warn!(%error, retry_in = ?delay, "no remote can be used");
        })
        .await
    }

    /// Connects as [`connect_within`](Self::connect_within) does. Instead of a log line, `waiting`
    /// gets the failures of each round after which the client waits, and the delay to the next one.
    ///
    /// # Errors
    /// As for [`connect_within`](Self::connect_within).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect_waiting(
        mut config: Config,
        limit: Duration,
        waiting: impl FnMut(&ConnectError, Duration),
    ) -> Result<Self, ConnectError> {
        config.select_indexed_columns();
        let config = Arc::new(config);
        let mut driver = Driver::new(config.clone());
        let connected = driver.connect_within(limit, waiting).await?;
        Ok(Self::start(config, driver, connected))
    }

    /// A client with its first connection.
    fn start(
        config: Arc<Config>,
        mut driver: Driver,
        (connection, live): (Connection, ReplicaReady),
    ) -> Self {
        let (snapshot, last) =
            driver.first_snapshot().expect("a connection begins with the contents of the database");
        let shared = Arc::new(SnapshotSource::Replica(PublishedReplica::new(snapshot, last)));
        let (commands, transactions) = mpsc::channel(config.pipelining.queue_depth());
        let (filters, changes) = mpsc::channel(1);
        let (forwarded, forwards) = mpsc::unbounded_channel();
        let probe_interval = watch::Sender::new(None);
        driver.announce(&connection, live);
        let (progress, events, locks) = (driver.progress(), driver.events(), driver.locks());
        let requests = HandleRequests {
            transactions,
            filters: changes,
            forwarded: forwards,
            probe_interval: probe_interval.subscribe(),
        };
        let ending = driver.closed_on_drop(shared.clone());
        tokio::spawn(driver.run(connection, requests, ending));
        Self {
            shared,
            config: Some(config),
            commands,
            filters,
            forwarded,
            probe_interval: Arc::new(probe_interval),
            locks,
            progress,
            events,
        }
    }

    /// A client of a database in this process.
    ///
    /// It has no connection, replica or messages, and none of their failures. It reads and changes
    /// the whole database: there is no selection of tables.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn embedded(database: impl EmbeddedDatabase + 'static) -> Self {
        let progress = watch::Sender::new(ReplicaProgress {
            session: 1,
            live: true,
            fenced: true,
            changes: 0,
        });
        let (commands, _) = mpsc::channel(1);
        let (filters, _) = mpsc::channel(1);
        let (forwarded, _) = mpsc::unbounded_channel();
        let handle = progress.subscribe();
        tokio::spawn(embedded::follow(database.commits(), progress));
        Self {
            config: None,
            commands,
            filters,
            forwarded,
            probe_interval: Arc::new(watch::Sender::new(None)),
            locks: Arc::default(),
            progress: handle,
            events: broadcast::Sender::new(EVENT_CHANNEL_DEPTH).downgrade(),
            shared: Arc::new(SnapshotSource::Embedded(Box::new(database))),
        }
    }

    /// The replica's current state, which is always a state between transactions. Never waits.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// `true` while the replica follows the database.
    pub fn is_live(&self) -> bool {
        self.progress.borrow().live
    }

    /// Subscribes to the transactions that change the given tables, from now on.
    ///
    /// Use [`changes`](Self::changes) if only the newest state matters.
    ///
    /// ```no_run
    /// # use patchbay_engine::client::{Change, ChangeEvent, Client, ClientClosed, FollowedTables};
    /// # use patchbay_schemas::nb::LogicalRouterPort;
    /// # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = client.follow(FollowedTables::table::<LogicalRouterPort>())?;
    /// let mut ports = events.snapshot().typed::<LogicalRouterPort>().len();
    /// loop {
    ///     match events.next().await? {
    ///         ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => {
    ///             for change in changed.of::<LogicalRouterPort>() {
    ///                 match change? {
    ///                     Change::Inserted { .. } => ports += 1,
    ///                     Change::Deleted { .. } => ports -= 1,
    ///                     Change::Modified { old, new, .. } => println!("{} -> {}", old.mac, new.mac),
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
    /// The client is [embedded](Self::embedded): compare snapshots instead.
    pub fn follow(&self, follow: FollowedTables) -> Result<Subscription, FollowUnsupported> {
        match &*self.shared {
            SnapshotSource::Replica(published) => {
                let snapshot = || self.shared.snapshot();
                Ok(published.subscribers.subscribe(follow, snapshot))
            }
            SnapshotSource::Embedded(_) => Err(FollowUnsupported),
        }
    }

    /// Changes the probe interval of this connection and of later connections, whatever their
    /// remotes. It replaces the probe intervals of the [`Config`]. `None`: no probes.
    pub fn set_probe_interval(&self, interval: Option<Duration>) {
        let interval = interval.filter(|interval| !interval.is_zero());
        self.probe_interval.send_replace(Some(ProbeInterval(interval)));
    }

    /// Makes a forwarder of requests, which this client does not interpret, and the receiver of
    /// their replies. It is for relays.
    pub fn forwarder(&self) -> (Forwarder, ForwardedReplies) {
        Forwarder::new(self.forwarded.clone())
    }

    /// Subscribes to the events of the connection, from now on.
    ///
    /// # Errors
    /// The client is closed, or [embedded](Self::embedded) and has no connection.
    pub fn connection_events(&self) -> Result<ConnectionEvents, ClientClosed> {
        let events = self.events.upgrade().ok_or(ClientClosed)?;
        Ok(ConnectionEvents::new(events.subscribe()))
    }

    /// Requests a lock, again after each reconnect, until the [`Lock`] is dropped. Returns at once;
    /// wait with [`Lock::wait_until_held`].
    ///
    /// # Errors
    /// The name is not valid, this client has requested the lock already, or the client is
    /// [embedded](Self::embedded).
    pub fn lock(&self, name: &str) -> Result<Lock, LockError> {
        self.request_lock(name, LockMode::Wait)
    }

    /// Takes a lock from its owner. After losing it, the client waits for it as with
    /// [`lock`](Self::lock).
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock).
    pub fn steal(&self, name: &str) -> Result<Lock, LockError> {
        self.request_lock(name, LockMode::Steal)
    }

    fn request_lock(&self, name: &str, mode: LockMode) -> Result<Lock, LockError> {
        if self.config.is_none() {
            return Err(LockError::Embedded);
        }
        Lock::new(self.clone(), self.locks.clone(), name, mode)
    }

    /// Changes the filter of a table. Returns once the replica holds the rows that it selects.
    ///
    /// If the connection is lost meanwhile, the filter takes effect with the next one. Servers that
    /// support only the oldest monitor method report all rows, whatever the filter.
    ///
    /// # Errors
    /// The server rejects the filter, the replica does not hold the table, or the client is closed
    /// or embedded.
    ///
    /// # Cancel safety
    /// Once polled, the filter takes effect even if the future is dropped.
    pub async fn set_filter(&self, table: &str, filter: Filter) -> Result<(), FilterError> {
        let table = table.to_owned();
        let config = self.config.as_ref().ok_or(FilterError::NoReplica)?;
        if !config.selection.has_table(&table) {
            return Err(FilterError::NoTable { table });
        }
        let (done, outcome) = oneshot::channel();
        let change = FilterChange { table, filter, done };
        self.filters.send(change).await.map_err(|_| ClientClosed)?;
        outcome.await.map_err(|_| ClientClosed)?
    }

    /// Waits for snapshots that are newer than the current one.
    pub fn changes(&self) -> SnapshotChanges {
        let mut progress = self.progress.clone();
        let seen = progress.borrow_and_update().changes;
        SnapshotChanges { shared: self.shared.clone(), progress, seen }
    }

    /// Sends a transaction and waits for its outcome. After a commit, [`snapshot`](Self::snapshot)
    /// shows the changes.
    ///
    /// Any number of transactions may wait for their outcome; they are executed in the order of the
    /// calls. Without a connection nothing is sent, because the transaction was computed from a
    /// state that may be outdated.
    ///
    /// # Cancel safety
    /// A transaction whose future is dropped while it is queued is not sent. Once sent, it is
    /// executed. A caller that drops the future cannot distinguish the two.
    pub async fn transact(&self, transaction: Transaction) -> CommitOutcome {
        if transaction.is_empty() {
            return CommitOutcome::Committed(Committed::default());
        }
        self.send(transaction, None).await
    }

    /// [`transact`](Self::transact) with an `assert` of a lock.
    pub(super) async fn transact_under(
        &self,
        mut transaction: Transaction,
        ownership: Ownership,
    ) -> CommitOutcome {
        if transaction.is_empty() {
            return CommitOutcome::Committed(Committed::default());
        }
        // Appended last, so that operations and results keep the indexes that the caller knows.
        transaction.assert_lock(&ownership.name);
        self.send(transaction, Some(ownership)).await
    }

    async fn send(
        &self,
        mut transaction: Transaction,
        ownership: Option<Ownership>,
    ) -> CommitOutcome {
        if let SnapshotSource::Embedded(database) = &*self.shared {
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
        if self.config.as_ref().is_some_and(|config| config.guard.is_some()) {
            // The reply, which holds the inserted UUIDs, may be lost.
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
        let pending =
            PendingTransaction { transaction, ownership, outcome, queued: Instant::now(), span };
        let command = QueuedTransaction { request, pending };
        if self.commands.send(command).await.is_err() {
            return CommitOutcome::NotSent(NotSent { cause: None });
        }
        let unknown = || CommitOutcome::Unknown(UnknownOutcome { cause: None, session: u64::MAX });
        answer.await.unwrap_or_else(|_| unknown())
    }

    /// Commits the parts of a split transaction one after the other, up to the first that is not
    /// committed. Placeholders of rows that one part inserts are resolved in the parts after it.
    pub async fn transact_parts(&self, parts: Vec<Transaction>) -> PartsOutcome {
        let mut outcome = PartsOutcome { parts: 0, committed: Committed::default(), error: None };
        for mut part in parts {
            let inserted = &outcome.committed.inserted;
            part.resolve(|uuid| inserted.get(&uuid).copied());
            match self.transact(part).await.into_result() {
                Ok(committed) => outcome.committed.append(committed),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
            outcome.parts += 1;
        }
        outcome
    }

    /// Waits, after an unknown outcome, until the replica is up to date on a later connection and
    /// the server has finished with the former one. Changes that the returned snapshot lacks were
    /// not made and never will be.
    ///
    /// This can take as long as the server needs to detect the lost connection: on TCP, after a
    /// network failure, until its own probe fails (10 s). In a cluster the guarantee holds only if
    /// the later connection is to the same server; another member may still execute the request. It
    /// does not hold either if the server rejects lock requests. A [`Guard`](super::Guard) gives a
    /// certain outcome without waiting for servers.
    ///
    /// # Errors
    /// The client is closed.
    pub async fn wait_for_resync(
        &self,
        unknown: &UnknownOutcome,
    ) -> Result<Snapshot, ClientClosed> {
        let mut progress = self.progress.clone();
        let later = |progress: &ReplicaProgress| {
            progress.live && progress.fenced && progress.session > unknown.session
        };
        progress.wait_for(later).await.map_err(|_| ClientClosed)?;
        Ok(self.snapshot())
    }
}

/// Waits for snapshots that are newer than the last one returned.
///
/// A slow reader skips outdated snapshots and never misses the current one.
#[derive(Clone, Debug)]
pub struct SnapshotChanges {
    shared: Arc<SnapshotSource>,
    progress: watch::Receiver<ReplicaProgress>,
    seen: u64,
}

impl SnapshotChanges {
    /// Waits for the next snapshot and returns it.
    ///
    /// # Errors
    /// The client is closed.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Snapshot, ClientClosed> {
        let seen = self.seen;
        let progress = self.progress.wait_for(|progress| progress.changes != seen).await;
        self.seen = progress.map_err(|_| ClientClosed)?.changes;
        Ok(self.shared.snapshot())
    }
}
