//! A copy of a database that shows what transactions would change.

use std::collections::HashMap;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Database, DatabaseError, RowChange, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::uuids::UuidSource;
use uuid::Uuid;

use super::{CommitError, Northbound, ReconnectError};

/// A copy of a database. Transactions change the copy; [`changes`](Self::changes) compares it with
/// the original.
#[derive(Debug)]
pub struct DryRun {
    original: Snapshot,
    copy: Database,
}

impl DryRun {
    /// Copies the rows of a snapshot. O(rows).
    ///
    /// # Errors
    /// The rows violate a constraint of the schema. The replica of a client may do so if it lacks
    /// tables.
    pub fn new(original: Snapshot) -> Result<Self, DatabaseError> {
        let copy = Database::from_snapshot(&original, UuidSource::random())?;
        Ok(Self { original, copy })
    }

    /// The snapshot that was copied.
    pub fn original(&self) -> &Snapshot {
        &self.original
    }

    /// Returns every row whose values differ from the original. O(rows).
    pub fn changes(&self) -> ChangeSet {
        let now = self.copy.snapshot();
        let mut changes = ChangeSet::default();
        for table in now.schema().table_ids() {
            let before: HashMap<Uuid, &Arc<Row>> = self
                .original
                .table(table)
                .iter()
                .map(|row| (row.uuid, row))
                .collect();
            let after = now.table(table);
            let deleted = before
                .iter()
                .filter(|(uuid, _)| after.get(**uuid).is_none())
                .map(|(_, row)| change(table, Some(row), None));
            let inserted_or_changed = after.iter().filter_map(|row| {
                let old = before.get(&row.uuid).copied();
                let same = old.is_some_and(|old| old.values == row.values);
                (!same).then(|| change(table, old, Some(row)))
            });
            changes.rows.extend(deleted.chain(inserted_or_changed));
        }
        changes
    }
}

fn change(table: TableId, old: Option<&Arc<Row>>, new: Option<&Arc<Row>>) -> RowChange {
    RowChange {
        table,
        old: old.cloned(),
        new: new.cloned(),
    }
}

impl Northbound for DryRun {
    fn snapshot(&self) -> Snapshot {
        self.copy.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        self.copy
            .transact(transaction.operations())
            .map(|_| ())
            .map_err(|error| CommitError::Rejected(error.to_string()))
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use patchbay_engine::txn::TxnBuilder;
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};

    use super::*;

    #[tokio::test]
    async fn a_dry_run_collects_the_changes_and_leaves_the_original_as_it_is() {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        let port = txn.insert(&LogicalRouterPort::default()).unwrap();
        let router = LogicalRouter {
            ports: [port].into(),
            ..LogicalRouter::default()
        };
        let router_ref = txn.insert(&router).unwrap();
        database.transact(txn.finish().operations()).unwrap();

        let mut dry_run = DryRun::new(database.snapshot()).unwrap();
        assert!(dry_run.changes().rows.is_empty());
        let mut txn = TxnBuilder::new(&dry_run.snapshot());
        txn.delete(router_ref).unwrap();
        txn.insert(&LogicalRouter::default()).unwrap();
        dry_run.commit(txn.finish()).await.unwrap();
        let changes = dry_run.changes();
        // The router and its port are deleted, another router is inserted.
        assert_eq!(changes.rows.len(), 3);
        assert_eq!(dry_run.snapshot().row_count(), 1);
        assert_eq!(database.snapshot().row_count(), 2);
    }
}
