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
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::Instrument;
use uuid::Uuid;

use crate::db::Snapshot;
use crate::txn::Transaction;

use super::answer;
use super::backoff::Backoff;
use super::config::Config;
use super::connection::Connection;
use super::embedded::EmbeddedDatabase;
use super::error::{ConnectError, Lost, SessionError};
use super::outcome::{CommitOutcome, NotSent, Unknown};
use super::replica::Replica;
use super::session::Event;
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
    /// None until the first connection.
    replica: Option<Replica>,
    progress: watch::Sender<Progress>,
}

/// A transaction that was handed to the connection.
struct Pending {
    transaction: Transaction,
    outcome: oneshot::Sender<CommitOutcome>,
    /// Its request goes up to here in the stream of sent bytes.
    end: u64,
}

impl Driver {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let (min, max) = config.backoff;
        Self {
            config,
            lock: format!("patchbay_{}", Uuid::new_v4().simple()).into(),
            backoff: Backoff::new(min, max),
            replica: None,
            progress: watch::Sender::default(),
        }
    }

    /// Tries each remote once.
    pub(super) async fn connect(&mut self) -> Result<Connection, ConnectError> {
        let mut attempts = Vec::new();
        let config = self.config.clone();
        for remote in config.remotes.as_slice() {
            let limit = self.backoff.attempt_limit();
            match Connection::establish(&config, remote, &self.lock, limit, &mut self.replica).await
            {
                Ok(connection) => {
                    tracing::info!(%remote, database = config.database, "the replica follows the database");
                    return Ok(connection);
                }
                Err(lost) => {
                    tracing::debug!(error = %lost, "no connection");
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
        self.replica
            .as_ref()
            .map(|replica| replica.snapshot().clone())
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Tells handles that the replica follows the database again.
    pub(super) fn announce(&self, connection: &Connection) {
        self.progress.send_modify(|progress| {
            progress.session += 1;
            progress.live = true;
            progress.fenced = connection.session.is_fenced();
        });
    }

    /// Serves handles until the last is gone.
    pub(super) async fn run(
        mut self,
        mut connection: Connection,
        mut commands: mpsc::Receiver<Command>,
        shared: Arc<Shared>,
    ) {
        let database = self.config.database.clone();
        loop {
            let span = tracing::info_span!("session", remote = %connection.remote, database);
            let served = self
                .serve(connection, &mut commands, &shared)
                .instrument(span)
                .await;
            let Err(lost) = served else { return };
            connection = match self.reconnect(lost, &mut commands).await {
                Some(connection) => connection,
                None => return,
            };
            self.publish(&shared);
            self.announce(&connection);
        }
    }

    /// Serves handles until the connection is lost; `Ok` when the last handle is gone.
    async fn serve(
        &mut self,
        mut connection: Connection,
        commands: &mut mpsc::Receiver<Command>,
        shared: &Shared,
    ) -> Result<(), (Arc<Lost>, Duration)> {
        let mut pending = BTreeMap::new();
        let Err(error) = self
            .serve_until_error(&mut connection, &mut pending, commands, shared)
            .await
        else {
            return Ok(());
        };
        let session = self.progress.borrow().session;
        self.progress.send_modify(|progress| progress.live = false);
        let lived = connection.live_since.elapsed();
        let sent = connection.session.total_sent();
        let lost = Arc::new(Lost {
            remote: connection.remote,
            error,
        });
        tracing::warn!(error = %lost, pending = pending.len(), "connection lost");
        for Pending { outcome, end, .. } in pending.into_values() {
            // What the server cannot have read to its end, it cannot have executed.
            let lost = lost.clone();
            let _ = outcome.send(if end > sent {
                CommitOutcome::NotSent(NotSent { lost: Some(lost) })
            } else {
                CommitOutcome::Unknown(Unknown {
                    lost: Some(lost),
                    session,
                })
            });
        }
        Err((lost, lived))
    }

    async fn serve_until_error(
        &mut self,
        connection: &mut Connection,
        pending: &mut BTreeMap<i64, Pending>,
        commands: &mut mpsc::Receiver<Command>,
        shared: &Shared,
    ) -> Result<(), SessionError> {
        loop {
            let mut changed = false;
            while let Some(event) = connection.session.next_event(&mut self.replica)? {
                match event {
                    Event::Live | Event::Changed => changed = true,
                    Event::Fenced => {
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        self.progress.send_modify(|progress| progress.fenced = true);
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
                            return Err(unasked);
                        };
                        // An answer that makes no sense leaves the outcome unknown.
                        let decoded = answer::decode(&entry.get().transaction, &reply)?;
                        let _ = entry.remove().outcome.send(match decoded {
                            Ok(committed) => CommitOutcome::Committed(committed),
                            Err(error) => CommitOutcome::Rejected(error),
                        });
                    }
                }
            }
            if changed {
                self.publish(shared);
            }
            let may_take = pending.len() < WINDOW && connection.session.unsent() < UNSENT;
            tokio::select! {
                moved = connection.advance() => moved?,
                command = commands.recv(), if may_take => {
                    let Some(Command { request, transaction, outcome }) = command else { return Ok(()) };
                    let (id, end) = connection.session.transact(request);
                    pending.insert(id, Pending { transaction, outcome, end });
                }
            }
        }
    }

    /// Connects again, however long it takes; none when the last handle is gone.
    async fn reconnect(
        &mut self,
        (mut lost, lived): (Arc<Lost>, Duration),
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<Connection> {
        let mut delay = self.backoff.after_connection(lived);
        loop {
            refuse_while(sleep(delay), &lost, commands).await?;
            match refuse_while(self.connect(), &lost, commands).await? {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    delay = self.backoff.after_failure();
                    tracing::warn!(%error, retry_in = ?delay, "no connection");
                    if let Some(last) = error.attempts.into_iter().last() {
                        lost = Arc::new(last);
                    }
                }
            }
        }
    }

    fn publish(&mut self, shared: &Shared) {
        if let (Some(replica), Shared::Replica(published)) = (&mut self.replica, shared) {
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
