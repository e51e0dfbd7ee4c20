//! A database of a kind that is known at run time only.

use futures_util::future::BoxFuture;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;

use super::{CommitError, Northbound, ReconnectError};

/// A [`Northbound`] whose type is not known: one compiled planner serves all kinds of databases.
pub(crate) trait DynNorthbound: Send {
    /// [`Northbound::snapshot`].
    fn snapshot(&self) -> Snapshot;

    /// [`Northbound::commit`].
    fn commit(&mut self, transaction: Transaction) -> BoxFuture<'_, Result<(), CommitError>>;

    /// [`Northbound::wait_for_outcome`].
    fn wait_for_outcome(&mut self) -> BoxFuture<'_, Result<(), ReconnectError>>;
}

impl<N: Northbound> DynNorthbound for N {
    fn snapshot(&self) -> Snapshot {
        Northbound::snapshot(self)
    }

    fn commit(&mut self, transaction: Transaction) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(Northbound::commit(self, transaction))
    }

    fn wait_for_outcome(&mut self) -> BoxFuture<'_, Result<(), ReconnectError>> {
        Box::pin(Northbound::wait_for_outcome(self))
    }
}
