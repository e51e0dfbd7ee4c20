//! Grouping of concurrent transactions into requests.

use tokio::sync::Semaphore;

/// Transactions that may wait in the queue of [`Pipelining::EachAtOnce`].
///
/// Small, because a transaction can be tens of megabytes and its caller keeps it in memory anyway.
const TRANSACTION_QUEUE_DEPTH: usize = 16;

/// Grouping of concurrent transactions into requests.
///
/// In both variants, transactions are executed in the order of the calls to
/// [`Client::transact`](super::Client::transact), and each caller receives the outcome of its own
/// transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pipelining {
    /// One request per transaction, sent at once without waiting for earlier replies. Lowest
    /// latency.
    EachAtOnce {
        /// Maximum number of unanswered requests; further transactions wait. It should keep a
        /// server busy over a slow network. Every unanswered transaction has an unknown outcome
        /// when the connection is lost.
        window: usize,
    },
    /// One request at a time, which holds all transactions that were queued while the previous
    /// request was unanswered.
    ///
    /// Least work for the server and for all monitors, because the server executes one request as
    /// one OVSDB transaction. Meant for many small changes by independent callers.
    ///
    /// If the server rejects such a request, none of it is executed, and its transactions are sent
    /// again one by one: a failing transaction does not make others fail. Constraints that hold
    /// only at the end of an OVSDB transaction (references, unique indexes) are checked after all
    /// transactions of the request. A transaction that would be rejected alone can therefore be
    /// committed, if a later one in the request repairs the violation. A transaction with a `wait`
    /// whose timeout is not 0 is sent alone.
    Coalesced {
        /// Maximum number of transactions in one request.
        transactions: usize,
        /// Maximum length in bytes of a request with several transactions. Longer transactions are
        /// sent alone, as are those of more than 1024 operations.
        bytes: usize,
    },
}

impl Pipelining {
    /// [`Coalesced`](Self::Coalesced) with limits for changes to a few rows each: 256 transactions,
    /// 256 KiB.
    pub const fn coalesced() -> Self {
        Self::Coalesced { transactions: 256, bytes: 256 << 10 }
    }

    /// Number of transactions that can wait in the client's queue before callers wait.
    pub(super) fn queue_depth(self) -> usize {
        match self {
            Self::EachAtOnce { .. } => TRANSACTION_QUEUE_DEPTH,
            // Only queued transactions can share a request. tokio limits a channel's capacity.
            Self::Coalesced { transactions, .. } => {
                transactions.clamp(TRANSACTION_QUEUE_DEPTH, Semaphore::MAX_PERMITS)
            }
        }
    }
}

/// [`EachAtOnce`](Pipelining::EachAtOnce) with a window of 128 requests.
impl Default for Pipelining {
    fn default() -> Self {
        Self::EachAtOnce { window: 128 }
    }
}
