//! Transactions that are too large for one request, on the real server and on ovsdb-sim.

use ovsdb_sim::Model;
use patchbay_engine::client::{Client, CommitError, Config, Guard};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
use patchbay_schemas::typed::Ref;

use crate::served::{Served, real_of, simulated_of};
use crate::{connect, soon};

const PORTS: usize = 60;

/// Maximum length of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 2000;

fn add_port(txn: &mut TxnBuilder, router: Ref<LogicalRouter>, name: String) {
    let port = LogicalRouterPort {
        name,
        networks: ["10.0.0.1/24".to_owned()].into(),
        ..Default::default()
    };
    let port = txn.insert(&port).unwrap();
    txn.add(router, LogicalRouter::PORTS, [port]).unwrap();
}

/// A router and its ports, which later parts add to the router that the first part inserts.
fn router_in_parts(client: &Client, name: &str) -> (Ref<LogicalRouter>, Vec<Transaction>) {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let router = LogicalRouter { name: name.to_owned(), ..Default::default() };
    let router = txn.insert(&router).unwrap();
    for number in 0..PORTS {
        txn.allow_split();
        add_port(&mut txn, router, format!("{name}-{number}"));
    }
    (router, txn.finish_split(MAX_REQUEST_BYTES).unwrap())
}

fn port_names(client: &Client, router: Ref<LogicalRouter>) -> Vec<String> {
    let snapshot = client.snapshot();
    let router = snapshot.get(router).unwrap().unwrap();
    let name = |port: &Ref<LogicalRouterPort>| snapshot.get(*port).unwrap().unwrap().name;
    let mut names: Vec<_> = router.ports.iter().map(name).collect();
    names.sort();
    names
}

async fn client(served: &Served, guarded: bool) -> Client {
    let mut config = Config::new(served.remote().parse().unwrap(), "OVN_Northbound");
    config.guard = guarded.then(|| Guard::new("DNS", "external_ids", "parts"));
    connect(config).await
}

async fn later_parts_resolve_rows_of_earlier_ones(served: Served, guarded: bool) {
    let client = client(&served, guarded).await;
    let (router, parts) = router_in_parts(&client, "lr0");
    let count = parts.len();
    assert!(count > 3 && count < PORTS, "{count} parts");
    let outcome = soon(client.transact_parts(parts)).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.parts, count);
    let router = outcome.committed.resolve(router);
    let mut wanted: Vec<_> = (0..PORTS).map(|number| format!("lr0-{number}")).collect();
    wanted.sort();
    assert_eq!(port_names(&client, router), wanted);
    assert_eq!(outcome.committed.results.len(), 1 + 2 * PORTS);

    // No part is sent after a rejected one.
    let (router, mut parts) = router_in_parts(&client, "lr1");
    let mut refused = TxnBuilder::new(&client.snapshot());
    let missing = Ref::<LogicalRouter>::new(uuid::Uuid::from_u128(7));
    refused.expect(missing, "name", Datum::scalar("missing")).unwrap();
    parts.insert(2, refused.finish());
    let outcome = soon(client.transact_parts(parts)).await;
    assert_eq!(outcome.parts, 2);
    let Some(CommitError::Rejected(error)) = outcome.error else { panic!("{:?}", outcome.error) };
    assert!(error.is_conflict(), "{error}");
    let made = port_names(&client, outcome.committed.resolve(router)).len();
    assert!(made > 1 && made < PORTS, "{made}");
}

#[tokio::test]
async fn a_real_server_makes_a_transaction_in_parts() {
    later_parts_resolve_rows_of_earlier_ones(real_of(nb::SCHEMA_TEXT), false).await;
    later_parts_resolve_rows_of_earlier_ones(real_of(nb::SCHEMA_TEXT), true).await;
}

#[tokio::test]
async fn the_simulator_makes_a_transaction_in_parts() {
    later_parts_resolve_rows_of_earlier_ones(
        simulated_of(nb::SCHEMA_TEXT, Model::Standalone).await,
        false,
    )
    .await;
    later_parts_resolve_rows_of_earlier_ones(
        simulated_of(nb::SCHEMA_TEXT, Model::Standalone).await,
        true,
    )
    .await;
}
