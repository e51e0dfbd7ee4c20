//! Result of a plan.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use patchbay_engine::txn::{BuildError, Transaction};
use patchbay_schemas::typed::TypeError;
use thiserror::Error;

/// Reason why rows cannot be planned.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The database's schema cannot express a wanted row.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// A row holds a value that its row type does not allow.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl From<BuildError> for PlanError {
    fn from(error: BuildError) -> Self {
        Self::Build(Box::new(error))
    }
}

/// Numbers of rows that a transaction changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// New rows.
    pub inserted: usize,
    /// Rows that change. Rows of other owners that gain or lose a reference are among them.
    pub changed: usize,
    /// Rows that go.
    pub deleted: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.changed += other.changed;
        self.deleted += other.deleted;
    }
}

/// Changes of one plan, by group. Their transactions do not depend on each other.
#[derive(Clone, Debug)]
pub struct Plan<G> {
    /// Groups with something to do. An error concerns only its group; the next plan evaluates the
    /// group's parts again.
    pub changes: BTreeMap<G, Result<Change, PlanError>>,
    /// `true` if the engine has evaluated every part, and nothing is known of earlier reports.
    pub is_first: bool,
}

impl Plan<()> {
    /// Change of the only group.
    ///
    /// # Errors
    /// The database's schema cannot express the rows.
    pub fn into_change(mut self) -> Result<Change, PlanError> {
        self.changes.remove(&()).unwrap_or_else(|| Ok(Change::default()))
    }
}

/// Changes of one group.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Transaction; `None`: nothing is to be done.
    pub transaction: Option<Transaction>,
    /// Numbers of changed rows.
    pub counts: Counts,
    /// `true` if the transaction was cut. Another plan finds the rest once this transaction is
    /// committed.
    pub more: bool,
}
