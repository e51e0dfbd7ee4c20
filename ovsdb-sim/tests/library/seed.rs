//! UUIDs that are drawn from a seed.

use std::collections::BTreeMap;

use ovsdb_sim::Sim;
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch};
use uuid::Uuid;

/// Adds initial rows, rows of the simulator's owner, and rows of two clients with named UUIDs.
/// Returns the UUIDs by name.
async fn fill(seed: u64) -> BTreeMap<String, Uuid> {
    let sim = Sim::builder()
        .seed(seed)
        .rows("OVN_Northbound", |txn| txn.insert(&switch("first")).map(drop))
        .rows("OVN_Northbound", |txn| txn.insert(&switch("second")).map(drop))
        .build()
        .unwrap();
    let database = sim.database("OVN_Northbound").unwrap();
    for name in ["third", "fourth"] {
        let mut txn = database.txn();
        let uuid = txn.insert(&switch(name)).unwrap().uuid;
        database.transact(&txn.finish()).unwrap();
        assert_eq!(names(&database.snapshot())[name], uuid);
    }
    for client in ["a", "b"] {
        let config = Config::new(sim.connector().into(), "OVN_Northbound");
        let connected = Client::connect(config).await.unwrap();
        for number in 0..2 {
            let mut txn = TxnBuilder::new(&connected.snapshot());
            let port =
                LogicalRouterPort { name: format!("port {client}{number}"), ..Default::default() };
            let router = LogicalRouter {
                name: format!("router {client}{number}"),
                ports: [txn.insert(&port).unwrap()].into(),
                ..Default::default()
            };
            txn.insert(&router).unwrap();
            connected.transact(txn.finish()).await.into_result().unwrap();
        }
    }
    names(&database.snapshot())
}

fn switch(name: &str) -> LogicalSwitch {
    LogicalSwitch { name: name.to_owned(), ..Default::default() }
}

fn names(snapshot: &Snapshot) -> BTreeMap<String, Uuid> {
    let switches = snapshot.typed::<LogicalSwitch>();
    let routers = snapshot.typed::<LogicalRouter>();
    let ports = snapshot.typed::<LogicalRouterPort>();
    let switches = switches.iter().map(|row| row.unwrap()).map(|(at, row)| (row.name, at.uuid));
    let routers = routers.iter().map(|row| row.unwrap()).map(|(at, row)| (row.name, at.uuid));
    let ports = ports.iter().map(|row| row.unwrap()).map(|(at, row)| (row.name, at.uuid));
    switches.chain(routers).chain(ports).collect()
}

#[tokio::test]
async fn the_same_seed_and_the_same_steps_give_the_same_uuids() {
    let (one, again, other) = (fill(7).await, fill(7).await, fill(8).await);
    assert_eq!(one.len(), 12);
    assert_eq!(one, again);
    let mut different: Vec<&Uuid> = one.values().chain(other.values()).collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 24);
}

#[test]
fn errors_of_initial_rows_name_the_database() {
    let no_database = Sim::builder().rows("Nowhere", |_| Ok(())).build();
    let error = no_database.unwrap_err().to_string();
    assert_eq!(error, "there is no database Nowhere to put rows into");
    let twice = Sim::builder().rows("OVN_Northbound", |txn| {
        for _ in 0..2 {
            txn.insert(&LogicalRouterPort { name: "twice".into(), ..Default::default() })?;
        }
        Ok(())
    });
    // Nothing refers to the ports, so they are collected at once, and their names do not conflict.
    assert_eq!(
        twice.build().unwrap().database("OVN_Northbound").unwrap().snapshot().row_count(),
        0
    );
    let bad = Sim::builder().rows("OVN_Northbound", |txn| {
        let router = txn.insert(&LogicalRouter::default())?;
        txn.mutate_insert(
            router,
            "ports",
            patchbay_schemas::datum::Datum::scalar(Uuid::from_u128(1)),
        )
    });
    let error = bad.build().unwrap_err().to_string();
    assert!(error.starts_with("the initial rows of database OVN_Northbound: "), "{error}");
    assert!(error.contains("referential integrity violation"), "{error}");
}
