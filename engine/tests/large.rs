//! Transactions so large that tables and references are changed at the same time.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::typed::Ref;

/// Of ports, and of routes: together more than what is changed one after the other.
const COUNT: usize = 3000;

fn name(i: usize) -> String {
    format!("port {i}")
}

/// The port that the index of names has under each name.
fn ports_by_name(snapshot: &Snapshot) -> Vec<Option<Ref<LogicalRouterPort>>> {
    let (table, _) = snapshot
        .schema()
        .table_by_name("Logical_Router_Port")
        .unwrap();
    let port = |i| snapshot.table(table).find(0, &[Datum::scalar(name(i))]);
    let ports = (0..COUNT).map(|i| Some(Ref::new(port(i)?.uuid)));
    ports.collect()
}

/// A router with ports and routes, made in one transaction that takes turns between the tables.
fn add_router(database: &mut Database) -> (Ref<LogicalRouter>, Vec<Ref<LogicalRouterPort>>) {
    let mut txn = TxnBuilder::new(&database.snapshot());
    let (mut ports, mut routes) = (Vec::new(), Vec::new());
    for i in 0..COUNT {
        let port = LogicalRouterPort {
            name: name(i),
            ..LogicalRouterPort::default()
        };
        ports.push(txn.insert(&port).unwrap());
        let route = LogicalRouterStaticRoute {
            nexthop: name(i),
            ..LogicalRouterStaticRoute::default()
        };
        routes.push(txn.insert(&route).unwrap());
    }
    let router = LogicalRouter {
        ports: ports.iter().copied().collect(),
        static_routes: routes.iter().copied().collect(),
        ..LogicalRouter::default()
    };
    let router = txn.insert(&router).unwrap();
    let changes = database.transact(txn.finish().operations()).unwrap();
    assert_eq!(changes.rows.len(), 2 * COUNT + 1);
    (router, ports)
}

#[test]
fn index_keys_are_swapped_and_given_back() {
    let mut database = Database::new(nb::schema());
    let (router, ports) = add_router(&mut database);
    let found: Vec<_> = ports.iter().copied().map(Some).collect();
    assert_eq!(ports_by_name(&database.snapshot()), found);

    // Each port takes the name of the next one.
    let mut txn = TxnBuilder::new(&database.snapshot());
    for (i, port) in ports.iter().enumerate() {
        let next = name((i + 1) % COUNT);
        txn.set_row(
            "Logical_Router_Port",
            port.uuid,
            [("name", Datum::scalar(next))],
        )
        .unwrap();
    }
    for (route, _) in database
        .snapshot()
        .typed::<LogicalRouterStaticRoute>()
        .iter()
        .map(Result::unwrap)
    {
        let policy = [("policy", Datum::scalar("src-ip"))];
        txn.set_row("Logical_Router_Static_Route", route.uuid, policy)
            .unwrap();
    }
    let changes = database.transact(txn.finish().operations()).unwrap();
    assert_eq!(changes.rows.len(), 2 * COUNT);
    let mut rotated = found;
    rotated.rotate_right(1);
    assert_eq!(ports_by_name(&database.snapshot()), rotated);

    // Nothing refers to them without the router, so that all go; then their names are free.
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.delete(router).unwrap();
    let changes = database.transact(txn.finish().operations()).unwrap();
    assert_eq!(changes.rows.len(), 2 * COUNT + 1);
    assert_eq!(database.snapshot().row_count(), 0);
    assert!(
        ports_by_name(&database.snapshot())
            .iter()
            .all(Option::is_none)
    );
    let (_, ports) = add_router(&mut database);
    let found: Vec<_> = ports.into_iter().map(Some).collect();
    assert_eq!(ports_by_name(&database.snapshot()), found);
}
