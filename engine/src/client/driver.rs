//! The task behind a client.
//!
//! It owns the connection and the replica, reconnects after a lost connection, and ends when the
//! last handle is dropped. Dropping the task closes the connection. Handles send it transactions
//! through a bounded channel; it publishes snapshots for them.

mod connecting;

use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom;
use tokio::sync::{broadcast, mpsc, watch};
use tracing::Instrument;
use uuid::Uuid;

use crate::db::Snapshot;

use super::config::Config;
use super::connection::Connection;
use super::connection_events::{ConnectionEvent, EVENT_CHANNEL_DEPTH};
use super::error::{ConnectionFailure, SessionError, unexpected};
use super::filter::FilterChange;
use super::forwarding::{ForwardedRequest, ForwardedRequests};
use super::lock::LockRequests;
use super::metrics::Metrics;
use super::pending::{AnsweredRequest, QueuedTransaction, UnansweredRequest};
use super::pipeline::Pipeline;
use super::progress::ReplicaProgress;
use super::published::{ClosedOnDrop, SnapshotSource};
use super::reconnect::ReconnectDelay;
use super::remote::Remote;
use super::retained_state::RetainedState;
use super::session::{ReplicaReady, SessionEvent};
use super::subscription::ReplicaEvent;

pub(super) struct Driver {
    config: Arc<Config>,
    /// Name of the lock behind the [`Fence`](super::fence::Fence).
    fence_lock: Arc<str>,
    reconnect_delay: ReconnectDelay,
    retained: RetainedState,
    /// Requests whose outcome the guard row of the next connection shows.
    unanswered: Vec<UnansweredRequest>,
    /// Committed requests of a lost connection, in the order of their replies. They are delivered
    /// when the replica shows them.
    committed: Vec<AnsweredRequest>,
    /// In the order of the next attempts.
    remotes: Vec<Remote>,
    progress: watch::Sender<ReplicaProgress>,
    events: broadcast::Sender<ConnectionEvent>,
    metrics: Arc<Metrics>,
}

/// The receiving ends of what handles send.
pub(super) struct HandleRequests {
    pub(super) transactions: mpsc::Receiver<QueuedTransaction>,
    pub(super) filters: mpsc::Receiver<FilterChange>,
    pub(super) forwarded: mpsc::UnboundedReceiver<ForwardedRequest>,
    /// `None`: the interval is that of the configuration.
    pub(super) probe_interval: watch::Receiver<Option<ProbeInterval>>,
}

/// Probe interval of all connections, whatever their remotes. `None`: no probes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeInterval(pub(super) Option<Duration>);

impl Driver {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let (min, max) = config.backoff;
        let mut remotes = config.remotes.as_slice().to_vec();
        if config.shuffle {
            remotes.shuffle(&mut rand::rng());
        }
        Self {
            fence_lock: format!("patchbay_{}", Uuid::new_v4().simple()).into(),
            reconnect_delay: ReconnectDelay::new(min, max),
            retained: RetainedState::new(&config),
            unanswered: Vec::new(),
            committed: Vec::new(),
            remotes,
            progress: watch::Sender::default(),
            events: broadcast::Sender::new(EVENT_CHANNEL_DEPTH),
            metrics: Arc::new(Metrics::new(&config.database)),
            config,
        }
    }

    /// Snapshot of the replica after the first connection, and the id of the last transaction that
    /// it shows. Discards earlier replica events, because subscriptions begin at this snapshot.
    pub(super) fn first_snapshot(&mut self) -> Option<(Snapshot, Option<Uuid>)> {
        let replica = self.retained.replica.as_mut()?;
        replica.take_events();
        Some((replica.snapshot().clone(), replica.last_transaction()))
    }

    pub(super) fn locks(&self) -> Arc<LockRequests> {
        self.retained.locks.clone()
    }

    pub(super) fn progress(&self) -> watch::Receiver<ReplicaProgress> {
        self.progress.subscribe()
    }

    /// The guard that closes the client for its handles when the task ends.
    pub(super) fn closed_on_drop(&self, shared: Arc<SnapshotSource>) -> ClosedOnDrop {
        ClosedOnDrop::new(shared, self.progress.clone())
    }

    pub(super) fn events(&self) -> broadcast::WeakSender<ConnectionEvent> {
        self.events.downgrade()
    }

    /// Publishes that a connection is established and the replica is live.
    pub(super) fn announce(&self, connection: &Connection, live: ReplicaReady) {
        self.emit(ConnectionEvent::Connected {
            remote: connection.remote.clone(),
            status: connection.session.status().cloned(),
        });
        self.metrics.record_connection(self.progress.borrow().session > 0);
        self.progress.send_modify(|progress| {
            progress.session += 1;
            progress.live = true;
            progress.fenced = connection.session.is_fenced();
        });
        self.publish_resync(live);
    }

    /// Publishes how the replica was brought up to date.
    fn publish_resync(&self, live: ReplicaReady) {
        self.metrics.record_resync(live.resync, live.rows);
        if let Some(replica) = &self.retained.replica {
            self.metrics.set_row_count(replica.snapshot().row_count());
        }
        self.emit(ConnectionEvent::Resynced { kind: live.resync, rows: live.rows });
        live.applied_filters.notify();
    }

    fn emit(&self, event: ConnectionEvent) {
        // Sending fails only when there is no receiver.
        let _ = self.events.send(event);
    }

    /// Serves handles until the last one is dropped.
    pub(super) async fn run(
        mut self,
        mut connection: Connection,
        mut requests: HandleRequests,
        ending: ClosedOnDrop,
    ) {
        let shared = ending.shared();
        let database = self.config.database.clone();
        loop {
            let span = tracing::info_span!("session", remote = %connection.remote, database);
            let served = self.serve(connection, &mut requests, shared).instrument(span).await;
            let Err(lost) = served else { return };
            let Some((next, live)) = self.reconnect(lost, &mut requests).await else {
                return;
            };
            connection = next;
            self.publish(shared);
            self.announce(&connection, live);
            for answered in self.committed.drain(..) {
                answered.deliver_committed(&self.metrics);
            }
            self.resolve_unanswered(&connection);
        }
    }

    /// Delivers the outcomes of requests of earlier connections, which the guard row shows.
    fn resolve_unanswered(&mut self, connection: &Connection) {
        let Some(guard) = &connection.guard else {
            return;
        };
        for request in self.unanswered.drain(..) {
            request.resolve(guard, &self.metrics);
        }
    }

    /// Serves handles until the connection is lost. `Ok`: the last handle was dropped.
    async fn serve(
        &mut self,
        mut connection: Connection,
        requests: &mut HandleRequests,
        shared: &SnapshotSource,
    ) -> Result<(), (Arc<ConnectionFailure>, Duration)> {
        let metrics = self.metrics.clone();
        let config = self.config.clone();
        let mut pipeline = Pipeline::new(&config, &metrics);
        let mut forwarded = ForwardedRequests::default();
        let Err(error) = self
            .serve_until_error(&mut connection, (&mut pipeline, &mut forwarded), requests, shared)
            .await
        else {
            return Ok(());
        };
        let session = self.progress.borrow().session;
        self.progress.send_modify(|progress| progress.live = false);
        drop(forwarded);
        let lived = connection.live_since.elapsed();
        let sent = connection.session.sent_position();
        if matches!(error, SessionError::NotLeader) {
            let remote = connection.remote.clone();
            self.emit(ConnectionEvent::LeaderLost { remote });
        }
        self.rotate_remotes_after(&connection.remote);
        let failure = Arc::new(ConnectionFailure { remote: connection.remote, error });
        self.retained.locks.handle_disconnect(&failure);
        self.emit(ConnectionEvent::Disconnected(failure.clone()));
        metrics.record_disconnect();
        let unanswered = pipeline.unanswered_requests();
        tracing::warn!(error = %failure, unanswered, "connection lost");
        let (unanswered, committed) = pipeline.handle_disconnect(sent, session, &failure);
        self.unanswered.extend(unanswered);
        self.committed.extend(committed);
        Err((failure, lived))
    }

    async fn serve_until_error(
        &mut self,
        connection: &mut Connection,
        (pipeline, forwarded): (&mut Pipeline<'_>, &mut ForwardedRequests),
        requests: &mut HandleRequests,
        shared: &SnapshotSource,
    ) -> Result<(), SessionError> {
        let mut probe_interval = requests.probe_interval.clone();
        probe_interval.mark_changed();
        loop {
            if probe_interval.has_changed().unwrap_or(false)
                && let Some(ProbeInterval(interval)) = *probe_interval.borrow_and_update()
            {
                connection.session.set_probe_interval(interval);
            }
            let mut changed = false;
            while let Some(event) = connection.session.next_event(&mut self.retained)? {
                match event {
                    SessionEvent::ReplicaChanged => changed = true,
                    SessionEvent::ReplicaReady(live) => {
                        self.publish(shared);
                        changed = false;
                        self.progress.send_modify(|progress| progress.live = true);
                        self.publish_resync(live);
                        pipeline.deliver_held_back(connection.guard.as_mut());
                    }
                    SessionEvent::SchemaChanged => {
                        tracing::info!("the database schema has changed");
                        self.progress.send_modify(|progress| progress.live = false);
                        self.emit(ConnectionEvent::SchemaChanged);
                    }
                    SessionEvent::FiltersApplied(filters) => {
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        filters.notify();
                    }
                    SessionEvent::Fenced => {
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        self.progress.send_modify(|progress| progress.fenced = true);
                    }
                    SessionEvent::Lock { name, notification } => {
                        // The snapshot must show the transactions of former owners before the lock
                        // counts as held.
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        self.retained.locks.handle_notification(&name, notification);
                    }
                    SessionEvent::Answer { request, reply } => {
                        // The snapshot must show the changes of a transaction before its outcome is
                        // delivered.
                        if std::mem::take(&mut changed) {
                            self.publish(shared);
                        }
                        if let Some(answered) = pipeline.decode_reply(request, &reply)? {
                            self.handle_answer(answered, connection, pipeline, shared);
                        } else if !forwarded.handle_reply(request, &reply)?
                            && !self.retained.locks.handle_reply(request, &reply)?
                        {
                            return Err(unexpected("reply", "its id belongs to no request"));
                        }
                    }
                }
            }
            if changed {
                self.publish(shared);
            }
            if let Some(SessionEvent::FiltersApplied(filters)) =
                connection.session.send_filter_change(&mut self.retained)
            {
                filters.notify();
            }
            connection.session.send_lock_requests(&self.retained.locks);
            pipeline.send_deferred(&mut connection.session, connection.guard.as_mut());
            let can_take = pipeline.can_take(&connection.session);
            let can_forward = ForwardedRequests::can_take(&connection.session);
            tokio::select! {
                moved = connection.advance() => moved?,
                () = self.retained.locks.wait_for_requests() => {}
                // Fails when the last handle was dropped, which `filters` reports.
                Ok(()) = probe_interval.changed() => probe_interval.mark_changed(),
                change = requests.filters.recv() => match change {
                    Some(change) => self.retained.filters.request_change(change),
                    // The last handle was dropped, and with it all callers of `transact`.
                    None => return Ok(()),
                },
                request = requests.forwarded.recv(), if can_forward => match request {
                    Some(request) => forwarded.send(request, &mut connection.session),
                    None => return Ok(()),
                },
                command = requests.transactions.recv(), if can_take => {
                    let Some(command) = command else { return Ok(()) };
                    let Connection { session, guard, .. } = &mut *connection;
                    let (queue, retained) = (&mut requests.transactions, &mut self.retained);
                    pipeline.send(command, queue, session, guard.as_mut(), retained);
                    if session.is_monitor_suspended() {
                        self.progress.send_modify(|progress| progress.live = false);
                    }
                }
            }
        }
    }

    /// Delivers the outcome of a request, once the replica shows it.
    fn handle_answer(
        &mut self,
        mut answered: AnsweredRequest,
        connection: &mut Connection,
        pipeline: &mut Pipeline<'_>,
        shared: &SnapshotSource,
    ) {
        if let Some(monitored) = connection.session.resume_monitor() {
            let replica = self.retained.replica.as_mut();
            let is_shown = replica.zip(answered.single_commit()).is_some_and(
                |(replica, (transaction, committed))| {
                    replica.apply_own_transaction(transaction, committed, &monitored)
                },
            );
            if !is_shown {
                return pipeline.hold_back(answered);
            }
            self.publish(shared);
        } else if !connection.session.is_live() {
            // The monitor has ended. Its successor will show the changes of this request, or the
            // state for which it was rejected.
            return pipeline.hold_back(answered);
        }
        pipeline.deliver(answered, connection.guard.as_mut());
    }

    fn publish(&mut self, shared: &SnapshotSource) {
        if let (Some(replica), SnapshotSource::Replica(published)) =
            (&mut self.retained.replica, shared)
        {
            let events = replica.take_events();
            for event in &events {
                if let ReplicaEvent::Committed(changes, _) = event {
                    self.metrics.record_changed_rows(changes.rows.len());
                }
            }
            self.metrics.set_row_count(replica.snapshot().row_count());
            let snapshot = replica.snapshot().clone();
            let last = replica.last_transaction();
            published.subscribers.publish(&events, &snapshot, last, || {
                published.snapshot.store(Arc::new(snapshot.clone()));
            });
            self.progress.send_modify(|progress| progress.changes += 1);
        }
    }
}
