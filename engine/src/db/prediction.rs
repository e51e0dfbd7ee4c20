//! Prediction of the changes that a committed transaction makes to a copy of the database.

use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};

use super::change::{ChangeSet, RowChange};
use super::execute::Executor;
use super::execution::Access;
use super::overlay::{Overlay, TouchedRow, TouchedTable};
use super::snapshot::Snapshot;

impl Snapshot {
    /// Row changes that the operations themselves make to this copy of the database.
    ///
    /// Constraints are not checked and garbage is not collected, because the server has done both
    /// when it executed the operations. Returns `None` if an operation fails on this copy.
    pub(crate) fn predict_changes(&self, operations: Vec<Operation>) -> Option<ChangeSet> {
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        let mut overlay = Overlay::new(self);
        let (mut versions, access) = (UuidSource::seeded(0), Access::unrestricted());
        Executor::new(self.schema(), &mut overlay, &mut versions, &access)
            .without_unique_keys()
            .run(&mut transaction, &mut Vec::new())
            .ok()?;
        let changed = |table, TouchedRow { old, new, .. }| {
            let same = matches!((&old, &new), (Some(old), Some(new)) if old.values == new.values);
            (!same).then_some(RowChange { table, old, new })
        };
        let rows = overlay
            .tables
            .into_iter()
            .flat_map(|TouchedTable { id, rows }| {
                rows.into_values().filter_map(move |row| changed(id, row))
            })
            .collect();
        Some(ChangeSet { rows })
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

    /// Values of each changed row before and after.
    fn by_row(changes: &ChangeSet) -> BTreeMap<Uuid, [Option<&Values>; 2]> {
        let mut rows = BTreeMap::new();
        for change in &changes.rows {
            let values = [&change.old, &change.new].map(|row| row.as_ref().map(|row| &row.values));
            rows.insert(change.uuid(), values);
        }
        rows
    }

    #[test]
    fn predicted_changes_of_inserts_and_mutations_are_those_of_the_database() {
        let (mut database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        let ports: Vec<_> = (0..3)
            .map(|i| {
                let name = format!("lrp{i}");
                let port = LogicalRouterPort { name, ..Default::default() };
                txn.insert(&port).unwrap()
            })
            .collect();
        txn.add(router, LogicalRouter::PORTS, ports[..2].to_vec()).unwrap();
        // `chassis` has a value already.
        let options = [("chassis", "there"), ("mcast_relay", "true")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        txn.put(router, LogicalRouter::OPTIONS, options).unwrap();
        txn.verify(router, LogicalRouter::NAME).unwrap();
        txn.insert(&LogicalRouter {
            name: "lr1".into(),
            ports: [ports[2]].into(),
            ..Default::default()
        })
        .unwrap();
        let transaction = txn.finish();
        let predicted =
            database.snapshot().predict_changes(transaction.operations().to_vec()).unwrap();
        assert_eq!(predicted.rows.len(), 5);
        let committed = database.transact(transaction.operations()).unwrap();
        assert_eq!(by_row(&predicted), by_row(&committed));
    }

    #[test]
    fn an_operation_that_changes_nothing_predicts_no_change() {
        let (database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        let ports = database.snapshot().get(router).unwrap().unwrap().ports;
        txn.add(router, LogicalRouter::PORTS, ports).unwrap();
        let operations = txn.finish().operations().to_vec();
        let predicted = database.snapshot().predict_changes(operations);
        assert!(predicted.unwrap().rows.is_empty());
    }

    #[test]
    fn operations_that_fail_on_the_copy_predict_nothing() {
        let (database, router) = database();
        let mut txn = TxnBuilder::new(&database.snapshot());
        txn.verify(router, LogicalRouter::NAME).unwrap();
        let operations = txn.finish().operations().to_vec();
        let other = Snapshot::empty(nb::schema());
        assert!(other.predict_changes(operations).is_none());
    }
}
