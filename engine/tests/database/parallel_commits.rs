//! Transactions so large that tables and references are changed in parallel.

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::typed::Ref;

/// Number of ports and number of routes. Together they exceed the least number of changes (4,096)
/// for which tables are changed in parallel.
const PORTS: usize = 3000;

fn name(i: usize) -> String {
    format!("port {i}")
}

/// For each name, the port that the unique index of names contains.
fn ports_by_name(snapshot: &Snapshot) -> Vec<Option<Ref<LogicalRouterPort>>> {
    let (table, _) = snapshot
        .schema()
        .table_by_name("Logical_Router_Port")
        .unwrap();
    let port = |i| snapshot.table(table).find(0, &[Datum::scalar(name(i))]);
    (0..PORTS).map(|i| Some(Ref::new(port(i)?.uuid))).collect()
}

/// Inserts a router with ports and routes in one transaction that alternates between the tables.
fn add_router(database: &mut Database) -> (Ref<LogicalRouter>, Vec<Ref<LogicalRouterPort>>) {
    let mut txn = TxnBuilder::new(&database.snapshot());
    let (mut ports, mut routes) = (Vec::new(), Vec::new());
    for i in 0..PORTS {
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
    assert_eq!(changes.rows.len(), 2 * PORTS + 1);
    (router, ports)
}

#[test]
fn unique_keys_can_be_swapped_and_reused() {
    let mut database = Database::new(nb::schema());
    let (router, ports) = add_router(&mut database);
    let found: Vec<_> = ports.iter().copied().map(Some).collect();
    assert_eq!(ports_by_name(&database.snapshot()), found);

    // Each port gets the name of the next one.
    let mut txn = TxnBuilder::new(&database.snapshot());
    for (i, port) in ports.iter().enumerate() {
        let next = name((i + 1) % PORTS);
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
    assert_eq!(changes.rows.len(), 2 * PORTS);
    let mut rotated = found;
    rotated.rotate_right(1);
    assert_eq!(ports_by_name(&database.snapshot()), rotated);

    // Without the router, no row refers to the ports and routes. They are deleted, and their names
    // are free.
    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.delete(router).unwrap();
    let changes = database.transact(txn.finish().operations()).unwrap();
    assert_eq!(changes.rows.len(), 2 * PORTS + 1);
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
