//! The transactions of one connection: from the queue into requests, and from replies to outcomes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::json::{TextBuf, write};
use patchbay_schemas::wire::Operation;
use tokio::sync::mpsc;

use super::bulk;
use super::config::Config;
use super::error::{ConnectionFailure, SessionError};
use super::guard::HeldGuard;
use super::metrics::Metrics;
use super::outcome::{CommitOutcome, NotSent, UnknownOutcome};
use super::outgoing::{MAX_UNSENT_BYTES, Outgoing, SendPosition, request_head};
use super::pending::{
    AnsweredRequest, PendingTransaction, QueuedTransaction, SentRequest, UnansweredRequest,
    deliver_committed,
};
use super::pipelining::Pipelining;
use super::retained_state::RetainedState;
use super::session::Session;
use super::transact_reply;

/// The transactions of one connection.
pub(super) struct Pipeline<'a> {
    policy: Pipelining,
    bulk_rows: Option<usize>,
    metrics: &'a Metrics,
    /// Beginning of a request, up to the database name.
    head: Vec<u8>,
    /// Transactions that were taken from the queue and are not sent yet, because they did not fit
    /// into a coalesced request or because their coalesced request was rejected.
    deferred: VecDeque<QueuedTransaction>,
    /// Requests without a reply, by id.
    unanswered: BTreeMap<i64, SentRequest>,
    /// Replies that are delivered, in this order, once the replica holds the database again.
    held_back: Vec<AnsweredRequest>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(config: &Config, metrics: &'a Metrics) -> Self {
        let mut head = request_head("transact");
        head.push(b'[');
        write::string(&mut head, config.database.as_bytes());
        Self {
            policy: config.pipelining,
            bulk_rows: config.bulk_rows,
            metrics,
            head,
            deferred: VecDeque::new(),
            unanswered: BTreeMap::new(),
            held_back: Vec::new(),
        }
    }

    /// Number of requests without a reply.
    pub(super) fn unanswered_requests(&self) -> usize {
        self.unanswered.len()
    }

    /// `true` if another transaction can be taken from the queue.
    pub(super) fn can_take(&self, session: &Session) -> bool {
        let window_is_open = match self.policy {
            Pipelining::EachAtOnce { window } => self.unanswered.len() < window.max(1),
            Pipelining::Coalesced { .. } => self.unanswered.is_empty(),
        };
        window_is_open
            && self.deferred.is_empty()
            && session.is_live()
            && session.unsent_bytes() < MAX_UNSENT_BYTES
    }

    /// Sends a transaction, together with queued transactions where the policy coalesces them.
    pub(super) fn send(
        &mut self,
        first: QueuedTransaction,
        queue: &mut mpsc::Receiver<QueuedTransaction>,
        session: &mut Session,
        guard: Option<&mut HeldGuard>,
        retained: &mut RetainedState,
    ) {
        let Some(first) = self.dequeue(first, queue.len()) else {
            return;
        };
        let coalesces = can_be_coalesced(&first);
        let QueuedTransaction { mut request, pending } = first;
        let mut group = vec![pending];
        if let Pipelining::Coalesced { transactions, bytes } = self.policy
            && coalesces
        {
            while group.len() < transactions
                && let Ok(more) = queue.try_recv()
            {
                let Some(more) = self.dequeue(more, queue.len()) else {
                    continue;
                };
                let len = request.text.len() + more.request.text.len();
                if !can_be_coalesced(&more) || len > bytes {
                    self.deferred.push_back(more);
                    break;
                }
                // Drops the closing bracket and appends the operations of the other request.
                request.text.pop();
                let operations = &more.request.text[self.head.len()..];
                request.text.extend_from_slice(operations);
                group.push(more.pending);
            }
        }
        if let ([pending], Some(rows)) = (&*group, self.bulk_rows)
            && self.unanswered.is_empty()
            && bulk::is_bulk(pending, rows, retained)
            && session.suspend_monitor(retained)
        {
            tracing::debug!("suspended the monitor until a bulk transaction is answered");
        }
        self.send_request(request, group, session, guard);
    }

    /// Sends deferred transactions, as far as the order of execution allows.
    pub(super) fn send_deferred(
        &mut self,
        session: &mut Session,
        mut guard: Option<&mut HeldGuard>,
    ) {
        // If an unanswered coalesced request is rejected, its transactions come first.
        while self.unanswered.values().all(|request| request.transactions.len() == 1)
            && session.is_live()
            && session.unsent_bytes() < MAX_UNSENT_BYTES
            && let Some(queued) = self.deferred.pop_front()
        {
            if let Some(QueuedTransaction { request, pending }) = self.reject_if_obsolete(queued) {
                self.send_request(request, vec![pending], session, guard.as_deref_mut());
            }
        }
    }

    fn send_request(
        &mut self,
        mut request: Outgoing,
        transactions: Vec<PendingTransaction>,
        session: &mut Session,
        guard: Option<&mut HeldGuard>,
    ) {
        let mark = guard.map(|guard| guard.guard_request(&mut request));
        let (id, end) = session.transact(request);
        for pending in &transactions {
            pending.span.record("id", id);
        }
        self.metrics.record_request(transactions.len(), self.unanswered.len() + 1);
        let sent = Instant::now();
        let request = SentRequest { transactions, end, mark, sent };
        self.unanswered.insert(id, request);
    }

    /// Counts a transaction that was taken from the queue, where `waiting` others remain, and
    /// returns it unless it is [obsolete](Self::reject_if_obsolete).
    fn dequeue(&self, queued: QueuedTransaction, waiting: usize) -> Option<QueuedTransaction> {
        self.metrics.record_dequeued(queued.pending.queued, waiting);
        self.reject_if_obsolete(queued)
    }

    /// Returns the transaction if it is still to be sent.
    ///
    /// Drops it if its caller no longer waits, and rejects it, as the server would, if the client
    /// no longer holds its lock.
    fn reject_if_obsolete(&self, queued: QueuedTransaction) -> Option<QueuedTransaction> {
        if queued.pending.outcome.is_closed() {
            return None;
        }
        let ownership = queued.pending.ownership.as_ref();
        let Some(ownership) = ownership.filter(|ownership| ownership.is_over()) else {
            return Some(queued);
        };
        let transaction = &queued.pending.transaction;
        let assert = transaction.operations().len() - 1;
        let error = transact_reply::operation_error(transaction, assert, ownership.not_owner());
        queued.pending.resolve(CommitOutcome::Rejected(error), self.metrics);
        None
    }

    /// Decodes the reply to a request. `None`: the id belongs to no unanswered `transact` request.
    ///
    /// # Errors
    /// The reply is malformed, so that the outcome remains unknown.
    pub(super) fn decode_reply(
        &mut self,
        id: i64,
        reply: &TextBuf,
    ) -> Result<Option<AnsweredRequest>, SessionError> {
        let Entry::Occupied(entry) = self.unanswered.entry(id) else {
            return Ok(None);
        };
        let request = entry.get();
        let transactions = request.transactions.iter();
        let outcome = transact_reply::decode(
            transactions.map(|pending| &*pending.transaction),
            request.mark.is_some(),
            reply,
        )?;
        let request = entry.remove();
        self.metrics.record_reply(request.sent.elapsed());
        Ok(Some(AnsweredRequest { request, outcome }))
    }

    /// Keeps a decoded reply until the replica holds the database again.
    pub(super) fn hold_back(&mut self, answered: AnsweredRequest) {
        self.held_back.push(answered);
    }

    /// Delivers the replies that were held back. Call this when the replica holds the database.
    pub(super) fn deliver_held_back(&mut self, mut guard: Option<&mut HeldGuard>) {
        for answered in std::mem::take(&mut self.held_back) {
            self.deliver(answered, guard.as_deref_mut());
        }
    }

    /// Delivers the outcomes of a request, or defers its transactions if they were coalesced and
    /// rejected together.
    pub(super) fn deliver(&mut self, answered: AnsweredRequest, guard: Option<&mut HeldGuard>) {
        let AnsweredRequest { request, outcome } = answered;
        let SentRequest { mut transactions, mark, .. } = request;
        if let Some((guard, mark)) = guard.zip(mark) {
            guard.release_mark(mark);
        }
        match outcome {
            Ok(committed) => deliver_committed(transactions, committed, self.metrics),
            Err(error) if transactions.len() == 1 => {
                if let Some(pending) = transactions.pop() {
                    pending.resolve(CommitOutcome::Rejected(error), self.metrics);
                }
            }
            Err(error) => {
                tracing::debug!(
                    %error,
                    transactions = transactions.len(),
                    "the server rejected a coalesced request; sending its transactions one by one"
                );
                // Transactions that were dequeued since then are executed after these.
                for pending in transactions.into_iter().rev() {
                    let request = Outgoing::transact(&pending.transaction);
                    self.deferred.push_front(QueuedTransaction { request, pending });
                }
            }
        }
    }

    /// Resolves what can be resolved after the connection number `session` was lost. Everything up
    /// to `sent` had been sent.
    ///
    /// Returns the requests whose outcome the guard row will show, and the committed replies that
    /// are delivered once the replica holds the database again.
    pub(super) fn handle_disconnect(
        mut self,
        sent: SendPosition,
        session: u64,
        failure: &Arc<ConnectionFailure>,
    ) -> (Vec<UnansweredRequest>, Vec<AnsweredRequest>) {
        let held_back = std::mem::take(&mut self.held_back);
        let (committed, rejected): (Vec<_>, Vec<_>) =
            held_back.into_iter().partition(|answered| answered.outcome.is_ok());
        for rejected in rejected {
            // A rejected transaction has no changes to wait for.
            self.deliver(rejected, None);
        }
        let mut unanswered = Vec::new();
        let not_sent = || {
            let cause = Some(failure.clone());
            CommitOutcome::NotSent(NotSent { cause })
        };
        for request in self.unanswered.into_values() {
            let transactions = request.transactions;
            if request.end > sent {
                // The server cannot execute a request that it has not received as a whole.
                for pending in transactions {
                    pending.resolve(not_sent(), self.metrics);
                }
            } else if let Some(mark) = request.mark {
                let failure = failure.clone();
                unanswered.push(UnansweredRequest { mark, transactions, failure, session });
            } else {
                for pending in transactions {
                    let cause = Some(failure.clone());
                    let unknown = UnknownOutcome { cause, session };
                    pending.resolve(CommitOutcome::Unknown(unknown), self.metrics);
                }
            }
        }
        for queued in self.deferred {
            queued.pending.resolve(not_sent(), self.metrics);
        }
        (unanswered, committed)
    }
}

/// `true` if a transaction may share a request with others: it is encoded as a whole, and no `wait`
/// of it can block.
fn can_be_coalesced(queued: &QueuedTransaction) -> bool {
    let can_block = |operation: &Operation| matches!(operation, Operation::Wait { timeout, .. } if *timeout != Some(0));
    let operations = queued.pending.transaction.operations();
    queued.request.rest.is_none() && !operations.iter().any(can_block)
}
