//! Embedded clients behave like clients with a connection.

use std::time::Duration;

use ovsdb_sim::{Sim, SimDatabase};
use patchbay_engine::client::{Client, CommitOutcome, Config};
use patchbay_engine::db::OperationResult;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch};
use tokio::time::timeout;

/// Two simulators, one with an embedded client and one with a connection.
async fn clients() -> Vec<(Sim, SimDatabase, Client)> {
    let mut beds = Vec::new();
    for embedded in [true, false] {
        let sim = Sim::builder().build().unwrap();
        let database = sim.database("OVN_Northbound").unwrap();
        let client = if embedded {
            database.client()
        } else {
            let config = Config::new(sim.connector().into(), "OVN_Northbound");
            Client::connect(config).await.unwrap()
        };
        beds.push((sim, database, client));
    }
    assert_eq!(beds[0].0.connections(), [], "an embedded client has no connection");
    assert_eq!(beds[1].0.connections().len(), 1);
    beds
}

fn switch(name: &str) -> LogicalSwitch {
    LogicalSwitch { name: name.to_owned(), ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn commits_are_in_the_snapshot() {
    for (_sim, database, client) in clients().await {
        assert!(client.is_live());
        let mut txn = TxnBuilder::new(&client.snapshot());
        let port = LogicalRouterPort { name: "lrp0".into(), ..Default::default() };
        let router = LogicalRouter {
            name: "lr0".into(),
            ports: [txn.insert(&port).unwrap()].into(),
            ..Default::default()
        };
        let router = txn.insert(&router).unwrap();
        let committed = client.transact(txn.finish()).await.into_result().unwrap();
        assert!(matches!(
            committed.results[..],
            [OperationResult::Inserted(_), OperationResult::Inserted(_)]
        ));
        let row = client.snapshot().get(committed.resolve(router)).unwrap().unwrap();
        assert_eq!((&*row.name, row.ports.len()), ("lr0", 1));
        assert_eq!(database.snapshot().row_count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn rejections_have_the_same_errors() {
    let mut said = Vec::new();
    for (_sim, database, client) in clients().await {
        let mut txn = database.txn();
        let row = txn.insert(&switch("sw0")).unwrap();
        database.transact(&txn.finish()).unwrap();
        let mut changes = client.changes();
        while client.snapshot().row_count() == 0 {
            changes.next().await.unwrap();
        }
        let mut words = Vec::new();
        let mut txn = TxnBuilder::new(&client.snapshot());
        txn.expect(row, "name", Datum::scalar("other")).unwrap();
        txn.delete(row).unwrap();
        let CommitOutcome::Rejected(conflict) = client.transact(txn.finish()).await else {
            panic!("the row is another")
        };
        assert!(conflict.is_conflict());
        words.push(conflict.to_string().replace(&row.uuid.to_string(), "ROW"));
        let mut txn = TxnBuilder::new(&client.snapshot());
        let nobody = Datum::scalar(uuid::Uuid::from_u128(1));
        txn.mutate_insert(row, "ports", nobody).unwrap();
        let CommitOutcome::Rejected(refused) = client.transact(txn.finish()).await else {
            panic!("there is no such port")
        };
        words.push(refused.to_string().replace(&row.uuid.to_string(), "ROW"));
        said.push(words);
        assert_eq!(client.snapshot().row_count(), 1);
    }
    assert!(said[0][1].contains("referential integrity violation"), "{said:?}");
    assert_eq!(said[0], said[1]);
}

#[tokio::test(start_paused = true)]
async fn changes_of_others_are_reported() {
    for (sim, database, client) in clients().await {
        let mut changes = client.changes();
        let nothing = timeout(Duration::from_secs(3600), changes.next()).await;
        assert!(nothing.is_err());
        let other =
            Client::connect(Config::new(sim.connector().into(), "OVN_Northbound")).await.unwrap();
        let mut txn = TxnBuilder::new(&other.snapshot());
        txn.insert(&switch("sw0")).unwrap();
        other.transact(txn.finish()).await.into_result().unwrap();
        let seen = changes.next().await.unwrap();
        assert_eq!(seen.typed::<LogicalSwitch>().len(), 1);
        drop(database);
    }
}
