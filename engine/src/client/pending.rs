//! Transactions whose callers wait for an outcome, from the queue to the reply.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::Span;

use crate::txn::Transaction;

use super::error::ConnectionFailure;
use super::guard::{ExecutionStatus, HeldGuard, TransactionMark};
use super::lock::Ownership;
use super::metrics::Metrics;
use super::outcome::{CommitOutcome, Committed, NotSent, OpError, UnknownOutcome};
use super::outgoing::{Outgoing, SendPosition};

/// A transaction in the client's queue.
pub(super) struct QueuedTransaction {
    pub(super) request: Outgoing,
    pub(super) pending: PendingTransaction,
}

/// A transaction and the caller that waits for its outcome.
pub(super) struct PendingTransaction {
    pub(super) transaction: Arc<Transaction>,
    /// Ownership of the lock that the transaction's last operation asserts.
    pub(super) ownership: Option<Ownership>,
    pub(super) outcome: oneshot::Sender<CommitOutcome>,
    /// Time at which the transaction was queued.
    pub(super) queued: Instant,
    pub(super) span: Span,
}

/// A `transact` request that was handed to the connection.
pub(super) struct SentRequest {
    pub(super) transactions: Vec<PendingTransaction>,
    /// Position of the request's last byte.
    pub(super) end: SendPosition,
    /// Mark that the request leaves in the guard row when it is executed.
    pub(super) mark: Option<TransactionMark>,
    pub(super) sent: Instant,
}

/// A request with its decoded reply, which its callers have not received yet.
pub(super) struct AnsweredRequest {
    pub(super) request: SentRequest,
    pub(super) outcome: Result<Vec<Committed>, OpError>,
}

/// A request whose connection was lost before the reply. The guard row shows its outcome.
pub(super) struct UnansweredRequest {
    pub(super) mark: TransactionMark,
    pub(super) transactions: Vec<PendingTransaction>,
    pub(super) failure: Arc<ConnectionFailure>,
    /// Number of the lost connection.
    pub(super) session: u64,
}

impl PendingTransaction {
    /// Delivers the outcome to the caller.
    pub(super) fn resolve(self, outcome: CommitOutcome, metrics: &Metrics) {
        metrics.record_outcome(&outcome);
        self.span.record("outcome", outcome.name());
        // The caller may have dropped the future.
        let _ = self.outcome.send(outcome);
    }
}

/// Delivers the results of several transactions that were committed in one request.
pub(super) fn deliver_committed(
    transactions: Vec<PendingTransaction>,
    committed: Vec<Committed>,
    metrics: &Metrics,
) {
    for (pending, committed) in transactions.into_iter().zip(committed) {
        pending.resolve(CommitOutcome::Committed(committed), metrics);
    }
}

impl AnsweredRequest {
    /// The transaction and its results, if the request held one transaction and was committed.
    ///
    /// The caller may take the transaction apart: it is not sent again.
    pub(super) fn single_commit(&mut self) -> Option<(&mut Transaction, &Committed)> {
        match (&mut *self.request.transactions, self.outcome.as_deref()) {
            ([pending], Ok([committed])) => {
                Some((Arc::make_mut(&mut pending.transaction), committed))
            }
            _ => None,
        }
    }

    /// Delivers results that were committed on a connection which was lost afterwards.
    pub(super) fn deliver_committed(self, metrics: &Metrics) {
        if let Ok(committed) = self.outcome {
            deliver_committed(self.request.transactions, committed, metrics);
        }
    }
}

impl UnansweredRequest {
    /// Delivers the outcome that the guard row of a later connection shows.
    pub(super) fn resolve(self, guard: &HeldGuard, metrics: &Metrics) {
        let status = guard.execution_status(&self.mark);
        for pending in self.transactions {
            let cause = Some(self.failure.clone());
            let outcome = match status {
                // Inserted rows have the UUIDs of their placeholders.
                ExecutionStatus::Executed => CommitOutcome::Committed(Committed::default()),
                ExecutionStatus::NotExecuted => CommitOutcome::NotSent(NotSent { cause }),
                ExecutionStatus::Unknown => {
                    CommitOutcome::Unknown(UnknownOutcome { cause, session: self.session })
                }
            };
            pending.resolve(outcome, metrics);
        }
    }
}
