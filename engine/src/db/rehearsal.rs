//! Execution of operations without a commit.

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::DecodedTransaction;

use super::database::Database;
use super::execute::{Executor, Stop};
use super::execution::{Access, OperationResult};
use super::overlay::Overlay;
use super::snapshot::Snapshot;

/// Outcome of [`Database::rehearse`].
#[derive(Debug)]
pub enum Rehearsal {
    /// All operations succeeded. A commit could still fail.
    Succeeded(Vec<OperationResult>),
    /// An operation failed.
    Failed {
        /// Results of the operations before the failure.
        results: Vec<OperationResult>,
        /// Error of the operation.
        error: OvsdbError,
    },
    /// A `wait` operation is not satisfied.
    Waiting {
        /// Milliseconds after the arrival of the request at which the first `wait` times out.
        /// `None`: no `wait` times out.
        deadline_ms: Option<u64>,
    },
}

impl Database {
    /// Executes the operations of a transaction like [`execute`](Self::execute), and commits
    /// nothing. Constraints that are checked at a commit are not checked. Inserted rows may be
    /// moved out of the transaction.
    ///
    /// A relay does this before it forwards a transaction that writes.
    ///
    /// ```
    /// use patchbay_engine::db::{Access, Database, Rehearsal};
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalSwitch};
    /// use patchbay_schemas::wire::DecodedTransaction;
    ///
    /// let mut database = Database::new(nb::schema());
    /// let mut txn = TxnBuilder::new(&database.snapshot());
    /// txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    /// let operations = txn.finish().operations().to_vec();
    /// let mut transaction =
    ///     DecodedTransaction { total: operations.len(), operations: operations.into(), failure: None };
    ///
    /// let rehearsal = database.rehearse(&mut transaction, &Access::unrestricted());
    /// assert!(matches!(rehearsal, Rehearsal::Succeeded(results) if results.len() == 1));
    /// assert_eq!(database.snapshot().row_count(), 0);
    /// # Ok::<(), patchbay_engine::txn::BuildError>(())
    /// ```
    pub fn rehearse(
        &mut self,
        transaction: &mut DecodedTransaction,
        access: &Access<'_>,
    ) -> Rehearsal {
        let base = self.snapshot();
        rehearse(&base, self.uuids_mut(), transaction, access)
    }
}

impl Snapshot {
    /// Executes the operations of a transaction on this state, and commits nothing, like
    /// [`Database::rehearse`]. Long transactions that only read need no turn of the writer.
    ///
    /// ```
    /// use patchbay_engine::db::{Access, Database, Rehearsal};
    /// use patchbay_schemas::nb;
    /// use patchbay_schemas::wire::{Condition, DecodedTransaction, Operation};
    ///
    /// let (table, _) = nb::schema().table_by_name("Logical_Switch").ok_or("known")?;
    /// let select =
    ///     Operation::Select { table, condition: Condition::default(), columns: vec![], sort: vec![] };
    /// let mut transaction =
    ///     DecodedTransaction { total: 1, operations: vec![select].into(), failure: None };
    /// let snapshot = Database::new(nb::schema()).snapshot();
    /// let read = snapshot.rehearse(&mut transaction, &Access::unrestricted());
    /// assert!(matches!(read, Rehearsal::Succeeded(results) if results.len() == 1));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn rehearse(&self, transaction: &mut DecodedTransaction, access: &Access<'_>) -> Rehearsal {
        rehearse(self, &mut UuidSource::random(), transaction, access)
    }
}

fn rehearse(
    base: &Snapshot,
    uuids: &mut UuidSource,
    transaction: &mut DecodedTransaction,
    access: &Access<'_>,
) -> Rehearsal {
    let mut results = Vec::with_capacity(transaction.operations.len());
    let mut overlay = Overlay::new(base);
    let outcome =
        Executor::new(base.schema(), &mut overlay, uuids, access).run(transaction, &mut results);
    match outcome {
        Ok(()) => Rehearsal::Succeeded(results),
        Err(Stop::Error(error)) => Rehearsal::Failed { results, error },
        Err(Stop::Waiting { deadline_ms }) => Rehearsal::Waiting { deadline_ms },
    }
}
