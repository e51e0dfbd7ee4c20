//! Transactions on their way: from the queue into requests, and from answers to outcomes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::json::{TextBuf, write};
use patchbay_schemas::wire::Operation;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::Span;

use crate::txn::Transaction;

use super::answer;
use super::bulk;
use super::config::Config;
use super::error::{Lost, SessionError};
use super::guard::{Fate, HeldGuard, Mark};
use super::known::Known;
use super::lock::Tenure;
use super::metrics::Metrics;
use super::outcome::{CommitOutcome, Committed, NotSent, OpError, Unknown};
use super::outgoing::{Outgoing, Place, request_head};
use super::session::Session;

/// Transactions that wait for their turn. Few: each may be tens of megabytes, and whoever waits holds it anyway.
const QUEUE: usize = 16;

/// While more bytes than this wait to be sent, no further transaction is taken from the queue.
const UNSENT: usize = 4 << 20;

/// How transactions that are asked for while others are under way go to the server. In either way they are executed in the
/// order in which they were asked for, and each caller gets the outcome of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pipelining {
    /// Each in a request of its own, at once, without waiting for the answers to those before: the shortest wait for each.
    EachAtOnce {
        /// How many may be under way; further ones wait. Enough to keep a server busy over a slow network, few enough to
        /// know what is lost with a connection.
        window: usize,
    },
    /// One request at a time, with all that was asked for while the one before was under way: the least work for the server
    /// and for all who follow the database, since one request is one transaction to them. For many small changes by callers who
    /// do not wait for each other.
    ///
    /// When the server refuses such a request, nothing of it is made, and its transactions are sent again one by one: one that
    /// fails does not make others fail. What only holds at the end of a transaction (references, unique indexes) is
    /// looked at after all of them, so one may be made here which alone would be refused, because a later one has set right
    /// what it left behind. One that `wait`s in the server is sent alone.
    Coalesced {
        /// How many transactions go together at most.
        transactions: usize,
        /// How long a request of several transactions is at most, in bytes. Longer transactions are sent alone, and those
        /// of more than 1024 operations.
        bytes: usize,
    },
}

impl Pipelining {
    /// [`Coalesced`](Self::Coalesced) with limits for changes to a few rows each: 256 transactions, 256 KiB.
    pub const fn coalesced() -> Self {
        Self::Coalesced {
            transactions: 256,
            bytes: 256 << 10,
        }
    }

    /// How many transactions may wait for the client; further callers wait themselves.
    pub(super) fn queue(self) -> usize {
        match self {
            Self::EachAtOnce { .. } => QUEUE,
            // What is not in the queue cannot go together. Queues are bounded, but by more than anybody means.
            Self::Coalesced { transactions, .. } => {
                transactions.clamp(QUEUE, Semaphore::MAX_PERMITS)
            }
        }
    }
}

/// Up to 128 at once, each in a request of its own.
impl Default for Pipelining {
    fn default() -> Self {
        Self::EachAtOnce { window: 128 }
    }
}

/// A transaction on its way to the server.
pub(super) struct Command {
    pub(super) request: Outgoing,
    pub(super) job: Job,
}

/// A transaction and who waits for it.
pub(super) struct Job {
    pub(super) transaction: Arc<Transaction>,
    /// The time in which the client holds the lock that the transaction asserts last.
    pub(super) tenure: Option<Tenure>,
    pub(super) outcome: oneshot::Sender<CommitOutcome>,
    /// When it was put into the queue.
    pub(super) queued: Instant,
    pub(super) span: Span,
}

/// A request that was handed to the connection.
struct Request {
    jobs: Vec<Job>,
    /// It goes up to here in what is sent.
    end: Place,
    /// What the guard row will hold when it is made.
    mark: Option<Mark>,
    sent: Instant,
}

/// A request that was answered, of which nobody has been told yet.
pub(super) struct Answered {
    request: Request,
    outcome: Result<Vec<Committed>, OpError>,
}

/// A request that was not answered, of which the guard row will tell.
pub(super) struct Unsettled {
    mark: Mark,
    jobs: Vec<Job>,
    lost: Arc<Lost>,
    /// The number of the connection.
    session: u64,
}

/// The transactions of one connection.
pub(super) struct Pipeline<'a> {
    policy: Pipelining,
    bulk_rows: Option<usize>,
    metrics: &'a Metrics,
    /// How a request begins, up to where operations follow.
    head: Vec<u8>,
    /// Taken from the queue and not sent yet: it did not fit, or was refused together with others.
    next: VecDeque<Command>,
    under_way: BTreeMap<i64, Request>,
    /// Told in this order when the replica holds the database again.
    held: Vec<Answered>,
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
            next: VecDeque::new(),
            under_way: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// How many requests were not answered yet.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Whether another transaction can be taken from the queue.
    pub(super) fn may_take(&self, session: &Session) -> bool {
        let there_is_room = match self.policy {
            Pipelining::EachAtOnce { window } => self.under_way.len() < window.max(1),
            Pipelining::Coalesced { .. } => self.under_way.is_empty(),
        };
        there_is_room && self.next.is_empty() && session.is_live() && session.unsent() < UNSENT
    }

    /// Sends a transaction, and those with it that wait in the queue and may go together with it.
    pub(super) fn send(
        &mut self,
        first: Command,
        queue: &mut mpsc::Receiver<Command>,
        session: &mut Session,
        guard: Option<&mut HeldGuard>,
        known: &mut Known,
    ) {
        self.metrics.taken(first.job.queued, queue.len());
        let Some(first) = self.still_wanted(first) else {
            return;
        };
        let joinable = Self::may_be_joined(&first);
        let Command { mut request, job } = first;
        let mut jobs = vec![job];
        if let Pipelining::Coalesced {
            transactions,
            bytes,
        } = self.policy
            && joinable
        {
            while jobs.len() < transactions
                && let Ok(more) = queue.try_recv()
            {
                self.metrics.taken(more.job.queued, queue.len());
                let Some(more) = self.still_wanted(more) else {
                    continue;
                };
                let len = request.text.len() + more.request.text.len();
                if !Self::may_be_joined(&more) || len > bytes {
                    self.next.push_back(more);
                    break;
                }
                // The operations of both in one array.
                request.text.pop();
                let operations = &more.request.text[self.head.len()..];
                request.text.extend_from_slice(operations);
                jobs.push(more.job);
            }
        }
        if let ([job], Some(rows)) = (&*jobs, self.bulk_rows)
            && self.under_way.is_empty()
            && bulk::is_bulk(job, rows, known)
            && session.begin_bulk(known)
        {
            tracing::debug!("nothing is followed until a bulk transaction is answered");
        }
        self.request(request, jobs, session, guard);
    }

    /// Sends what was taken from the queue before, as far as its turn has come.
    pub(super) fn send_waiting(
        &mut self,
        session: &mut Session,
        mut guard: Option<&mut HeldGuard>,
    ) {
        // Should those that are under way together be refused, they are sent again before what came after them.
        while self
            .under_way
            .values()
            .all(|request| request.jobs.len() == 1)
            && session.is_live()
            && session.unsent() < UNSENT
            && let Some(command) = self.next.pop_front()
        {
            if let Some(Command { request, job }) = self.still_wanted(command) {
                self.request(request, vec![job], session, guard.as_deref_mut());
            }
        }
    }

    fn request(
        &mut self,
        mut request: Outgoing,
        jobs: Vec<Job>,
        session: &mut Session,
        guard: Option<&mut HeldGuard>,
    ) {
        let mark = guard.map(|guard| guard.guard(&mut request));
        let (id, end) = session.transact(request);
        for job in &jobs {
            job.span.record("id", id);
        }
        self.metrics.requested(jobs.len(), self.under_way.len() + 1);
        let sent = Instant::now();
        let request = Request {
            jobs,
            end,
            mark,
            sent,
        };
        self.under_way.insert(id, request);
    }

    /// Whether a transaction may be made together with others.
    fn may_be_joined(command: &Command) -> bool {
        let may_block = |operation: &Operation| matches!(operation, Operation::Wait { timeout, .. } if *timeout != Some(0));
        command.request.rest.is_none()
            && !command.job.transaction.operations().iter().any(may_block)
    }

    /// Drops a transaction for whose outcome nobody waits any more, and refuses one whose lock is known not to be held any
    /// more, as the server would.
    fn still_wanted(&self, command: Command) -> Option<Command> {
        if command.job.outcome.is_closed() {
            return None;
        }
        let Some(tenure) = command
            .job
            .tenure
            .as_ref()
            .filter(|tenure| tenure.is_over())
        else {
            return Some(command);
        };
        let transaction = &command.job.transaction;
        let assert = transaction.operations().len() - 1;
        let error = answer::rejected(transaction, assert, tenure.not_owner());
        command
            .job
            .tell(CommitOutcome::Rejected(error), self.metrics);
        None
    }

    /// A request was answered; none if it is none of these.
    ///
    /// # Errors
    /// The answer makes no sense, so that the outcome remains unknown.
    pub(super) fn answered(
        &mut self,
        id: i64,
        reply: &TextBuf,
    ) -> Result<Option<Answered>, SessionError> {
        let Entry::Occupied(entry) = self.under_way.entry(id) else {
            return Ok(None);
        };
        let request = entry.get();
        let transactions = request.jobs.iter().map(|job| &*job.transaction);
        let outcome = answer::decode(transactions, request.mark.is_some(), reply)?;
        let request = entry.remove();
        self.metrics.answered(request.sent.elapsed());
        Ok(Some(Answered { request, outcome }))
    }

    /// Keeps what is told when the replica holds the database again.
    pub(super) fn hold(&mut self, answered: Answered) {
        self.held.push(answered);
    }

    /// The replica holds the database.
    pub(super) fn tell_held(&mut self, mut guard: Option<&mut HeldGuard>) {
        for answered in std::mem::take(&mut self.held) {
            self.tell(answered, guard.as_deref_mut());
        }
    }

    /// Tells those who wait for an answer.
    pub(super) fn tell(&mut self, answered: Answered, guard: Option<&mut HeldGuard>) {
        let Answered { request, outcome } = answered;
        let Request { mut jobs, mark, .. } = request;
        if let Some((guard, mark)) = guard.zip(mark) {
            guard.settle(mark);
        }
        match outcome {
            Ok(committed) => tell_committed(jobs, committed, self.metrics),
            Err(error) if jobs.len() == 1 => {
                if let Some(job) = jobs.pop() {
                    job.tell(CommitOutcome::Rejected(error), self.metrics);
                }
            }
            Err(error) => {
                tracing::debug!(%error, transactions = jobs.len(), "refused together, sent one by one");
                // What was taken from the queue since came after them.
                for job in jobs.into_iter().rev() {
                    let request = Outgoing::transact(&job.transaction);
                    self.next.push_front(Command { request, job });
                }
            }
        }
    }

    /// The connection, the one of this number, is lost after everything up to a place was sent. Returns those of which the
    /// guard row will tell, and what is told when the replica holds the database again.
    pub(super) fn lost(
        mut self,
        sent: Place,
        session: u64,
        lost: &Arc<Lost>,
    ) -> (Vec<Unsettled>, Vec<Answered>) {
        let held = std::mem::take(&mut self.held).into_iter();
        let (held, refused): (Vec<_>, Vec<_>) = held.partition(|held| held.outcome.is_ok());
        for refused in refused {
            // Of it there is nothing to be shown, and whoever tries again waits for the next connection.
            self.tell(refused, None);
        }
        let mut unsettled = Vec::new();
        let not_sent = || {
            let lost = Some(lost.clone());
            CommitOutcome::NotSent(NotSent { lost })
        };
        for Request {
            jobs, end, mark, ..
        } in self.under_way.into_values()
        {
            if end > sent {
                // What the server cannot have read to its end, it cannot have executed.
                for job in jobs {
                    job.tell(not_sent(), self.metrics);
                }
            } else if let Some(mark) = mark {
                let lost = lost.clone();
                unsettled.push(Unsettled {
                    mark,
                    jobs,
                    lost,
                    session,
                });
            } else {
                for job in jobs {
                    let lost = Some(lost.clone());
                    let unknown = Unknown { lost, session };
                    job.tell(CommitOutcome::Unknown(unknown), self.metrics);
                }
            }
        }
        for command in self.next {
            command.job.tell(not_sent(), self.metrics);
        }
        (unsettled, held)
    }
}

impl Answered {
    /// The transaction and its results, if it is the only one and was committed. Nobody needs the transaction any more.
    pub(super) fn committed(&mut self) -> Option<(&mut Transaction, &Committed)> {
        match (&mut *self.request.jobs, self.outcome.as_deref()) {
            ([job], Ok([committed])) => Some((Arc::make_mut(&mut job.transaction), committed)),
            _ => None,
        }
    }

    /// Tells those whose transactions were committed on a connection that is no more.
    pub(super) fn tell_committed(self, metrics: &Metrics) {
        if let Ok(committed) = self.outcome {
            tell_committed(self.request.jobs, committed, metrics);
        }
    }
}

fn tell_committed(jobs: Vec<Job>, committed: Vec<Committed>, metrics: &Metrics) {
    for (job, committed) in jobs.into_iter().zip(committed) {
        job.tell(CommitOutcome::Committed(committed), metrics);
    }
}

impl Job {
    /// Tells whoever waits.
    pub(super) fn tell(self, outcome: CommitOutcome, metrics: &Metrics) {
        metrics.told(&outcome);
        self.span.record("outcome", outcome.name());
        // Who does not wait any more need not know.
        let _ = self.outcome.send(outcome);
    }
}

impl Unsettled {
    /// Tells what became of it, now that the guard row is held by a later connection.
    pub(super) fn settle(self, guard: &HeldGuard, metrics: &Metrics) {
        let fate = guard.fate(&self.mark);
        for job in self.jobs {
            let lost = Some(self.lost.clone());
            let outcome = match fate {
                // The rows that it has inserted have the UUIDs that their placeholders are.
                Fate::Made => CommitOutcome::Committed(Committed::default()),
                Fate::NotMade => CommitOutcome::NotSent(NotSent { lost }),
                Fate::Unknown => {
                    let session = self.session;
                    CommitOutcome::Unknown(Unknown { lost, session })
                }
            };
            job.tell(outcome, metrics);
        }
    }
}
