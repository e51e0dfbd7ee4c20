//! A database with its one writer.

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::{DatabaseSchema, RefType};
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};

use super::change::{ChangeSet, RowChange};
use super::commit::Commit;
use super::execute::{Access, Execution, Executor, Stop};
use super::index_spec::IndexSpec;
use super::overlay::Overlay;
use super::references::{ReferenceColumns, References, StrongDeltas};
use super::snapshot::{self, Snapshot};

/// Why [`Database::transact`] changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// An operation failed.
    #[error("operation {index} ({operation}): {error}")]
    Operation {
        /// Its place, from 0.
        index: usize,
        /// Its name.
        operation: &'static str,
        /// What is wrong.
        error: OvsdbError,
    },
    /// The changes together break a constraint.
    #[error("commit: {0}")]
    Commit(OvsdbError),
    /// A `wait` is not satisfied.
    #[error("a wait operation is not satisfied")]
    Blocked,
}

impl DatabaseError {
    /// The error after so many of these operations have succeeded.
    pub fn after(succeeded: usize, operations: &[Operation], error: OvsdbError) -> Self {
        match operations.get(succeeded) {
            Some(operation) => Self::Operation {
                index: succeeded,
                operation: operation.name(),
                error,
            },
            None => Self::Commit(error),
        }
    }
}

impl From<DatabaseError> for OvsdbError {
    /// The words alone.
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Operation { error, .. } | DatabaseError::Commit(error) => error,
            DatabaseError::Blocked => Self::new("timed out", "\"where\" clause test failed"),
        }
    }
}

/// An in-memory OVSDB database.
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
///
/// let mut database = Database::new(nb::schema());
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
/// txn.insert(&LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() })?;
/// let changes = database.transact(txn.finish().operations())?;
/// assert_eq!(changes.rows.len(), 2);
/// assert_eq!(database.snapshot().typed::<LogicalRouterPort>().len(), 1);
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
    /// An empty database with random UUIDs.
    pub fn new(schema: Arc<DatabaseSchema>) -> Self {
        Self::with_uuids(schema, UuidSource::random())
    }

    /// An empty database whose row versions come from `uuids`.
    pub fn with_uuids(schema: Arc<DatabaseSchema>, uuids: UuidSource) -> Self {
        let columns = ReferenceColumns::new(&schema);
        let snapshot = Snapshot::empty(schema.clone());
        Self {
            schema,
            columns,
            snapshot,
            references: References::default(),
            uuids,
        }
    }

    /// Adds an index to this and all later snapshots. O(rows), unless it was declared before.
    pub fn add_index(&mut self, spec: impl Into<IndexSpec>) {
        self.snapshot.declare(spec.into());
    }

    /// Takes over the indexes of a database that this one takes the place of.
    pub(super) fn keep_indexes(&mut self, former: &Self) {
        self.snapshot = former.snapshot.empty_like(self.schema.clone());
    }

    pub(super) fn uuids_mut(&mut self) -> &mut UuidSource {
        &mut self.uuids
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// The committed state.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Executes operations and commits them.
    ///
    /// # Errors
    /// Nothing changed: an operation failed, the commit did, or a `wait` is not satisfied.
    pub fn transact(&mut self, operations: &[Operation]) -> Result<ChangeSet, DatabaseError> {
        let mut transaction = DecodedTransaction {
            operations: operations.to_vec(),
            failure: None,
            total: operations.len(),
        };
        match self.execute(&mut transaction, &Access::unrestricted()) {
            Execution::Committed { changes, .. } => Ok(changes),
            Execution::Failed { results, error } => {
                Err(DatabaseError::after(results.len(), operations, error))
            }
            Execution::Blocked { .. } => Err(DatabaseError::Blocked),
        }
    }

    /// Executes a decoded request for a client.
    ///
    /// The rows to insert are moved into the database; only of a transaction that
    /// [may wait](DecodedTransaction::may_wait), and so may have to be executed again, they are copied.
    pub fn execute(
        &mut self,
        transaction: &mut DecodedTransaction,
        access: &Access<'_>,
    ) -> Execution {
        let mut results = Vec::with_capacity(transaction.operations.len());
        let schema = self.schema.clone();
        let base = self.snapshot.clone();
        let mut overlay = Overlay::new(&base);
        let outcome = Executor::new(&schema, &mut overlay, &mut self.uuids, access)
            .run(transaction, &mut results);
        match outcome {
            Err(Stop::Blocked { deadline }) => return Execution::Blocked { deadline },
            Err(Stop::Error(error)) => return Execution::Failed { results, error },
            Ok(()) => {}
        }
        let mut commit = Commit::new(&schema, &self.columns, &self.references, &mut overlay);
        if let Err(error) = commit.check() {
            return Execution::Failed { results, error };
        }
        let (changes, strong) = commit.into_changes(&mut self.uuids);
        // The writer must hold the only handle on shared parts to change them in place.
        drop(overlay);
        drop(base);
        self.publish(&changes, strong);
        Execution::Committed { results, changes }
    }

    fn publish(&mut self, changes: &ChangeSet, strong: StrongDeltas) {
        if changes.rows.is_empty() {
            return;
        }
        let Self {
            columns,
            references,
            snapshot,
            ..
        } = self;
        let refer = || {
            references.add_strong(strong);
            for change in &changes.rows {
                count_weak_references(columns, references, change);
            }
        };
        if changes.rows.len() < snapshot::MANY {
            refer();
            snapshot.apply(changes);
        } else {
            rayon::join(refer, || snapshot.apply(changes));
        }
    }
}

fn count_weak_references(
    columns: &ReferenceColumns,
    references: &mut References,
    change: &RowChange,
) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let row = (change.table, change.uuid());
    for column in columns.of(change.table, RefType::Weak) {
        column.diff(old, new, |target, delta| {
            references.add_weak((column.target, target), row, delta);
        });
    }
}
