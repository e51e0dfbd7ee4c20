//! The task behind a client.
//!
//! There is one for each client. It owns the socket and the replica, connects anew when the connection is lost, and
//! ends when the last handle is gone; dropping it closes the connection. Handles send it transactions through a
//! bounded channel; it publishes snapshots for them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rand::seq::SliceRandom;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::Instrument;
use uuid::Uuid;

use crate::db::Snapshot;
use crate::txn::Transaction;

use super::answer;
use super::backoff::{Backoff, with_jitter};
use super::condition::FilterChange;
use super::config::Config;
use super::connection::Connection;
use super::connection_events::{ConnectionEvent, EVENTS};
use super::embedded::EmbeddedDatabase;
use super::error::{ConnectError, Lost, SessionError};
use super::known::Known;
use super::lock::{Locks, Tenure};
use super::outcome::{CommitOutcome, Committed, NotSent, Unknown};
use super::remote::Remote;
use super::session::{Event, Live};
use super::subscription::Followers;

/// Transactions that wait for their turn. Few: each may be tens of megabytes, and whoever waits holds it anyway.
pub(super) const QUEUE: usize = 16;

/// Transactions under way: enough to keep a server busy over a slow network, few enough to know what is lost with
/// a connection.
const WINDOW: usize = 128;

/// While more bytes than this wait to be sent, no further transaction is taken from the queue.
const UNSENT: u64 = 4 << 20;

/// A transaction on its way to the server.
pub(super) struct Command {
    /// The request; only its id is missing.
    pub(super) request: Vec<u8>,
    pub(super) transaction: Transaction,
    /// The time in which the client holds the lock that the transaction asserts last.
    pub(super) tenure: Option<Tenure>,
    pub(super) outcome: oneshot::Sender<CommitOutcome>,
}

/// How far the replica has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The number of the connection that the replica follows or followed last.
    pub(super) session: u64,
    /// Whether it follows it still.
    pub(super) live: bool,
    /// Whether the server is done with all former connections.
    pub(super) fenced: bool,
    /// How often a new snapshot was published.
    pub(super) changes: u64,
}

/// Where handles read.
#[derive(Debug)]
pub(super) enum Shared {
    /// What the task has published last.
    Replica(Published),
    /// There is no task and no copy.
    Embedded(Box<dyn EmbeddedDatabase>),
}

/// What the task tells handles.
#[derive(Debug)]
pub(super) struct Published {
    snapshot: ArcSwap<Snapshot>,
    pub(super) followers: Followers,
}

impl Published {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            followers: Followers::default(),
        }
    }
}

impl Shared {
    pub(super) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Replica(published) => Snapshot::clone(&published.snapshot.load()),
            Self::Embedded(database) => database.snapshot(),
        }
    }
}

pub(super) struct Driver {
    config: Arc<Config>,
    /// The name of the lock of this client's connections.
    lock: Arc<str>,
    backoff: Backoff,
    known: Known,
    /// Until the guard row has been read.
    unsettled: Vec<Unsettled>,
    /// In the order in which they are tried.
    remotes: Vec<Remote>,
    progress: watch::Sender<Progress>,
    events: broadcast::Sender<ConnectionEvent>,
}

/// What handles ask for.
pub(super) struct Requests {
    pub(super) transactions: mpsc::Receiver<Command>,
    pub(super) filters: mpsc::Receiver<FilterChange>,
}

/// A transaction that was handed to the connection.
struct Pending {
    transaction: Transaction,
    outcome: oneshot::Sender<CommitOutcome>,
    /// Its request goes up to here in the stream of sent bytes.
    end: u64,
    /// What the guard row will hold when it is made.
    mark: Option<String>,
}

/// A transaction that was not answered, of which the guard row will tell.
struct Unsettled {
    mark: String,
    outcome: oneshot::Sender<CommitOutcome>,
    lost: Arc<Lost>,
}

impl Driver {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let (min, max) = config.backoff;
        let mut remotes = config.remotes.as_slice().to_vec();
        if config.shuffle {
            remotes.shuffle(&mut rand::rng());
        }
        Self {
            lock: format!("patchbay_{}", Uuid::new_v4().simple()).into(),
            backoff: Backoff::new(min, max),
            known: Known::new(&config),
            unsettled: Vec::new(),
            remotes,
            progress: watch::Sender::default(),
            events: broadcast::Sender::new(EVENTS),
            config,
        }
    }

    /// Tries each remote once.
    pub(super) async fn connect(&mut self) -> Result<(Connection, Live), ConnectError> {
        let mut attempts = Vec::new();
        let config = self.config.clone();
        for remote in &self.remotes {
            match Connection::establish(&config, remote, &self.lock, &mut self.known).await {
                Ok((connection, live)) => {
                    tracing::info!(%remote, database = config.database, resync = ?live.resync,
                        "the replica follows the database");
                    return Ok((connection, live));
                }
                Err(lost) => {
                    tracing::debug!(error = %lost, "no connection");
                    let lost = Arc::new(lost);
                    self.tell(ConnectionEvent::Failed(lost.clone()));
                    attempts.push(lost);
                }
            }
        }
        Err(ConnectError {
            database: config.database.clone(),
            attempts,
        })
    }

    /// The state of the replica, once there has been a connection.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.known
            .replica
            .as_ref()
            .map(|replica| replica.snapshot().clone())
    }

    pub(super) fn locks(&self) -> Arc<Locks> {
        self.known.locks.clone()
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn events(&self) -> broadcast::WeakSender<ConnectionEvent> {
        self.events.downgrade()
    }

    /// Tells handles that the replica follows the database again.
    pub(super) fn announce(&self, connection: &Connection, live: Live) {
        self.tell(ConnectionEvent::Connected {
            remote: connection.remote.clone(),
            status: connection.session.status().cloned(),
        });
        self.progress.send_modify(|progress| {
            progress.session += 1;
            progress.live = true;
            progress.fenced = connection.session.is_fenced();
        });
        self.resynced(live);
    }

    /// Tells handles how the replica was brought up to date.
    fn resynced(&self, live: Live) {
        self.tell(ConnectionEvent::Resynced {
            kind: live.resync,
            rows: live.rows,
        });
        live.reached.tell();
    }

    fn tell(&self, event: ConnectionEvent) {
        // It is no error when nobody listens.
        let _ = self.events.send(event);
    }

    /// Serves handles until the last is gone.
    pub(super) async fn run(
        mut self,
        mut connection: Connection,
        mut requests: Requests,
        shared: Arc<Shared>,
    ) {
        let database = self.config.database.clone();
        loop {
            let span = tracing::info_span!("session", remote = %connection.remote, database);
            let served = self
                .serve(connection, &mut requests, &shared)
                .instrument(span)
                .await;
            let Err(lost) = served else { return };
            let transactions = &mut requests.transactions;
            let Some((next, live)) = self.reconnect(lost, transactions).await else {
                return;
            };
            connection = next;
            self.publish(&shared);
            self.announce(&connection, live);
            self.settle(&connection);
        }
    }

    /// Tells what became of transactions of former connections, now that the guard row is held by this one.
    fn settle(&mut self, connection: &Connection) {
        let Some(guard) = &connection.guard else {
            return;
        };
        for Unsettled {
            mark,
            outcome,
            lost,
        } in self.unsettled.drain(..)
        {
            // The rows that it has inserted have the UUIDs that their placeholders are.
            let _ = outcome.send(if guard.was_made(&mark) {
                CommitOutcome::Committed(Committed::default())
            } else {
                CommitOutcome::NotSent(NotSent { lost: Some(lost) })
            });
        }
    }

    /// Serves handles until the connection is lost; `Ok` when the last handle is gone.
    async fn serve(
        &mut self,
        mut connection: Connection,
        requests: &mut Requests,
        shared: &Shared,
    ) -> Result<(), (Arc<Lost>, Duration)> {
        let mut pending = BTreeMap::new();
        let Err(error) = self
            .serve_until_error(&mut connection, &mut pending, requests, shared)
            .await
        else {
            return Ok(());
        };
        let session = self.progress.borrow().session;
        self.progress.send_modify(|progress| progress.live = false);
        let lived = connection.live_since.elapsed();
        let sent = connection.session.total_sent();
        if matches!(error, SessionError::NotLeader) {
            let remote = connection.remote.clone();
            self.tell(ConnectionEvent::LeaderLost { remote });
        }
        self.turn_to_the_remote_after(&connection.remote);
        let lost = Arc::new(Lost {
            remote: connection.remote,
            error,
        });
        self.known.locks.disconnected(&lost);
        self.tell(ConnectionEvent::Disconnected(lost.clone()));
        tracing::warn!(error = %lost, pending = pending.len(), "connection lost");
        for Pending {
            outcome, end, mark, ..
        } in pending.into_values()
        {
            let lost = lost.clone();
            let known = match mark {
                // What the server cannot have read to its end, it cannot have executed.
                _ if end > sent => CommitOutcome::NotSent(NotSent { lost: Some(lost) }),
                Some(mark) => {
                    self.unsettled.push(Unsettled {
                        mark,
                        outcome,
                        lost,
                    });
                    continue;
                }
                None => CommitOutcome::Unknown(Unknown {
                    lost: Some(lost),
                    session,
                }),
            };
            // Who does not wait any more need not know.
            let _ = outcome.send(known);
        }
        Err((lost, lived))
    }

    async fn serve_until_error(
        &mut self,
        connection: &mut Connection,
        pending: &mut BTreeMap<i64, Pending>,
        requests: &mut Requests,
        shared: &Shared,
    ) -> Result<(), SessionError> {
        loop {
            let mut changed = false;
            while let Some(event) = connection.session.next_event(&mut self.known)? {
                match event {
                    Event::Changed => changed = true,
                    Event::Live(live) => {
                        self.publish(shared);
                        changed = false;
                        self.progress.send_modify(|progress| progress.live = true);
                        self.resynced(live);
                    }
                    Event::SchemaChanged => {
                        tracing::info!("the database's schema has changed");
                        self.progress.send_modify(|progress| progress.live = false);
                        self.tell(ConnectionEvent::SchemaChanged);
                    }
                    Event::Filtered(reached) => {
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        reached.tell();
                    }
                    Event::Fenced => {
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        self.progress.send_modify(|progress| progress.fenced = true);
                    }
                    Event::Lock { name, notice } => {
                        // Whoever waits for the lock must find what its former owner has done in the snapshot.
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        self.known.locks.notified(&name, notice);
                    }
                    Event::Answer { request, reply } => {
                        // Whoever waits for the answer must find its changes in the snapshot.
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        let unasked = SessionError::Unexpected {
                            method: "reply",
                            problem: "nobody asked for it",
                        };
                        let Entry::Occupied(entry) = pending.entry(request) else {
                            if self.known.locks.answered(request, &reply)? {
                                continue;
                            }
                            return Err(unasked);
                        };
                        // An answer that makes no sense leaves the outcome unknown.
                        let Pending {
                            transaction, mark, ..
                        } = entry.get();
                        let decoded = answer::decode(transaction, mark.is_some(), &reply)?;
                        let answered = entry.remove();
                        if let Some((guard, mark)) = connection.guard.as_mut().zip(answered.mark) {
                            guard.settle(mark);
                        }
                        let _ = answered.outcome.send(match decoded {
                            Ok(committed) => CommitOutcome::Committed(committed),
                            Err(error) => CommitOutcome::Rejected(error),
                        });
                    }
                }
            }
            if changed {
                self.publish(shared);
            }
            if let Some(Event::Filtered(reached)) =
                connection.session.change_filters(&mut self.known)
            {
                reached.tell();
            }
            if connection.session.is_live() {
                connection.session.ask_for_locks(&self.known.locks);
            }
            let may_take = connection.session.is_live()
                && pending.len() < WINDOW
                && connection.session.unsent() < UNSENT;
            tokio::select! {
                moved = connection.advance() => moved?,
                // Without a sender the last handle is gone, which the other branch notices.
                () = self.known.locks.news() => {}
                Some(change) = requests.filters.recv() => self.known.filters.change(change),
                command = requests.transactions.recv(), if may_take => {
                    let Some(Command { mut request, transaction, tenure, outcome }) = command else { return Ok(()) };
                    if let Some(tenure) = tenure.filter(Tenure::is_over) {
                        let assert = transaction.operations().len() - 1;
                        let error = answer::rejected(&transaction, assert, tenure.not_owner());
                        let _ = outcome.send(CommitOutcome::Rejected(error));
                        continue;
                    }
                    let mark = connection.guard.as_mut().map(|guard| guard.guard(&mut request));
                    let (id, end) = connection.session.transact(request);
                    pending.insert(id, Pending { transaction, outcome, end, mark });
                }
            }
        }
    }

    /// Connects again, however long it takes; none when the last handle is gone.
    async fn reconnect(
        &mut self,
        (mut lost, lived): (Arc<Lost>, Duration),
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<(Connection, Live)> {
        let mut delay = if lost.error.is_about_leadership() {
            // There was nothing wrong with the connection: another server is there already, or soon.
            Duration::ZERO
        } else {
            with_jitter(self.backoff.after_connection(lived))
        };
        loop {
            refuse_while(sleep(delay), &lost, commands).await?;
            match refuse_while(self.connect(), &lost, commands).await? {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    let electing = |lost: &Arc<Lost>| lost.error.is_about_leadership();
                    delay = with_jitter(if error.attempts.iter().any(electing) {
                        self.backoff.after_no_leader()
                    } else {
                        self.backoff.after_failure()
                    });
                    tracing::warn!(%error, retry_in = ?delay, "no connection");
                    self.tell(ConnectionEvent::Waiting(delay));
                    if let Some(last) = error.attempts.into_iter().last() {
                        lost = last;
                    }
                }
            }
        }
    }

    /// The remote that was lost is tried last.
    fn turn_to_the_remote_after(&mut self, lost: &Remote) {
        if let Some(place) = self.remotes.iter().position(|remote| remote == lost) {
            self.remotes.rotate_left(place + 1);
        }
    }

    fn publish(&mut self, shared: &Shared) {
        if let (Some(replica), Shared::Replica(published)) = (&mut self.known.replica, shared) {
            let news = replica.take_news();
            let snapshot = replica.snapshot().clone();
            published.followers.tell(&news, &snapshot, || {
                published.snapshot.store(Arc::new(snapshot.clone()));
            });
            self.progress.send_modify(|progress| progress.changes += 1);
        }
    }
}

/// Waits for `work` while no transaction can be sent; none when the last handle is gone.
async fn refuse_while<T>(
    work: impl Future<Output = T>,
    lost: &Arc<Lost>,
    commands: &mut mpsc::Receiver<Command>,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            command = commands.recv() => {
                let Command { outcome, .. } = command?;
                let _ = outcome.send(CommitOutcome::NotSent(NotSent { lost: Some(lost.clone()) }));
            }
        }
    }
}
