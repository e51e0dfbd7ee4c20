//! Budgets in bytes: of what one connection leaves behind, and of what all connections of a server
//! hold.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_schemas::error::OvsdbError;

/// Step in which bytes are charged, so that short messages do not touch the budget. The bytes below
/// a step of 65,536 connections are a quarter of a gibibyte.
const STEP_BYTES: usize = 1 << 12;

/// Bytes that all connections may hold together: in messages that are not complete, in output that
/// is not written, in changes that are collected for slow readers, and in what connections
/// [leave behind](ConnectionBudget).
#[derive(Debug)]
pub(crate) struct ByteBudget {
    limit: usize,
    charged: AtomicUsize,
}

/// Error: a connection, or all of them, would hold more bytes than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BudgetExceeded {
    #[error("all connections together would hold more than {limit} bytes")]
    AllConnections { limit: usize },
    #[error("a connection may not leave behind more than {limit} bytes")]
    Connection { limit: usize },
}

impl From<BudgetExceeded> for OvsdbError {
    fn from(error: BudgetExceeded) -> Self {
        Self::new("resources exhausted", error.to_string())
    }
}

impl ByteBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, charged: AtomicUsize::new(0) })
    }

    /// Begins a charge of no bytes.
    pub(crate) fn charge(self: &Arc<Self>) -> Charge {
        Charge { budget: self.clone(), bytes: 0 }
    }

    /// The bytes that are charged, in steps of 4 KiB.
    pub(crate) fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
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
                return Err(BudgetExceeded::AllConnections { limit });
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

/// Budget of what one connection leaves behind in the server when a request has been answered, or
/// waits: names of locks, monitors with their ids and conditions, waiting transactions.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    limit: usize,
    left: Mutex<LeftBytes>,
}

#[derive(Debug)]
struct LeftBytes {
    bytes: usize,
    /// The same bytes in the budget of all connections.
    charge: Charge,
}

impl ConnectionBudget {
    pub(crate) fn new(limit: usize, all: &Arc<ByteBudget>) -> Arc<Self> {
        let charge = all.charge();
        Arc::new(Self { limit, left: Mutex::new(LeftBytes { bytes: 0, charge }) })
    }

    /// Charges bytes to the connection.
    ///
    /// # Errors
    /// The connection, or all connections together, would leave behind more than they may.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Result<HeldBytes, BudgetExceeded> {
        let mut left = self.left();
        let sum = left.bytes.saturating_add(bytes);
        if sum > self.limit {
            let limit = self.limit;
            return Err(BudgetExceeded::Connection { limit });
        }
        left.charge.resize(sum)?;
        left.bytes = sum;
        let budget = self.clone();
        Ok(HeldBytes { budget, bytes })
    }

    fn left(&self) -> MutexGuard<'_, LeftBytes> {
        // The sum is assigned last.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of something that a connection has left behind. Dropping them gives them back, so they are
/// kept with it.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    budget: Arc<ConnectionBudget>,
    bytes: usize,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let mut left = self.budget.left();
        left.bytes -= self.bytes;
        let bytes = left.bytes;
        // Fewer bytes always fit.
        left.charge.resize(bytes).unwrap_or_default();
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
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn what_connections_leave_behind_counts_for_each_and_for_all() {
        let all = ByteBudget::new(4 * STEP_BYTES);
        let budgets = [(); 2].map(|()| ConnectionBudget::new(3 * STEP_BYTES, &all));
        let first = budgets[0].hold(2 * STEP_BYTES).unwrap();
        let more = budgets[0].hold(STEP_BYTES + 1).unwrap_err();
        assert_eq!(more, BudgetExceeded::Connection { limit: 3 * STEP_BYTES });
        let second = budgets[1].hold(2 * STEP_BYTES).unwrap();
        let more = budgets[1].hold(STEP_BYTES).unwrap_err();
        assert_eq!(more, BudgetExceeded::AllConnections { limit: 4 * STEP_BYTES });
        drop(first);
        let third = budgets[1].hold(STEP_BYTES).unwrap();
        drop((second, third));
        assert_eq!(all.charged(), 0);
    }
}
