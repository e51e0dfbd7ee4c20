//! Connection attempts: rounds over the remotes, and the delays between them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{Driver, HandleRequests};
use crate::backoff::with_jitter;
use crate::client::connection::Connection;
use crate::client::connection_events::ConnectionEvent;
use crate::client::error::{ConnectError, ConnectionFailure, SessionError};
use crate::client::metrics::Metrics;
use crate::client::outcome::{CommitOutcome, NotSent};
use crate::client::remote::Remote;
use crate::client::session::ReplicaReady;

impl Driver {
    /// Tries the remotes in rounds until one can be used, for at most `limit`. Ends at once if no
    /// later round can succeed. Calls `waiting` after each other round, with the delay to the next.
    pub(in crate::client) async fn connect_within(
        &mut self,
        limit: Duration,
        mut waiting: impl FnMut(&ConnectError, Duration),
    ) -> Result<(Connection, ReplicaReady), ConnectError> {
        let deadline = Instant::now() + limit;
        loop {
            let error = match self.connect_until(Some(deadline)).await {
                Ok(connected) => return Ok(connected),
                Err(error) => error,
            };
            if !error.attempts.iter().any(|one| one.error.is_transient()) {
                return Err(error);
            }
            let delay = self.delay_after_round(&error);
            if Instant::now() < deadline {
                waiting(&error, delay);
                sleep_until(deadline.min(Instant::now() + delay)).await;
            }
            if Instant::now() >= deadline {
                return Err(ConnectError { within: Some(limit), ..error });
            }
        }
    }

    /// Tries each remote once.
    pub(in crate::client) async fn connect(
        &mut self,
    ) -> Result<(Connection, ReplicaReady), ConnectError> {
        self.connect_until(None).await
    }

    /// Tries each remote once. At the deadline the attempt in progress fails, and is the last one.
    async fn connect_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(Connection, ReplicaReady), ConnectError> {
        let mut attempts = Vec::new();
        let config = self.config.clone();
        for remote in &self.remotes {
            if !attempts.is_empty() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let metrics = &self.metrics;
            let retained = &mut self.retained;
            let attempt =
                Connection::establish(&config, remote, &self.fence_lock, retained, metrics);
            let done = match deadline {
                None => attempt.await,
                Some(deadline) => match timeout_at(deadline, attempt).await {
                    Ok(done) => done,
                    Err(_) => Err(ConnectionFailure {
                        remote: remote.clone(),
                        error: SessionError::TimeLimit,
                    }),
                },
            };
            match done {
                Ok((connection, live)) => {
                    tracing::info!(%remote, database = config.database, resync = ?live.resync,
                        "connected; the replica is live");
                    return Ok((connection, live));
                }
                Err(failure) => {
                    tracing::debug!(error = %failure, "connection attempt failed");
                    self.metrics.record_failed_connection();
                    if let Some(replica) = &mut self.retained.replica {
                        replica.condense_events();
                    }
                    let failure = Arc::new(failure);
                    self.emit(ConnectionEvent::Failed(failure.clone()));
                    attempts.push(failure);
                }
            }
        }
        Err(ConnectError { database: config.database.clone(), within: None, attempts })
    }

    /// Chooses the delay after a round in which no remote could be used.
    fn delay_after_round(&mut self, error: &ConnectError) -> Duration {
        let electing = |failure: &Arc<ConnectionFailure>| failure.error.is_about_leadership();
        with_jitter(if error.attempts.iter().any(electing) {
            self.reconnect_delay.after_no_leader()
        } else {
            self.reconnect_delay.after_failure()
        })
    }

    /// Reconnects, without a limit on attempts. `None`: the last handle was dropped.
    pub(super) async fn reconnect(
        &mut self,
        (mut failure, lived): (Arc<ConnectionFailure>, Duration),
        requests: &mut HandleRequests,
    ) -> Option<(Connection, ReplicaReady)> {
        let metrics = self.metrics.clone();
        let mut delay = if failure.error.is_about_leadership() {
            // The connection was sound; another member is the leader, or will be soon.
            with_jitter(self.reconnect_delay.after_leader(lived))
        } else {
            with_jitter(self.reconnect_delay.after_connection(lived))
        };
        loop {
            refuse_requests_while(sleep(delay), &failure, requests, &metrics).await?;
            match refuse_requests_while(self.connect(), &failure, requests, &metrics).await? {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    delay = self.delay_after_round(&error);
                    tracing::warn!(%error, retry_in = ?delay, "no remote can be used");
                    self.emit(ConnectionEvent::Waiting(delay));
                    if let Some(last) = error.attempts.into_iter().last() {
                        failure = last;
                    }
                }
            }
        }
    }

    /// Moves the remote of the lost connection to the end of the list.
    pub(super) fn rotate_remotes_after(&mut self, lost: &Remote) {
        if let Some(place) = self.remotes.iter().position(|remote| remote == lost) {
            self.remotes.rotate_left(place + 1);
        }
    }
}

/// Waits for `work` and answers transactions with [`CommitOutcome::NotSent`] meanwhile, and
/// forwarded requests likewise. `None`: the last handle was dropped.
async fn refuse_requests_while<T>(
    work: impl Future<Output = T>,
    failure: &Arc<ConnectionFailure>,
    requests: &mut HandleRequests,
    metrics: &Metrics,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            request = requests.forwarded.recv() => request?.refuse(),
            queued = requests.transactions.recv() => {
                let not_sent = NotSent { cause: Some(failure.clone()) };
                queued?.pending.resolve(CommitOutcome::NotSent(not_sent), metrics);
            }
        }
    }
}
