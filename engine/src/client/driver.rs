//! The task behind a client.
//!
//! There is one for each client. It owns the socket and the replica, connects anew when the connection is lost, and
//! ends when the last handle is gone; dropping it closes the connection. Handles send it transactions through a
//! bounded channel; it publishes snapshots for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::sleep;
use tracing::Instrument;
use uuid::Uuid;

use crate::db::Snapshot;

use super::backoff::{Backoff, with_jitter};
use super::condition::FilterChange;
use super::config::Config;
use super::connection::Connection;
use super::connection_events::{ConnectionEvent, EVENTS};
use super::error::{ConnectError, Lost, SessionError, unexpected};
use super::known::Known;
use super::lock::Locks;
use super::metrics::Metrics;
use super::outcome::{CommitOutcome, NotSent};
use super::pipeline::{Answered, Command, Pipeline, Unsettled};
use super::published::{Ending, Progress, Shared};
use super::remote::Remote;
use super::session::{Event, Live};
use super::subscription::News;

pub(super) struct Driver {
    config: Arc<Config>,
    /// The name of the lock of this client's connections.
    lock: Arc<str>,
    backoff: Backoff,
    known: Known,
    /// Until the guard row has been read.
    unsettled: Vec<Unsettled>,
    /// Until the replica shows them, in the order in which they were answered.
    held: Vec<Answered>,
    /// In the order in which they are tried.
    remotes: Vec<Remote>,
    progress: watch::Sender<Progress>,
    events: broadcast::Sender<ConnectionEvent>,
    metrics: Arc<Metrics>,
}

/// What handles ask for.
pub(super) struct Requests {
    pub(super) transactions: mpsc::Receiver<Command>,
    pub(super) filters: mpsc::Receiver<FilterChange>,
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
            held: Vec::new(),
            remotes,
            progress: watch::Sender::default(),
            events: broadcast::Sender::new(EVENTS),
            metrics: Arc::new(Metrics::new(&config.database)),
            config,
        }
    }

    /// Tries each remote once.
    pub(super) async fn connect(&mut self) -> Result<(Connection, Live), ConnectError> {
        let mut attempts = Vec::new();
        let config = self.config.clone();
        for remote in &self.remotes {
            let metrics = &self.metrics;
            let known = &mut self.known;
            match Connection::establish(&config, remote, &self.lock, known, metrics).await {
                Ok((connection, live)) => {
                    tracing::info!(%remote, database = config.database, resync = ?live.resync,
                        "the replica follows the database");
                    return Ok((connection, live));
                }
                Err(lost) => {
                    tracing::debug!(error = %lost, "no connection");
                    self.metrics.connection_failed();
                    if let Some(replica) = &mut self.known.replica {
                        replica.condense_news();
                    }
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

    /// The state of the replica, once there has been a connection. Nobody has been told anything yet: what comes follows
    /// from here.
    pub(super) fn first_snapshot(&mut self) -> Option<Snapshot> {
        let replica = self.known.replica.as_mut()?;
        replica.take_news();
        Some(replica.snapshot().clone())
    }

    pub(super) fn locks(&self) -> Arc<Locks> {
        self.known.locks.clone()
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// What tells handles of the end of the task.
    pub(super) fn ending(&self, shared: Arc<Shared>) -> Ending {
        Ending::new(shared, self.progress.clone())
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
        self.metrics.connected(self.progress.borrow().session > 0);
        self.progress.send_modify(|progress| {
            progress.session += 1;
            progress.live = true;
            progress.fenced = connection.session.is_fenced();
        });
        self.resynced(live);
    }

    /// Tells handles how the replica was brought up to date.
    fn resynced(&self, live: Live) {
        self.metrics.resynced(live.resync, live.rows);
        if let Some(replica) = &self.known.replica {
            self.metrics.holds(replica.snapshot().row_count());
        }
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
        ending: Ending,
    ) {
        let shared = ending.shared();
        let database = self.config.database.clone();
        loop {
            let span = tracing::info_span!("session", remote = %connection.remote, database);
            let served = self
                .serve(connection, &mut requests, shared)
                .instrument(span)
                .await;
            let Err(lost) = served else { return };
            let transactions = &mut requests.transactions;
            let Some((next, live)) = self.reconnect(lost, transactions).await else {
                return;
            };
            connection = next;
            self.publish(shared);
            self.announce(&connection, live);
            for held in self.held.drain(..) {
                held.tell_committed(&self.metrics);
            }
            self.settle(&connection);
        }
    }

    /// Tells what became of transactions of former connections, now that the guard row is held by this one.
    fn settle(&mut self, connection: &Connection) {
        let Some(guard) = &connection.guard else {
            return;
        };
        for unsettled in self.unsettled.drain(..) {
            unsettled.settle(guard, &self.metrics);
        }
    }

    /// Serves handles until the connection is lost; `Ok` when the last handle is gone.
    async fn serve(
        &mut self,
        mut connection: Connection,
        requests: &mut Requests,
        shared: &Shared,
    ) -> Result<(), (Arc<Lost>, Duration)> {
        let metrics = self.metrics.clone();
        let config = self.config.clone();
        let mut pipeline = Pipeline::new(&config, &metrics);
        let Err(error) = self
            .serve_until_error(&mut connection, &mut pipeline, requests, shared)
            .await
        else {
            return Ok(());
        };
        let session = self.progress.borrow().session;
        self.progress.send_modify(|progress| progress.live = false);
        let lived = connection.live_since.elapsed();
        let sent = connection.session.sent_up_to();
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
        metrics.disconnected();
        tracing::warn!(error = %lost, pending = pipeline.under_way(), "connection lost");
        let (unsettled, held) = pipeline.lost(sent, session, &lost);
        self.unsettled.extend(unsettled);
        self.held.extend(held);
        Err((lost, lived))
    }

    async fn serve_until_error(
        &mut self,
        connection: &mut Connection,
        pipeline: &mut Pipeline<'_>,
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
                        pipeline.tell_held(connection.guard.as_mut());
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
                        if let Some(answered) = pipeline.answered(request, &reply)? {
                            self.answered(answered, connection, pipeline, shared);
                        } else if !self.known.locks.answered(request, &reply)? {
                            return Err(unexpected("reply", "nobody asked for it"));
                        }
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
            connection.session.ask_for_locks(&self.known.locks);
            pipeline.send_waiting(&mut connection.session, connection.guard.as_mut());
            let may_take = pipeline.may_take(&connection.session);
            tokio::select! {
                moved = connection.advance() => moved?,
                () = self.known.locks.news() => {}
                change = requests.filters.recv() => match change {
                    Some(change) => self.known.filters.change(change),
                    // The last handle is gone, and with it all who wait for transactions.
                    None => return Ok(()),
                },
                command = requests.transactions.recv(), if may_take => {
                    let Some(command) = command else { return Ok(()) };
                    let Connection { session, guard, .. } = &mut *connection;
                    let (queue, known) = (&mut requests.transactions, &mut self.known);
                    pipeline.send(command, queue, session, guard.as_mut(), known);
                    if session.is_in_bulk() {
                        self.progress.send_modify(|progress| progress.live = false);
                    }
                }
            }
        }
    }

    /// A request with transactions was answered: who waits for the answer is told, once the replica shows it.
    fn answered(
        &mut self,
        mut answered: Answered,
        connection: &mut Connection,
        pipeline: &mut Pipeline<'_>,
        shared: &Shared,
    ) {
        if let Some(asked) = connection.session.end_bulk() {
            let replica = self.known.replica.as_mut();
            let shown = replica.zip(answered.committed()).is_some_and(
                |(replica, (transaction, committed))| {
                    replica.expect(transaction, committed, &asked)
                },
            );
            if !shown {
                return pipeline.hold(answered);
            }
            self.publish(shared);
        } else if !connection.session.is_live() {
            // The server has stopped to report changes, among them those of this transaction or what it was refused for.
            return pipeline.hold(answered);
        }
        pipeline.tell(answered, connection.guard.as_mut());
    }

    /// Connects again, however long it takes; none when the last handle is gone.
    async fn reconnect(
        &mut self,
        (mut lost, lived): (Arc<Lost>, Duration),
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<(Connection, Live)> {
        let metrics = self.metrics.clone();
        let mut delay = if lost.error.is_about_leadership() {
            // There was nothing wrong with the connection: another server is there already, or soon.
            with_jitter(self.backoff.after_leader(lived))
        } else {
            with_jitter(self.backoff.after_connection(lived))
        };
        loop {
            refuse_while(sleep(delay), &lost, commands, &metrics).await?;
            match refuse_while(self.connect(), &lost, commands, &metrics).await? {
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
            for news in &news {
                if let News::Committed(changes) = news {
                    self.metrics.changed(changes.rows.len());
                }
            }
            self.metrics.holds(replica.snapshot().row_count());
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
    metrics: &Metrics,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            command = commands.recv() => {
                let not_sent = NotSent { lost: Some(lost.clone()) };
                command?.job.tell(CommitOutcome::NotSent(not_sent), metrics);
            }
        }
    }
}
