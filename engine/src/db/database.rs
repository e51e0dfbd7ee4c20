//! A database and its writer.

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{DatabaseSchema, RefType};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, InsertRow, Operation, Operations};

use super::change::{ChangeSet, RowChange};
use super::commit::{CheckedChanges, Commit};
use super::execute::{Executor, Stop};
use super::execution::{Access, Execution};
use super::index_spec::IndexSpec;
use super::overlay::Overlay;
use super::references::{ReferenceColumns, References, RowId};
use super::snapshot::Snapshot;

/// Reason why [`Database::transact`] changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// An operation failed.
    #[error("operation {index} ({operation}): {error}")]
    Operation {
        /// Position of the operation, from 0.
        index: usize,
        /// Name of the operation, the `op` of RFC 7047 §5.2.
        operation: &'static str,
        /// Error of the operation.
        error: OvsdbError,
    },
    /// The changes together violate a constraint.
    #[error("commit: {0}")]
    Commit(OvsdbError),
    /// A `wait` operation is not satisfied.
    #[error("a wait operation is not satisfied")]
    WaitUnsatisfied,
}

impl DatabaseError {
    /// Creates the error of a transaction whose first `succeeded` operations succeeded: the error
    /// of the next operation, or of the commit if there is none.
    pub fn after(succeeded: usize, operations: &Operations, error: OvsdbError) -> Self {
        match operations.name(succeeded) {
            Some(operation) => Self::Operation { index: succeeded, operation, error },
            None => Self::Commit(error),
        }
    }
}

impl From<DatabaseError> for OvsdbError {
    /// Drops the position of the operation.
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Operation { error, .. } | DatabaseError::Commit(error) => error,
            DatabaseError::WaitUnsatisfied => {
                Self::new("timed out", "\"where\" clause test failed")
            }
        }
    }
}

/// In-memory OVSDB database.
///
/// The database is the writer; [`snapshot`](Self::snapshot) returns the committed state for
/// readers.
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
///
/// let mut database = Database::new(nb::schema());
/// let before = database.snapshot();
/// let mut txn = TxnBuilder::new(&before);
/// let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
/// txn.insert(&LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() })?;
/// let changes = database.transact(txn.finish().operations())?;
/// assert_eq!(changes.rows.len(), 2);
/// assert_eq!(database.snapshot().typed::<LogicalRouterPort>().len(), 1);
/// assert_eq!(before.row_count(), 0, "a snapshot never changes");
///
/// // A failed transaction changes nothing.
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// txn.delete(port)?;
/// let error = database.transact(txn.finish().operations()).unwrap_err();
/// assert!(error.to_string().contains("because of 1 remaining reference(s)"));
/// assert_eq!(database.snapshot().row_count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Database {
    schema: Arc<DatabaseSchema>,
    columns: ReferenceColumns,
    snapshot: Snapshot,
    references: References,
    uuids: UuidSource,
}

impl Database {
    /// Creates an empty database whose row versions are random UUIDs.
    pub fn new(schema: Arc<DatabaseSchema>) -> Self {
        Self::with_uuids(schema, UuidSource::random())
    }

    /// Creates an empty database whose row versions come from `uuids`.
    pub fn with_uuids(schema: Arc<DatabaseSchema>, uuids: UuidSource) -> Self {
        Self::from_empty(Snapshot::empty(schema), uuids)
    }

    /// Creates a database from a snapshot without rows and keeps its declared indexes.
    pub(super) fn from_empty(snapshot: Snapshot, uuids: UuidSource) -> Self {
        let schema = snapshot.schema().clone();
        Self {
            columns: ReferenceColumns::new(&schema),
            schema,
            snapshot,
            references: References::default(),
            uuids,
        }
    }

    /// Creates a database with the rows and declared indexes of a snapshot, for transactions that
    /// must not change the original. O(rows).
    ///
    /// Rows keep their UUIDs and get new versions from `uuids`.
    ///
    /// ```
    /// use patchbay_engine::db::Database;
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::nb::{self, LogicalSwitch};
    /// use patchbay_schemas::uuids::UuidSource;
    ///
    /// let mut original = Database::new(nb::schema());
    /// let mut txn = TxnBuilder::new(&original.snapshot());
    /// let switch = txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
    /// original.transact(txn.finish().operations())?;
    ///
    /// let mut copy = Database::from_snapshot(&original.snapshot(), UuidSource::random())?;
    /// let mut txn = TxnBuilder::new(&copy.snapshot());
    /// txn.delete(switch)?;
    /// copy.transact(txn.finish().operations())?;
    /// assert_eq!(copy.snapshot().row_count(), 0);
    /// assert_eq!(original.snapshot().row_count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The rows violate a constraint of the schema. The replica of a client may do so: it lacks the
    /// tables and rows that the client does not monitor.
    pub fn from_snapshot(snapshot: &Snapshot, uuids: UuidSource) -> Result<Self, DatabaseError> {
        let mut copy = Self::from_empty(snapshot.empty_like(snapshot.schema().clone()), uuids);
        let operations = snapshot.schema().table_ids().flat_map(|table| {
            snapshot.table(table).iter().map(move |row| Operation::Insert {
                table,
                uuid: row.uuid,
                given: None,
                row: InsertRow::from_values(&row.values),
            })
        });
        copy.transact_owned(operations.collect())?;
        Ok(copy)
    }

    /// Adds an index to the present and all later snapshots. O(rows), unless it was declared
    /// before.
    pub fn add_index(&mut self, spec: impl Into<IndexSpec>) {
        self.snapshot.declare_index(spec.into());
    }

    pub(super) fn uuids_mut(&mut self) -> &mut UuidSource {
        &mut self.uuids
    }

    /// Schema of the database.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Committed state. O(1).
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Executes operations and commits them.
    ///
    /// # Errors
    /// An operation failed, the changes violate a constraint, or a `wait` is not satisfied. Nothing
    /// has changed.
    pub fn transact(&mut self, operations: &[Operation]) -> Result<ChangeSet, DatabaseError> {
        self.transact_owned(operations.to_vec())
    }

    fn transact_owned(&mut self, operations: Vec<Operation>) -> Result<ChangeSet, DatabaseError> {
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        match self.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Committed { changes, .. } => Ok(changes),
            Execution::Failed { results, error } => {
                Err(DatabaseError::after(results.len(), &transaction.operations, error))
            }
            Execution::Waiting { .. } => Err(DatabaseError::WaitUnsatisfied),
        }
    }

    /// Executes a decoded `transact` request for a client (RFC 7047 §4.1.3) and commits it.
    ///
    /// ```
    /// use patchbay_engine::db::{Access, Database, Execution};
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
    /// let access = Access {
    ///     read_only: Some("not allowed when database server is in read only mode"),
    ///     ..Access::unrestricted()
    /// };
    /// let Execution::Failed { error, .. } = database.execute(&mut transaction, &access) else {
    ///     panic!("the database is read-only")
    /// };
    /// assert_eq!(
    ///     error.details.as_deref(),
    ///     Some("insert operation not allowed when database server is in read only mode"),
    /// );
    /// # Ok::<(), patchbay_engine::txn::BuildError>(())
    /// ```
    ///
    /// Inserted rows are moved from the transaction into the database. They are copied if the
    /// transaction [may wait](DecodedTransaction::may_wait), because it may have to be executed
    /// again.
    pub fn execute(
        &mut self,
        transaction: &mut DecodedTransaction,
        access: &Access<'_>,
    ) -> Execution {
        self.execute_recorded(transaction, access, |_, _| Ok(()))
    }

    /// Executes and commits a transaction like [`execute`](Self::execute), if `record` accepts its
    /// changes. `record` is called with the operations and the changes before anything is
    /// published, and not for a transaction that changes no rows.
    ///
    /// A writer of a log calls this, so that a commit that cannot be written needs no undoing.
    ///
    /// ```
    /// use patchbay_engine::db::{Access, Database, Execution};
    /// use patchbay_engine::txn::TxnBuilder;
    /// use patchbay_schemas::error::OvsdbError;
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
    /// let full = |_: &_, _: &_| Err(OvsdbError::new("I/O error", "No space left on device"));
    /// let executed = database.execute_recorded(&mut transaction, &Access::unrestricted(), full);
    /// assert!(matches!(executed, Execution::Failed { .. }));
    /// assert_eq!(database.snapshot().row_count(), 0);
    /// # Ok::<(), patchbay_engine::txn::BuildError>(())
    /// ```
    pub fn execute_recorded(
        &mut self,
        transaction: &mut DecodedTransaction,
        access: &Access<'_>,
        record: impl FnOnce(&Operations, &ChangeSet) -> Result<(), OvsdbError>,
    ) -> Execution {
        let mut results = Vec::with_capacity(transaction.operations.len());
        let schema = self.schema.clone();
        let base = self.snapshot.clone();
        let mut overlay = Overlay::new(&base);
        let outcome = Executor::new(&schema, &mut overlay, &mut self.uuids, access)
            .run(transaction, &mut results);
        match outcome {
            Err(Stop::Waiting { deadline_ms }) => return Execution::Waiting { deadline_ms },
            Err(Stop::Error(error)) => return Execution::Failed { results, error },
            Ok(()) => {}
        }
        let mut commit = Commit::new(&schema, &self.columns, &self.references, &mut overlay);
        if let Err(error) = commit.check() {
            return Execution::Failed { results, error };
        }
        let checked = commit.into_changes(&mut self.uuids);
        let changes = &checked.rows;
        if !changes.rows.is_empty()
            && let Err(error) = record(&transaction.operations, changes)
        {
            return Execution::Failed { results, error };
        }
        // The writer must hold the only handle on shared parts to change them in place.
        drop(overlay);
        drop(base);
        let changes = self.publish(checked);
        Execution::Committed { results, changes }
    }

    fn publish(&mut self, checked: CheckedChanges) -> ChangeSet {
        let CheckedChanges { rows: changes, strong_deltas, key_hashes } = checked;
        if changes.rows.is_empty() {
            return changes;
        }
        let Self { columns, references, snapshot, .. } = self;
        let count_references = || {
            references.add_strong(strong_deltas);
            for change in &changes.rows {
                count_weak_references(columns, references, change);
            }
        };
        snapshot.apply_beside(&changes, &key_hashes, count_references);
        changes
    }
}

fn count_weak_references(
    columns: &ReferenceColumns,
    references: &mut References,
    change: &RowChange,
) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let row = RowId::new(change.table, change.uuid());
    for column in columns.of(change.table, RefType::Weak) {
        column.diff(old, new, |target, delta| {
            references.add_weak(RowId::new(column.target, target), row, delta);
        });
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};

    use super::*;
    use crate::txn::TxnBuilder;

    #[test]
    fn a_replica_that_lacks_referenced_rows_cannot_be_copied() {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        let port = txn.insert(&LogicalRouterPort::default()).unwrap();
        let router = LogicalRouter { ports: [port].into(), ..Default::default() };
        txn.insert(&router).unwrap();
        let mut changes = database.transact(txn.finish().operations()).unwrap();
        changes.rows.retain(|change| change.uuid() != port.uuid);
        let mut replica = Snapshot::empty(nb::schema());
        replica.apply(&changes);
        let error = Database::from_snapshot(&replica, UuidSource::random()).unwrap_err();
        assert!(matches!(error, DatabaseError::Commit(_)), "{error}");
    }
}
