//! Bulk transactions, during which the client has no monitor.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::client::{
    ChangeEvent, Client, CommitOutcome, Config, Filter, FollowedTables, Guard,
};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort, LogicalSwitch};
use patchbay_schemas::typed::Ref;
use patchbay_schemas::wire::Function;
use tokio::task::JoinHandle;

use crate::peer::{FakeServer, Peer, ROW, SCHEMA, ZERO, one_switch};
use crate::real_server::RealServer;
use crate::{impatient, soon, until_live};

/// All rows of a snapshot.
fn contents(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let schema = snapshot.schema();
    let tables = schema.table_ids();
    let rows = tables.flat_map(|id| snapshot.table(id).iter().map(move |row| (id, row)));
    let name = |id| &schema.table(id).name;
    rows.map(|(id, row)| (format!("{} {}", name(id), row.uuid), format!("{row:?}"))).collect()
}

fn config(server: &RealServer) -> Config {
    let mut config = impatient(Config::new(server.remote().parse().unwrap(), "OVN_Northbound"));
    config.bulk_rows = Some(1000);
    config
}

/// `count` ports of a new router, and as many of an existing one.
fn ports(snapshot: &Snapshot, old: Ref<LogicalRouter>, count: usize) -> Transaction {
    let mut txn = TxnBuilder::new(snapshot);
    let mut ports = |prefix: &str| -> BTreeSet<_> {
        let port = |i| LogicalRouterPort {
            name: format!("{prefix}{i}"),
            networks: [format!("10.0.{}.{}/16", i / 256, i % 256)].into(),
            external_ids: [("port of".to_owned(), prefix.to_owned())].into(),
            ..Default::default()
        };
        let inserted = (0..count).map(|i| txn.insert(&port(i)).unwrap());
        inserted.collect()
    };
    let (of_new, of_old) = (ports("new"), ports("old"));
    let new = LogicalRouter { name: "new".into(), ports: of_new, ..Default::default() };
    txn.insert(&new).unwrap();
    txn.add(old, LogicalRouter::PORTS, of_old).unwrap();
    txn.finish()
}

/// Adds a router to the database.
async fn add_router(client: &Client) -> Ref<LogicalRouter> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let router = LogicalRouter {
        name: "old".into(),
        options: [("chassis".to_owned(), "here".to_owned())].into(),
        ..Default::default()
    };
    let router = txn.insert(&router).unwrap();
    let committed = soon(client.transact(txn.finish())).await.into_result();
    committed.unwrap().resolve(router)
}

async fn connect(config: Config) -> Client {
    soon(Client::connect(config)).await.unwrap()
}

#[tokio::test]
async fn a_bulk_transaction_is_shown_at_once_and_then_read() {
    let selections: [fn(Config) -> Config; 5] = [
        |config| config,
        |config| config.with_columns("Logical_Router", ["name", "ports"]),
        |config| config.with_columns("Logical_Router_Port", ["name", "external_ids"]),
        |config| {
            let equal = |name: &str| Filter::column("name", Function::Equal, Datum::scalar(name));
            config.with_filter("Logical_Router_Port", equal("new7").or(equal("old8")))
        },
        |mut config| {
            config.guard = Some(Guard::new("DNS", "external_ids", "bulk"));
            config
        },
    ];
    for select in selections {
        let server = RealServer::start(nb::SCHEMA_TEXT);
        let router = add_router(&connect(config(&server)).await).await;
        let client = connect(select(config(&server))).await;
        let mut events = client.follow(FollowedTables::all()).unwrap();
        let (guard, _) = client.snapshot().schema().table_by_name("DNS").unwrap();
        let transaction = ports(&client.snapshot(), router, 600);
        let outcome = soon(client.transact(transaction)).await;
        let shown = client.snapshot();
        outcome.into_result().unwrap();
        until_live(&client, true).await;
        // No row is reported twice.
        let mut reported = BTreeSet::new();
        while events.queued_rows() > 0 {
            let (ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed)) =
                soon(events.next()).await.unwrap()
            else {
                panic!("nothing was lost");
            };
            let rows = changed.rows().iter().filter(|row| row.table != guard);
            for row in rows {
                assert!(reported.insert(row.uuid()));
            }
        }
        assert!(!reported.is_empty());
        let mut alone = select(config(&server));
        alone.guard = None;
        let read = contents(&connect(alone).await.snapshot());
        assert_eq!(contents(&client.snapshot()), read);
        let without_guard = |mut rows: BTreeMap<String, String>| {
            rows.retain(|row, _| !row.starts_with("DNS"));
            rows
        };
        assert_eq!(without_guard(contents(&shown)), without_guard(read));
    }
}

/// A client that suspends its monitor for two inserted rows, and its scripted server.
async fn live_client(with: impl FnOnce(&mut Config)) -> (Client, Peer, FakeServer) {
    client_with(&one_switch("a"), with).await
}

async fn client_with(contents: &str, with: impl FnOnce(&mut Config)) -> (Client, Peer, FakeServer) {
    let server = FakeServer::start();
    let mut config = impatient(Config::new(server.remote().parse().unwrap(), "D"));
    config.bulk_rows = Some(2);
    with(&mut config);
    let client = tokio::spawn(Client::connect(config));
    let peer = server.accept_live(contents).await;
    (soon(client).await.unwrap().unwrap(), peer, server)
}

fn transact(client: &Client, change: impl FnOnce(&mut TxnBuilder)) -> JoinHandle<CommitOutcome> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    change(&mut txn);
    let (client, transaction) = (client.clone(), txn.finish());
    tokio::spawn(async move { client.transact(transaction).await })
}

fn insert(txn: &mut TxnBuilder, names: &[&str]) {
    for name in names {
        let name = (*name).to_owned();
        let switch = LogicalSwitch { name, ..Default::default() };
        txn.insert(&switch).unwrap();
    }
}

fn names(client: &Client) -> BTreeSet<String> {
    let switches = client.snapshot();
    let switches = switches.typed::<LogicalSwitch>();
    switches.iter().map(|row| row.unwrap().1.name).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

const SECOND: &str = "00000000-0000-4000-8000-000000000002";
const THIRD: &str = "00000000-0000-4000-8000-000000000003";

/// Reply to a transaction that inserts two rows.
fn inserted() -> String {
    let result = |row| format!(r#"{{"uuid":["uuid","{row}"]}}"#);
    format!(r#""result":[{},{}],"error":null"#, result(SECOND), result(THIRD))
}

/// Starts a bulk transaction and receives it.
async fn bulk(client: &Client, peer: &mut Peer) -> JoinHandle<CommitOutcome> {
    let outcome = transact(client, |txn| insert(txn, &["b", "c"]));
    assert_eq!(peer.request().await, "monitor_cancel");
    peer.answer(r#""result":{},"error":null"#).await;
    assert_eq!(peer.request().await, "transact");
    outcome
}

/// Lets the client read the database again.
async fn read_anew(client: &Client, peer: &mut Peer, rows: &[(&str, &str)]) {
    peer.answer_schema(SCHEMA).await;
    assert_eq!(peer.request().await, "monitor_cond_since");
    let row = |(uuid, name)| format!(r#""{uuid}":{{"initial":{{"name":"{name}"}}}}"#);
    let rows: Vec<String> = rows.iter().copied().map(row).collect();
    peer.answer_monitor(&format!(r#"{{"Logical_Switch":{{{}}}}}"#, rows.join(","))).await;
    until_live(client, true).await;
}

#[tokio::test]
async fn changes_of_other_clients_appear_after_a_bulk_transaction() {
    let (client, mut peer, _server) = live_client(|_| {}).await;
    let mut events = client.follow(FollowedTables::all()).unwrap();
    let outcome = bulk(&client, &mut peer).await;
    assert!(!client.is_live());
    // Sent before the server has read `monitor_cancel`.
    peer.send(&format!(
        r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Logical_Switch":{{"{ROW}":{{"modify":{{"name":"z"}}}}}}}}]}}"#
    ))
    .await;
    let next = transact(&client, |txn| insert(txn, &["d"]));
    peer.answer(&inserted()).await;
    peer.id = patchbay_schemas::json::Json::Null;
    let outcome = soon(outcome).await.unwrap();
    outcome.into_result().unwrap();
    assert_eq!(names(&client), set(["a", "b", "c"]));
    let rows = [(ROW, "z"), (SECOND, "b"), (THIRD, "other")];
    read_anew(&client, &mut peer, &rows).await;
    assert_eq!(names(&client), set(["z", "b", "other"]));

    let rows = |event: ChangeEvent| match event {
        ChangeEvent::Committed(changed) => (true, changed.rows().len()),
        ChangeEvent::Resynced(changed) => (false, changed.rows().len()),
        ChangeEvent::Lagged(_) => panic!("nothing was lost"),
    };
    assert_eq!(rows(soon(events.next()).await.unwrap()), (true, 2));
    assert_eq!(rows(soon(events.next()).await.unwrap()), (false, 2));
    // The transaction that was queued meanwhile is sent now.
    assert_eq!(peer.request().await, "transact");
    peer.answer(r#""error":"no""#).await;
    assert!(matches!(soon(next).await.unwrap(), CommitOutcome::Rejected(_)));
}

#[tokio::test]
async fn a_rejection_is_delivered_when_the_replica_is_live() {
    let (client, mut peer, _server) = live_client(|_| {}).await;
    let outcome = bulk(&client, &mut peer).await;
    peer.answer(r#""result":[{"uuid":["uuid","00000000-0000-4000-8000-000000000002"]},{"error":"no"}],"error":null"#)
        .await;
    assert!(!outcome.is_finished());
    read_anew(&client, &mut peer, &[(ROW, "z")]).await;
    let outcome = soon(outcome).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Rejected(_)));
    assert_eq!(names(&client), set(["z"]));

    // A rejection is delivered when the connection is lost.
    let outcome = bulk(&client, &mut peer).await;
    peer.answer(r#""result":[{"uuid":["uuid","00000000-0000-4000-8000-000000000002"]},{"error":"no"}],"error":null"#)
        .await;
    assert_eq!(peer.request().await, "get_schema");
    drop(peer);
    let outcome = soon(outcome).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Rejected(_)));
}

#[tokio::test]
async fn a_connection_lost_during_a_bulk_transaction_leaves_the_outcome_unknown() {
    let (client, mut peer, server) = live_client(|_| {}).await;
    let outcome = bulk(&client, &mut peer).await;
    drop(peer);
    let outcome = soon(outcome).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Unknown(_)));
    let _peer = server.accept_live(&one_switch("b")).await;
    until_live(&client, true).await;
    assert_eq!(names(&client), set(["b"]));
}

#[tokio::test]
async fn changes_that_the_client_cannot_compute_are_read_first() {
    let (client, mut peer, _server) = live_client(|_| {}).await;
    let outcome = bulk_beyond_the_replica(&client, &mut peer).await;
    assert!(!outcome.is_finished());
    let rows = [(ROW, "z"), (SECOND, "b"), (THIRD, "c")];
    read_anew(&client, &mut peer, &rows).await;
    soon(outcome).await.unwrap().into_result().unwrap();
    assert_eq!(names(&client), set(["z", "b", "c"]));
}

#[tokio::test]
async fn the_monitor_is_not_suspended_without_the_conditions() {
    type With = fn(&mut Config);
    type Change = Box<dyn FnOnce(&mut TxnBuilder)>;
    let nothing: With = |_| {};
    let row = || Ref::<LogicalSwitch>::new(ROW.parse().unwrap());
    let cases: [(&str, With, bool, Change); 4] = [
        (
            "not configured",
            |config| config.bulk_rows = None,
            false,
            Box::new(|txn| insert(txn, &["b", "c"])),
        ),
        ("few rows", nothing, false, Box::new(|txn| insert(txn, &["b"]))),
        (
            "rows go",
            nothing,
            false,
            Box::new(move |txn| {
                insert(txn, &["b", "c"]);
                txn.delete(row()).unwrap();
            }),
        ),
        ("a lock", nothing, true, Box::new(|txn| insert(txn, &["b", "c"]))),
    ];
    for (case, with, lock, change) in cases {
        let (client, mut peer, _server) = live_client(with).await;
        let lock = lock.then(|| client.lock("l").unwrap());
        if lock.is_some() {
            assert_eq!(peer.request().await, "lock");
        }
        let _outcome = transact(&client, change);
        assert_eq!(peer.request().await, "transact", "{case}");
        assert!(client.is_live(), "{case}");
    }
}

#[tokio::test]
async fn the_monitor_is_not_suspended_for_a_replica_of_many_more_rows() {
    for (there, method) in [(5, "monitor_cancel"), (6, "transact")] {
        let rows: Vec<String> = (1..=there)
            .map(|i| {
                let (uuid, _) = ROW.split_at(ROW.len() - 1);
                format!(r#""{uuid}{i}":{{"initial":{{"name":"{i}"}}}}"#)
            })
            .collect();
        let contents = format!(r#"{{"Logical_Switch":{{{}}}}}"#, rows.join(","));
        let (client, mut peer, _server) = client_with(&contents, |_| {}).await;
        let _outcome = transact(&client, |txn| insert(txn, &["b", "c", "d", "e"]));
        assert_eq!(peer.request().await, method, "{there}");
    }
}

/// A bulk transaction that the client cannot execute itself: it expects a name that only the server
/// has.
async fn bulk_beyond_the_replica(client: &Client, peer: &mut Peer) -> JoinHandle<CommitOutcome> {
    let outcome = transact(client, |txn| {
        insert(txn, &["b", "c"]);
        let row = Ref::<LogicalSwitch>::new(ROW.parse().unwrap());
        txn.expect(row, "name", Datum::scalar("z")).unwrap();
    });
    assert_eq!(peer.request().await, "monitor_cancel");
    peer.answer(r#""error":{"error":"unknown monitor"}"#).await;
    assert_eq!(peer.request().await, "transact");
    peer.answer(&inserted().replacen("}]", "},{}]", 1)).await;
    outcome
}

#[tokio::test]
async fn a_commit_is_visible_when_it_is_delivered_after_a_lost_connection() {
    let (client, mut peer, server) = live_client(|_| {}).await;
    let outcome = bulk_beyond_the_replica(&client, &mut peer).await;
    // The outcome is held back while the database is read again.
    assert_eq!(peer.request().await, "get_schema");
    drop(peer);
    let mut peer = server.accept().await;
    peer.serve_until_monitor().await;
    assert!(!outcome.is_finished());
    let row = |uuid, name| format!(r#""{uuid}":{{"initial":{{"name":"{name}"}}}}"#);
    let rows = [row(ROW, "z"), row(SECOND, "b"), row(THIRD, "c")].join(",");
    peer.answer_monitor(&format!(r#"{{"Logical_Switch":{{{rows}}}}}"#)).await;
    let outcome = soon(outcome).await.unwrap();
    outcome.into_result().unwrap();
    assert_eq!(names(&client), set(["z", "b", "c"]));
}

#[tokio::test]
async fn the_reply_to_monitor_cancel_may_be_late() {
    let (client, mut peer, _server) = live_client(|_| {}).await;
    let outcome = transact(&client, |txn| insert(txn, &["b", "c"]));
    assert_eq!(peer.request().await, "monitor_cancel");
    let cancel = peer.id.clone();
    assert_eq!(peer.request().await, "transact");
    peer.answer(&inserted()).await;
    soon(outcome).await.unwrap().into_result().unwrap();
    peer.id = cancel;
    peer.answer(r#""result":{},"error":null"#).await;
    let rows = [(ROW, "a"), (SECOND, "b"), (THIRD, "c")];
    read_anew(&client, &mut peer, &rows).await;
}

#[tokio::test]
async fn a_partly_received_update_is_applied() {
    let (client, mut peer, _server) = live_client(|_| {}).await;
    let name = "x".repeat(40 << 10);
    let row = |i: usize, name: &str| {
        format!(r#""00000000-0000-4000-8000-0000000001{i:02}":{{"insert":{{"name":"{name}"}}}}"#)
    };
    let update = format!(
        r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Logical_Switch":{{{},{}}}}}]}}"#,
        row(1, &name),
        row(2, "last")
    );
    let (first, rest) = update.split_at(update.len() - 50);
    peer.send(first).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let outcome = transact(&client, |txn| insert(txn, &["b", "c"]));
    assert_eq!(peer.request().await, "transact");
    peer.send(rest).await;
    peer.answer(&inserted()).await;
    soon(outcome).await.unwrap().into_result().unwrap();
    assert!(client.is_live());
    assert_eq!(names(&client), set(["a", "last", &name]));
}
