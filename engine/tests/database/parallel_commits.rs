//! Transactions so large that tables and references are changed in parallel.

use patchbay_engine::db::{Access, Database, Execution, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::typed::Ref;
use patchbay_schemas::wire::{DecodedTransaction, Operation};
use uuid::Uuid;

/// Number of ports and number of routes. Each exceeds the least number of changes (4,096) for which
/// tables are changed in parallel and keys are compared by their hashes.
const PORTS: usize = 5000;

fn name(i: usize) -> String {
    format!("port {i}")
}

/// For each name, the port that the unique index of names contains.
fn ports_by_name(snapshot: &Snapshot) -> Vec<Option<Ref<LogicalRouterPort>>> {
    let (table, _) = snapshot.schema().table_by_name("Logical_Router_Port").unwrap();
    let port = |i| snapshot.table(table).find(0, &[Datum::scalar(name(i))]);
    (0..PORTS).map(|i| Some(Ref::new(port(i)?.uuid))).collect()
}

/// Inserts a router with ports and routes in one transaction that alternates between the tables.
fn add_router(database: &mut Database) -> (Ref<LogicalRouter>, Vec<Ref<LogicalRouterPort>>) {
    let mut txn = TxnBuilder::new(&database.snapshot());
    let (mut ports, mut routes) = (Vec::new(), Vec::new());
    for i in 0..PORTS {
        let port = LogicalRouterPort { name: name(i), ..LogicalRouterPort::default() };
        ports.push(txn.insert(&port).unwrap());
        let route =
            LogicalRouterStaticRoute { nexthop: name(i), ..LogicalRouterStaticRoute::default() };
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

/// Inserts of ports and routes, which alternate, and then of a router that refers to all of them
/// but the ports `unused`. Port `i` has the name `named(i)`.
fn inserts(named: impl Fn(usize) -> String, unused: &[usize]) -> Vec<Operation> {
    let mut txn = TxnBuilder::new(&Snapshot::empty(nb::schema()));
    let mut router = LogicalRouter::default();
    for i in 0..PORTS {
        let port = LogicalRouterPort { name: named(i), ..LogicalRouterPort::default() };
        let port = txn.insert(&port).unwrap();
        if !unused.contains(&i) {
            router.ports.insert(port);
        }
        let route = txn.insert(&LogicalRouterStaticRoute::default()).unwrap();
        router.static_routes.insert(route);
    }
    txn.insert(&router).unwrap();
    txn.finish().operations().to_vec()
}

fn uuid_of(operation: &mut Operation) -> &mut Uuid {
    match operation {
        Operation::Insert { uuid, .. } => uuid,
        other => panic!("{other:?} is no insert"),
    }
}

/// Number of results, and the error, of a transaction that fails.
fn failure(database: &mut Database, operations: &[Operation]) -> (usize, String) {
    let mut transaction = DecodedTransaction {
        total: operations.len(),
        operations: operations.to_vec().into(),
        failure: None,
    };
    match database.execute(&mut transaction, &Access::unrestricted()) {
        Execution::Failed { results, error } => (results.len(), error.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_taken_uuid_is_the_error() {
    let mut database = Database::new(nb::schema());
    let operations = inserts(name, &[]);
    // Routes have odd positions, ports even ones.
    let mut twice = operations.clone();
    *uuid_of(&mut twice[101]) = *uuid_of(&mut twice[1]);
    *uuid_of(&mut twice[4000]) = *uuid_of(&mut twice[0]);
    let (results, error) = failure(&mut database, &twice);
    assert_eq!(results, 101);
    assert!(error.contains("duplicate uuid"), "{error}");
    assert!(error.contains("Logical_Router_Static_Route"), "{error}");
    assert_eq!(database.snapshot().row_count(), 0);

    database.transact(&operations).unwrap();
    let mut taken = inserts(|i| format!("other {i}"), &[]);
    *uuid_of(&mut taken[58]) = *uuid_of(&mut operations.clone()[0]);
    let (results, error) = failure(&mut database, &taken);
    assert_eq!(results, 58);
    assert!(error.contains("\"Logical_Router_Port\""), "{error}");
    assert_eq!(database.snapshot().row_count(), 2 * PORTS + 1);
}

#[test]
fn references_are_checked_before_unique_keys() {
    let mut database = Database::new(nb::schema());
    let same_names = |i| name(if i == 7 { 3 } else { i });
    let mut operations = inserts(same_names, &[]);
    let (results, error) = failure(&mut database, &operations);
    assert_eq!(results, operations.len());
    assert!(error.contains("identical values"), "{error}");

    // The router refers to the former UUID.
    *uuid_of(&mut operations[20]) = Uuid::from_u128(1);
    let (_, error) = failure(&mut database, &operations);
    assert!(error.contains("references nonexistent row"), "{error}");
}

#[test]
fn a_row_without_references_leaves_its_key_to_another_one() {
    let mut database = Database::new(nb::schema());
    let same_names = |i| name(if i == 7 { 3 } else { i });
    let mut operations = inserts(same_names, &[7]);
    let changes = database.transact(&operations).unwrap();
    assert_eq!(changes.rows.len(), 2 * PORTS);
    let third = Ref::new(*uuid_of(&mut operations[6]));
    assert_eq!(ports_by_name(&database.snapshot())[3], Some(third));

    let mut txn = TxnBuilder::new(&database.snapshot());
    txn.delete(third).unwrap();
    let error = database.transact(txn.finish().operations()).unwrap_err();
    assert!(error.to_string().contains("because of 1 remaining reference(s)"), "{error}");
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
        txn.set_row("Logical_Router_Port", port.uuid, [("name", Datum::scalar(next))]).unwrap();
    }
    for (route, _) in
        database.snapshot().typed::<LogicalRouterStaticRoute>().iter().map(Result::unwrap)
    {
        let policy = [("policy", Datum::scalar("src-ip"))];
        txn.set_row("Logical_Router_Static_Route", route.uuid, policy).unwrap();
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
    assert!(ports_by_name(&database.snapshot()).iter().all(Option::is_none));
    let (_, ports) = add_router(&mut database);
    let found: Vec<_> = ports.into_iter().map(Some).collect();
    assert_eq!(ports_by_name(&database.snapshot()), found);
}
