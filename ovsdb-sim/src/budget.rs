//! Budget in bytes of what all connections of a server hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Step in which bytes are charged, so that short messages do not touch the budget.
const STEP_BYTES: usize = 1 << 16;

/// Bytes that all connections may hold together: in messages that are not complete, in output that
/// is not written, and in changes that are collected for slow readers.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    limit: usize,
    charged: AtomicUsize,
}

/// Error: the connections would hold more bytes than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all connections together would hold more than {limit} bytes")]
pub(crate) struct BudgetExceeded {
    limit: usize,
}

impl ByteBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            charged: AtomicUsize::new(0),
        })
    }

    /// Begins a charge of no bytes.
    pub(crate) fn charge(self: &Arc<Self>) -> Charge {
        Charge {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

/// Bytes that one holder has charged to a budget. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ByteBudget>,
    /// A multiple of [`STEP_BYTES`].
    bytes: usize,
}

impl Charge {
    /// Changes the number of bytes, rounded down to a step.
    ///
    /// # Errors
    /// There are more bytes than the budget has. The charge stays as it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let bytes = bytes - bytes % STEP_BYTES;
        let (budget, before) = (&self.budget, self.bytes);
        if bytes > before {
            let more = bytes - before;
            let charged = budget.charged.fetch_add(more, Ordering::Relaxed);
            if charged.saturating_add(more) > budget.limit {
                budget.charged.fetch_sub(more, Ordering::Relaxed);
                let limit = budget.limit;
                return Err(BudgetExceeded { limit });
            }
        } else if bytes < before {
            budget.charged.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.charged.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_and_given_back() {
        let budget = ByteBudget::new(4 * STEP_BYTES);
        let (mut one, mut two) = (budget.charge(), budget.charge());
        one.resize(3 * STEP_BYTES + 1).unwrap();
        two.resize(2 * STEP_BYTES - 1).unwrap();
        assert!(two.resize(2 * STEP_BYTES).is_err());
        one.resize(2 * STEP_BYTES).unwrap();
        two.resize(2 * STEP_BYTES).unwrap();
        drop(two);
        one.resize(4 * STEP_BYTES).unwrap();
        drop(one);
        assert_eq!(budget.charged.load(Ordering::Relaxed), 0);
    }
}
