//! What a transaction that somebody else has executed does to a copy of the database.

use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};

use super::change::{ChangeSet, RowChange};
use super::execute::{Access, Executor};
use super::overlay::{Overlay, Touched};
use super::snapshot::Snapshot;

impl Snapshot {
    /// The changes that operations make by themselves. Constraints are not looked at, and no row goes because nothing
    /// refers to it any more: whoever has executed the operations has done that. None when they fail on this copy.
    pub(crate) fn expected(&self, operations: Vec<Operation>) -> Option<ChangeSet> {
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations,
            failure: None,
        };
        let mut overlay = Overlay::new(self);
        let (mut versions, access) = (UuidSource::seeded(0), Access::unrestricted());
        Executor::new(self.schema(), &mut overlay, &mut versions, &access)
            .run(&mut transaction, &mut Vec::new())
            .ok()?;
        let tables = self.schema().table_ids().zip(overlay.tables);
        let rows = tables.flat_map(|(table, touched)| {
            touched.into_values().filter_map(move |row| {
                let Touched { old, new, .. } = row;
                let same =
                    matches!((&old, &new), (Some(old), Some(new)) if old.values == new.values);
                (!same).then_some(RowChange { table, old, new })
            })
        });
        Some(ChangeSet {
            rows: rows.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
    use patchbay_schemas::row::Values;
    use patchbay_schemas::typed::Ref;
    use uuid::Uuid;

    use super::*;
    use crate::db::Database;
    use crate::txn::TxnBuilder;

    fn database() -> (Database, Ref<LogicalRouter>) {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        let port = txn.insert(&LogicalRouterPort::default()).unwrap();
        let router = LogicalRouter {
            name: "lr0".into(),
            ports: [port].into(),
            options: [("chassis".to_owned(), "here".to_owned())].into(),
            ..Default::default()
        };
        let router = txn.insert(&router).unwrap();
        database.transact(txn.finish().operations()).unwrap();
        (database, router)
    }

    /// What becomes of each row.
    fn by_row(changes: &ChangeSet) -> BTreeMap<Uuid, [Option<&Values>; 2]> {
        let mut rows = BTreeMap::new();
        for change in &changes.rows {
            let values = [&change.old, &change.new].map(|row| row.as_ref().map(|row| &row.values));
            rows.insert(change.uuid(), values);
        }
        rows
    }

    #[test]
    fn what_operations_that_add_do_is_what_the_database_makes_of_them() {
        let (mut database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        let ports: Vec<_> = (0..3)
            .map(|i| {
                let name = format!("lrp{i}");
                let port = LogicalRouterPort {
                    name,
                    ..Default::default()
                };
                txn.insert(&port).unwrap()
            })
            .collect();
        txn.add(router, LogicalRouter::PORTS, ports[..2].to_vec())
            .unwrap();
        // What is there already stays.
        let options = [("chassis", "there"), ("mcast_relay", "true")];
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
        txn.put(router, LogicalRouter::OPTIONS, options).unwrap();
        txn.verify(router, LogicalRouter::NAME).unwrap();
        txn.insert(&LogicalRouter {
            name: "lr1".into(),
            ports: [ports[2]].into(),
            ..Default::default()
        })
        .unwrap();
        let transaction = txn.finish();
        let expected = database
            .snapshot()
            .expected(transaction.operations().to_vec())
            .unwrap();
        assert_eq!(expected.rows.len(), 5);
        let made = database.transact(transaction.operations()).unwrap();
        assert_eq!(by_row(&expected), by_row(&made));
    }

    #[test]
    fn what_changes_nothing_is_no_change() {
        let (database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        let there = database.snapshot().get(router).unwrap().unwrap().ports;
        txn.add(router, LogicalRouter::PORTS, there).unwrap();
        let operations = txn.finish().operations().to_vec();
        let expected = database.snapshot().expected(operations);
        assert!(expected.unwrap().rows.is_empty());
    }

    #[test]
    fn operations_that_fail_on_the_copy_say_nothing() {
        let (database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.verify(router, LogicalRouter::NAME).unwrap();
        let operations = txn.finish().operations().to_vec();
        let other = Snapshot::empty(nb::schema());
        assert!(other.expected(operations).is_none());
    }
}
