//! A copy of a database, to see what transactions would do to it.

use std::collections::HashMap;
use std::sync::Arc;

use patchbay_engine::db::{ChangeSet, Database, DatabaseError, RowChange, Snapshot};
use patchbay_engine::txn::Transaction;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableId;
use patchbay_schemas::wire::{InsertRow, Operation};
use uuid::Uuid;

use super::{CommitError, Northbound};

/// A database to which nothing happens: transactions change a copy, and what they change is noted.
#[derive(Debug)]
pub struct Rehearsal {
    original: Snapshot,
    copy: Database,
}

impl Rehearsal {
    /// A copy of this state.
    ///
    /// # Errors
    /// The state is not a valid database: a server's replica that lacks tables is not.
    pub fn of(original: Snapshot) -> Result<Self, DatabaseError> {
        let schema = original.schema();
        let mut copy = Database::new(schema.clone());
        let mut rows = Vec::with_capacity(original.row_count());
        for table in schema.table_ids() {
            for row in original.table(table).iter() {
                rows.push(Operation::Insert {
                    table,
                    uuid: row.uuid,
                    given: None,
                    row: InsertRow::from_values(&row.values),
                });
            }
        }
        copy.transact(&rows)?;
        Ok(Self { original, copy })
    }

    /// The state before.
    pub fn original(&self) -> &Snapshot {
        &self.original
    }

    /// Every row that is different now.
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
            let gone = before
                .iter()
                .filter(|(uuid, _)| after.get(**uuid).is_none())
                .map(|(_, row)| change(table, Some(row), None));
            let new_or_other = after.iter().filter_map(|row| {
                let old = before.get(&row.uuid).copied();
                let same = old.is_some_and(|old| old.values == row.values);
                (!same).then(|| change(table, old, Some(row)))
            });
            changes.rows.extend(gone.chain(new_or_other));
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

impl Northbound for Rehearsal {
    fn snapshot(&self) -> Snapshot {
        self.copy.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let done = self.copy.transact(transaction.operations());
        done.map(|_| ())
            .map_err(|error| CommitError::Rejected(error.to_string()))
    }

    async fn look_again(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use patchbay_engine::txn::TxnBuilder;
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};

    use super::*;

    #[tokio::test]
    async fn a_rehearsal_shows_what_would_change_and_changes_nothing() {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        let port = txn.insert(&LogicalRouterPort::default()).unwrap();
        let router = LogicalRouter {
            ports: [port].into(),
            ..LogicalRouter::default()
        };
        let router_ref = txn.insert(&router).unwrap();
        database.transact(txn.finish().operations()).unwrap();

        let mut rehearsal = Rehearsal::of(database.snapshot()).unwrap();
        assert!(rehearsal.changes().rows.is_empty());
        let mut txn = TxnBuilder::new(&rehearsal.snapshot());
        txn.delete(router_ref).unwrap();
        txn.insert(&LogicalRouter::default()).unwrap();
        rehearsal.commit(txn.finish()).await.unwrap();
        let changes = rehearsal.changes();
        // The router goes, its port with it, and another router comes.
        assert_eq!(changes.rows.len(), 3);
        assert_eq!(rehearsal.snapshot().row_count(), 1);
        assert_eq!(database.snapshot().row_count(), 2);
    }
}
