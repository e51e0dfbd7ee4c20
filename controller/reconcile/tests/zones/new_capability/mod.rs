//! A capability that only this test has: its folder and one line make the zone run it.

mod capability;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_engine::client::OpError;
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::Transaction;
use patchbay_model::ClusterSettings;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{CommitError, Embedded, Northbound, ReconnectError};
use patchbay_reconcile::zone::{ZoneError, ZoneReconciler, capabilities, rows};
use patchbay_rows::ObjectName;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::nb::Dns;
use patchbay_schemas::uuids::UuidSource;

use super::cluster_of;
use capability::Records;

/// A database that rejects rows of `DNS` while it is told to.
struct Rejecting {
    database: Embedded,
    rejects: bool,
}

impl Northbound for Rejecting {
    fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let mut params = Vec::new();
        transaction.write_params(&mut params);
        if self.rejects && String::from_utf8(params).unwrap().contains(r#""table":"DNS""#) {
            let error = OvsdbError::new("constraint violation", "no records");
            let operation = None;
            return Err(OpError { operation, error }.into());
        }
        self.database.commit(transaction).await
    }

    async fn wait_for_outcome(&mut self) -> Result<(), ReconnectError> {
        self.database.wait_for_outcome().await
    }
}

/// A zone that runs the capability, too.
fn zone() -> ZoneReconciler<Rejecting> {
    let mut uuids = UuidSource::seeded(0);
    let mut all = capabilities(&mut uuids);
    all.push(rows::<Records>(&mut uuids));
    let northbound = Rejecting { database: Embedded::new(0).unwrap(), rejects: false };
    ZoneReconciler::with_capabilities("n1", northbound, uuids, all)
}

/// A cluster of namespaces with labels, and of one without.
fn cluster(namespaces: &[(&str, &str)]) -> Cluster {
    let other = [("other", "{}")];
    let namespaces = namespaces.iter().chain(&other).map(|(name, labels)| {
        format!(
            "---\n{{apiVersion: v1, kind: Namespace, \
             metadata: {{name: {name}, labels: {labels}}}}}\n"
        )
    });
    cluster_of(&namespaces.collect::<String>(), ClusterSettings::default())
}

fn records(zone: &ZoneReconciler<Rejecting>) -> BTreeMap<String, String> {
    let snapshot = zone.northbound().snapshot();
    let rows = snapshot.typed::<Dns>();
    let rows = rows.iter().map(|row| row.unwrap().1);
    rows.flat_map(|row| row.records).collect()
}

fn of<const N: usize>(records: [(&str, &str); N]) -> BTreeMap<String, String> {
    let records = records.map(|(name, record)| (name.to_owned(), record.to_owned()));
    records.into()
}

#[tokio::test]
async fn a_capability_of_one_folder_and_one_line_is_reconciled() {
    let mut zone = zone();
    let both = cluster(&[("blue", "{record: a}"), ("green", "{record: b}")]);
    let outcome = zone.reconcile(&both).await.unwrap();
    assert_eq!(outcome.problems, []);
    assert_eq!(records(&zone), of([("blue", "a"), ("green", "b")]));
    assert!(zone.is_reconciled(&both));

    let wrong = cluster(&[("blue", "{record: ''}"), ("green", "{record: c}")]);
    assert!(!zone.is_reconciled(&wrong));
    let outcome = zone.reconcile(&wrong).await.unwrap();
    let problems: Vec<String> = outcome.problems.iter().map(ToString::to_string).collect();
    let expected = "Namespace blue: metadata.labels[record]: is empty, so there is no record";
    assert_eq!(problems, [expected]);
    assert_eq!(records(&zone), of([("green", "c")]));
}

#[tokio::test]
async fn its_rows_stay_while_a_namespace_may_be_missing() {
    let mut zone = zone();
    zone.reconcile(&cluster(&[("blue", "{record: a}")])).await.unwrap();
    let mut unlisted = cluster(&[]);
    unlisted.inventory.unlisted.insert("Namespace");
    zone.reconcile(&unlisted).await.unwrap();
    assert_eq!(records(&zone), of([("blue", "a")]));
    zone.reconcile(&cluster(&[])).await.unwrap();
    assert_eq!(records(&zone), of([]));
}

#[tokio::test]
async fn rows_of_objects_that_are_not_named_are_kept_and_named() {
    let mut zone = zone();
    let both = [("blue", "{record: a}"), ("green", "{record: b}")];
    zone.reconcile(&cluster(&both)).await.unwrap();
    zone.set_recorded(Some(Arc::new(BTreeSet::from([ObjectName::from("Namespace green")]))));
    let outcome = zone.reconcile(&cluster(&[])).await.unwrap();
    let kept: Vec<&str> = outcome.kept.iter().map(|row| row.object.as_str()).collect();
    assert_eq!(kept, ["Namespace blue"]);
    assert_eq!(records(&zone), of([("blue", "a")]));
}

#[tokio::test]
async fn a_rejection_has_the_error_of_the_server_and_its_subject() {
    let mut zone = zone();
    zone.northbound_mut().rejects = true;
    let error = zone.reconcile(&cluster(&[("blue", "{record: a}")])).await;
    let Err(ZoneError::Commit { subject, source: CommitError::Rejected(rejected) }) = error else {
        panic!("{error:?}");
    };
    assert_eq!((subject.as_str(), &*rejected.error.tag), ("records", "constraint violation"));
    assert_eq!(rejected.error.details.as_deref(), Some("no records"));
}
