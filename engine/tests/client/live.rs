//! The client against the real `ovsdb-server`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use patchbay_engine::client::{Client, CommitOutcome, Config};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::json::Json;
use patchbay_schemas::nb::{
    self, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::typed::{Ref, TableRow};

use crate::peer::{FakeServer, Relay};
use crate::real_server::RealServer;
use crate::{impatient, soon, until_live};

fn config(server: &RealServer) -> Config {
    impatient(Config::new(server.remote().parse().unwrap(), "OVN_Northbound"))
}

async fn connect(server: &RealServer) -> Client {
    soon(Client::connect(config(server))).await.unwrap()
}

fn switch(name: &str) -> LogicalSwitch {
    LogicalSwitch { name: name.into(), ..Default::default() }
}

fn port(name: String) -> LogicalRouterPort {
    let mac = "0a:58:00:00:00:01".to_owned();
    let external_ids = [("name".to_owned(), name.clone())].into();
    LogicalRouterPort {
        name,
        mac,
        networks: ["10.0.0.1/24".to_owned()].into(),
        external_ids,
        ..Default::default()
    }
}

async fn add_switch(client: &Client, name: &str) -> CommitOutcome {
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.insert(&switch(name)).unwrap();
    soon(client.transact(txn.finish())).await
}

fn names<T: TableRow>(snapshot: &Snapshot, name: impl Fn(T) -> String) -> BTreeSet<String> {
    snapshot.typed::<T>().iter().map(|row| name(row.unwrap().1)).collect()
}

fn switches(client: &Client) -> BTreeSet<String> {
    names(&client.snapshot(), |switch: LogicalSwitch| switch.name)
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// All rows of a snapshot, in a canonical order.
fn contents(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let schema = snapshot.schema();
    let tables =
        schema.table_ids().flat_map(|id| snapshot.table(id).iter().map(move |row| (id, row)));
    tables
        .map(|(id, row)| {
            (format!("{} {}", schema.table(id).name, row.uuid), format!("{:?}", row.values))
        })
        .collect()
}

#[tokio::test]
async fn own_changes_are_in_the_replica_when_they_are_committed() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;

    let mut txn = TxnBuilder::new(&client.snapshot());
    let port = txn.insert(&port("lrp0".into())).unwrap();
    let router = LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() };
    let placeholder = txn.insert(&router).unwrap();
    let committed = client.transact(txn.finish()).await.into_result().unwrap();

    let (port, router) = (committed.resolve(port), committed.resolve(placeholder));
    assert_ne!(router, placeholder);
    let found = client.snapshot().get(router).unwrap().unwrap();
    assert_eq!((found.name.as_str(), &found.ports), ("lr0", &[port].into()));
    assert_eq!(
        client.snapshot().get(port).unwrap().unwrap().networks,
        ["10.0.0.1/24".to_owned()].into()
    );

    // The snapshot after a commit is never older than the commit.
    for i in 0..100 {
        let current = client.snapshot().get(router).unwrap().unwrap();
        let wanted = LogicalRouter { name: format!("lr{i}"), ..current.clone() };
        let mut txn = TxnBuilder::new(&client.snapshot());
        txn.update(router, &current, &wanted).unwrap();
        client.transact(txn.finish()).await.into_result().unwrap();
        assert_eq!(client.snapshot().get(router).unwrap().unwrap().name, format!("lr{i}"));
    }

    // The unreferenced port is removed with the router.
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.delete(router).unwrap();
    client.transact(txn.finish()).await.into_result().unwrap();
    assert_eq!(client.snapshot().row_count(), 0);
}

#[tokio::test]
async fn changes_of_other_clients_are_visible() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mut changes = one.changes();
    add_switch(&other, "sw0").await.into_result().unwrap();
    let snapshot = soon(changes.next()).await.unwrap();
    assert_eq!(names(&snapshot, |switch: LogicalSwitch| switch.name), set(["sw0"]));
    drop(one);
    assert!(soon(changes.next()).await.is_err());
}

#[tokio::test]
async fn a_snapshot_never_changes() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    let before = client.snapshot();
    add_switch(&client, "sw0").await.into_result().unwrap();
    assert_eq!((before.row_count(), client.snapshot().row_count()), (0, 1));
}

#[tokio::test]
async fn a_rejection_names_the_operation() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.comment("first");
    let sw = txn.insert(&switch("sw0")).unwrap();
    txn.expect(sw, "name", patchbay_schemas::datum::Datum::scalar("other")).unwrap();
    let CommitOutcome::Rejected(error) = client.transact(txn.finish()).await else {
        panic!("it should be rejected")
    };
    assert!(error.is_conflict());
    assert_eq!(
        error.to_string(),
        "the server refused the transaction at operation 2 (wait of Logical_Switch, column name): \
         timed out: \"where\" clause test failed"
    );

    let mut txn = TxnBuilder::new(&client.snapshot());
    let lost = Ref::new(uuid::Uuid::from_u128(7));
    txn.insert(&LogicalRouter { ports: [lost].into(), ..Default::default() }).unwrap();
    let CommitOutcome::Rejected(error) = client.transact(txn.finish()).await else {
        panic!("it should be rejected")
    };
    assert_eq!(error.operation, None);
    assert!(
        error
            .to_string()
            .starts_with("the server refused the transaction: referential integrity violation")
    );
    assert_eq!(client.snapshot().row_count(), 0);
}

#[tokio::test]
async fn many_transactions_are_pipelined() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    let transactions: Vec<_> = (0..500)
        .map(|i| {
            let client = client.clone();
            tokio::spawn(async move {
                add_switch(&client, &format!("sw{i}")).await.into_result().map(|_| ())
            })
        })
        .collect();
    for transaction in transactions {
        soon(transaction).await.unwrap().unwrap();
    }
    assert_eq!(switches(&client).len(), 500);
}

#[tokio::test]
async fn a_large_router_is_inserted_and_changed() {
    const PORTS: usize = 8000;
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    let mut txn = TxnBuilder::new(&client.snapshot());
    let mut router = LogicalRouter { name: "lr0".into(), ..Default::default() };
    for i in 0..PORTS {
        router.ports.insert(txn.insert(&port(format!("lrp{i}"))).unwrap());
        let route = LogicalRouterStaticRoute {
            ip_prefix: format!("10.{}.{}.0/24", i / 256, i % 256),
            nexthop: "10.0.0.2".into(),
            ..Default::default()
        };
        router.static_routes.insert(txn.insert(&route).unwrap());
    }
    let router = txn.insert(&router).unwrap();
    let committed = soon(client.transact(txn.finish())).await.into_result().unwrap();
    let router = committed.resolve(router);
    assert_eq!(client.snapshot().row_count(), 2 * PORTS + 1);

    let current = client.snapshot().get(router).unwrap().unwrap();
    let mut wanted = current.clone();
    wanted.ports.pop_first();
    let mut txn = TxnBuilder::new(&client.snapshot());
    wanted.ports.insert(txn.insert(&port("one more".into())).unwrap());
    txn.update(router, &current, &wanted).unwrap();
    soon(client.transact(txn.finish())).await.into_result().unwrap();
    assert_eq!(client.snapshot().row_count(), 2 * PORTS + 1);

    let fresh = connect(&server).await;
    assert_eq!(contents(&client.snapshot()), contents(&fresh.snapshot()));
}

#[tokio::test]
async fn the_replica_equals_the_database_after_random_changes() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let (writer, reader) = (connect(&server).await, connect(&server).await);
    // Fixed steps of a linear congruential generator: the same changes in every run.
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for step in 0..150 {
        let snapshot = writer.snapshot();
        let routers: BTreeMap<Ref<LogicalRouter>, LogicalRouter> =
            snapshot.typed::<LogicalRouter>().iter().map(Result::unwrap).collect();
        let mut txn = TxnBuilder::new(&snapshot);
        let chosen = routers.iter().nth(random(routers.len().max(1) as u64) as usize);
        match (random(6), chosen) {
            (0, Some((router, _))) if routers.len() > 4 => txn.delete(*router).unwrap(),
            (1..=4, Some((router, current))) => {
                let mut wanted = current.clone();
                for i in 0..random(12) {
                    wanted.ports.insert(txn.insert(&port(format!("lrp{step}.{i}"))).unwrap());
                    wanted
                        .external_ids
                        .insert(format!("k{}", random(40)), format!("v{}", random(3)));
                    wanted.options.remove(&format!("o{}", random(4)));
                    wanted.options.insert(format!("o{}", random(4)), String::new());
                }
                for _ in 0..random(12) {
                    wanted.ports.pop_first();
                    wanted.external_ids.remove(&format!("k{}", random(40)));
                }
                wanted.enabled = [None, Some(true), Some(false)][random(3) as usize];
                txn.update(*router, current, &wanted).unwrap();
            }
            _ => {
                txn.insert(&LogicalRouter { name: format!("lr{step}"), ..Default::default() })
                    .unwrap();
            }
        }
        soon(writer.transact(txn.finish())).await.into_result().unwrap();
    }
    let truth = contents(&connect(&server).await.snapshot());
    assert!(truth.len() > 20);
    assert_eq!(contents(&writer.snapshot()), truth);
    let mut changes = reader.changes();
    while contents(&reader.snapshot()) != truth {
        soon(changes.next()).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_survives_a_restart_of_its_server() {
    let mut server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    add_switch(&client, "sw0").await.into_result().unwrap();
    let before = client.snapshot();

    server.kill();
    until_live(&client, false).await;
    assert_eq!(switches(&client), set(["sw0"]));
    assert!(matches!(add_switch(&client, "sw1").await, CommitOutcome::NotSent(_)));

    server.start_again();
    until_live(&client, true).await;
    // Unchanged rows keep their memory.
    let (id, _) = before.schema().table_by_name("Logical_Switch").unwrap();
    let row = before.table(id).iter().next().unwrap();
    assert!(Arc::ptr_eq(row, client.snapshot().row(id, row.uuid).unwrap()));
    add_switch(&client, "sw1").await.into_result().unwrap();
    assert_eq!(switches(&client), set(["sw0", "sw1"]));
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_after_a_restart_of_the_server() {
    let mut server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    server.hold();
    let outcome = tokio::spawn({
        let client = client.clone();
        async move { add_switch(&client, "sw0").await }
    });
    // Long enough for the request to be in the held server's socket.
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    let CommitOutcome::Unknown(unknown) = outcome.await.unwrap() else {
        panic!("the outcome should be unknown")
    };
    server.start_again();
    let snapshot = soon(client.wait_for_resync(&unknown)).await.unwrap();
    assert_eq!(snapshot.row_count(), 0);
}

#[tokio::test]
async fn a_change_whose_reply_was_lost_is_found_after_a_resync() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let front = FakeServer::start();
    let client = tokio::spawn(Client::connect(impatient(Config::new(
        format!("{},{}", front.remote(), server.remote()).parse().unwrap(),
        "OVN_Northbound",
    ))));
    let mut relay = Relay::accept(&front, &server.socket()).await;
    let relayed = tokio::spawn(async move {
        let transact = relay.until_request("transact").await;
        (relay, transact)
    });
    let client = soon(client).await.unwrap().unwrap();
    let outcome = tokio::spawn({
        let client = client.clone();
        async move { add_switch(&client, "sw0").await }
    });
    let (mut relay, transact) = soon(relayed).await.unwrap();

    // The connection breaks while the request is in transit, and the client uses another remote.
    drop((front, relay.client));
    let CommitOutcome::Unknown(unknown) = soon(outcome).await.unwrap() else {
        panic!("the outcome should be unknown")
    };
    until_live(&client, true).await;
    assert_eq!(client.snapshot().row_count(), 0);

    // The outcome stays unknown until the server has finished with the broken connection.
    let resynced = tokio::spawn({
        let client = client.clone();
        async move { client.wait_for_resync(&unknown).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!resynced.is_finished());
    relay.server.send(&transact).await;
    drop(relay.server);
    assert_eq!(
        names(&soon(resynced).await.unwrap(), |switch: LogicalSwitch| { switch.name }),
        set(["sw0"])
    );
}

#[tokio::test]
async fn a_connect_error_names_each_remote() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let remotes = format!("unix:/nonexistent/socket,{}", server.remote());
    let error =
        Client::connect(Config::new(remotes.parse().unwrap(), "OVN_Southbound")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot use database OVN_Southbound: unix:/nonexistent/socket: No such file or directory (os error 2); \
             {}: no database OVN_Southbound: the server has OVN_Northbound, _Server",
            server.remote()
        )
    );
    // The first usable remote is used.
    let config = Config::new(remotes.parse().unwrap(), "OVN_Northbound");
    assert!(soon(Client::connect(config)).await.is_ok());
}

#[tokio::test]
async fn the_installed_schema_is_usable() {
    let server = RealServer::with_installed_schema();
    let config = config(&server)
        .with_table::<LogicalRouter>()
        .with_table::<LogicalRouterPort>()
        .with_table::<LogicalSwitch>();
    let client = soon(Client::connect(config)).await.unwrap();
    add_switch(&client, "sw0").await.into_result().unwrap();
    assert_eq!(switches(&client), set(["sw0"]));
    assert!(
        !client.snapshot().typed::<LogicalRouterStaticRoute>().exists()
            || client.snapshot().row_count() == 1
    );
}

/// The Northbound schema with edited tables.
fn edited(edit: impl FnOnce(&mut BTreeMap<Vec<u8>, Json>)) -> String {
    let mut schema = Json::parse(nb::SCHEMA_TEXT.as_bytes()).unwrap();
    let Json::Object(members) = &mut schema else { panic!("a schema is an object") };
    let Some(Json::Object(tables)) = members.get_mut(&b"tables"[..]) else {
        panic!("a schema has tables")
    };
    edit(tables);
    members.remove(&b"cksum"[..]);
    schema.to_text()
}

fn columns<'a>(
    tables: &'a mut BTreeMap<Vec<u8>, Json>,
    table: &str,
) -> &'a mut BTreeMap<Vec<u8>, Json> {
    let Some(Json::Object(table)) = tables.get_mut(table.as_bytes()) else {
        panic!("the table is there")
    };
    let Some(Json::Object(columns)) = table.get_mut(&b"columns"[..]) else {
        panic!("a table has columns")
    };
    columns
}

#[tokio::test]
async fn tables_and_columns_that_an_older_schema_lacks_are_left_out() {
    let server = RealServer::start(&edited(|tables| {
        columns(tables, "Logical_Switch").remove(&b"other_config"[..]).unwrap();
        tables.remove(&b"Sample"[..]).unwrap();
        for column in ["sample_new", "sample_est"] {
            columns(tables, "ACL").remove(column.as_bytes()).unwrap();
        }
    }));
    let config = config(&server).with_table::<LogicalSwitch>().with_table::<nb::Sample>();
    let client = soon(Client::connect(config)).await.unwrap();
    assert!(!client.snapshot().typed::<nb::Sample>().exists());
    add_switch(&client, "sw0").await.into_result().unwrap();
    assert_eq!(switches(&client), set(["sw0"]));

    let mut txn = TxnBuilder::new(&client.snapshot());
    let other_config = [("subnet".to_owned(), "10.0.0.0/24".to_owned())].into();
    let error = txn.insert(&LogicalSwitch { other_config, ..switch("sw1") }).unwrap_err();
    assert!(matches!(error, BuildError::NoColumn { .. }), "{error}");
    assert!(matches!(txn.insert(&nb::Sample::default()), Err(BuildError::NoTable { .. })));
}

#[tokio::test]
async fn a_restarted_server_may_have_an_older_or_newer_schema() {
    let mut server = RealServer::start(nb::SCHEMA_TEXT);
    let client = connect(&server).await;
    let mut txn = TxnBuilder::new(&client.snapshot());
    let with_config = LogicalSwitch {
        other_config: [("subnet".to_owned(), "10.0.0.0/24".to_owned())].into(),
        ..switch("sw0")
    };
    let row = txn.insert(&with_config).unwrap();
    let committed = soon(client.transact(txn.finish())).await;
    let row = committed.into_result().unwrap().resolve(row);

    let older = edited(|tables| {
        columns(tables, "Logical_Switch").remove(&b"other_config"[..]).unwrap();
    });
    for (schema, has) in [(&*older, false), (nb::SCHEMA_TEXT, true)] {
        server.kill();
        until_live(&client, false).await;
        server.convert(schema);
        server.start_again();
        until_live(&client, true).await;
        let snapshot = client.snapshot();
        let (_, table) = snapshot.schema().table_by_name("Logical_Switch").unwrap();
        assert_eq!(table.column_id("other_config").is_some(), has);
        // The values of the removed column are lost.
        assert_eq!(snapshot.get(row).unwrap().unwrap(), switch("sw0"));
    }
    add_switch(&client, "sw1").await.into_result().unwrap();
    assert_eq!(switches(&client), set(["sw0", "sw1"]));
}

#[tokio::test]
async fn a_newer_schema_is_usable() {
    let server = RealServer::start(&edited(|tables| {
        let string = || Json::object([("type", Json::string("string"))]);
        columns(tables, "Logical_Switch").insert(b"later".to_vec(), string());
        let table = Json::object([
            ("columns", Json::object([("name", string())])),
            ("isRoot", Json::Bool(true)),
        ]);
        tables.insert(b"Later".to_vec(), table);
    }));
    let client = connect(&server).await;
    add_switch(&client, "sw0").await.into_result().unwrap();
    assert_eq!(switches(&client), set(["sw0"]));
}
