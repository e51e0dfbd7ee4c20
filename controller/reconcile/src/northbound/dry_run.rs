//! A dry run on a database, which shows what transactions would change.

use std::collections::HashMap;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Database, RowChange, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::uuids::UuidSource;
use uuid::Uuid;

use super::{CommitError, Northbound, ReconnectError};

/// A database that transactions do not change. They change a copy, which the first of them makes;
/// [`changes`](Self::changes) compares it with the original.
#[derive(Debug)]
pub struct DryRun {
    original: Snapshot,
    /// `None`: there was no transaction.
    copy: Option<Database>,
}

impl DryRun {
    /// A dry run on the rows of a snapshot.
    pub fn new(original: Snapshot) -> Self {
        Self { original, copy: None }
    }

    /// The snapshot without the transactions.
    pub fn original(&self) -> &Snapshot {
        &self.original
    }

    /// Returns every row whose values differ from the original. O(rows) after a transaction.
    pub fn changes(&self) -> ChangeSet {
        let mut changes = ChangeSet::default();
        let Some(copy) = &self.copy else {
            return changes;
        };
        let now = copy.snapshot();
        for table in now.schema().table_ids() {
            let before: HashMap<Uuid, &Arc<Row>> =
                self.original.table(table).iter().map(|row| (row.uuid, row)).collect();
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

    /// The copy. O(rows) when it is made.
    fn copy(&mut self) -> Result<&mut Database, CommitError> {
        let copy = match self.copy.take() {
            Some(copy) => copy,
            None => Database::from_snapshot(&self.original, UuidSource::random())
                .map_err(|error| CommitError::NotCopied(Box::new(error)))?,
        };
        Ok(self.copy.insert(copy))
    }
}

fn change(table: TableId, old: Option<&Arc<Row>>, new: Option<&Arc<Row>>) -> RowChange {
    RowChange { table, old: old.cloned(), new: new.cloned() }
}

impl Northbound for DryRun {
    fn snapshot(&self) -> Snapshot {
        let copy = self.copy.as_ref();
        copy.map_or_else(|| self.original.clone(), Database::snapshot)
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        self.copy()?.transact(transaction.operations())?;
        Ok(())
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
        let router = LogicalRouter { ports: [port].into(), ..LogicalRouter::default() };
        let router_ref = txn.insert(&router).unwrap();
        database.transact(txn.finish().operations()).unwrap();

        let mut dry_run = DryRun::new(database.snapshot());
        assert!(dry_run.changes().rows.is_empty());
        assert!(dry_run.copy.is_none(), "nothing has changed, and nothing is copied");
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
