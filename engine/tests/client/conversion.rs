//! Changes of the schema while transactions, filters or the setup are in progress.

use std::process::Command;
use std::time::Duration;

use patchbay_engine::client::{Client, CommitOutcome, Config, Filter, Pipelining};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Json;
use patchbay_schemas::nb::LogicalSwitch;
use patchbay_schemas::wire::Function;
use tokio::task::JoinHandle;

use crate::peer::{FakeServer, Peer, ROW, Relay, SCHEMA, one_switch};
use crate::real_server::RealServer;
use crate::{impatient, soon, until_live};

const OTHER: &str = "00000000-0000-4000-8000-000000000002";

const CANCELED: &str = r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#;

fn config(server: &FakeServer) -> Config {
    impatient(Config::new(server.remote().parse().unwrap(), "D"))
}

async fn live_client(config: Config, server: &FakeServer) -> (Client, Peer) {
    let client = tokio::spawn(Client::connect(config));
    let peer = server.accept_live(&one_switch("a")).await;
    (soon(client).await.unwrap().unwrap(), peer)
}

fn names(client: &Client) -> Vec<String> {
    let snapshot = client.snapshot();
    let mut names: Vec<_> =
        snapshot.typed::<LogicalSwitch>().iter().map(|row| row.unwrap().1.name).collect();
    names.sort();
    names
}

/// Adds a switch. Returns the outcome and the switches visible at that time.
fn add_switch(client: &Client, name: &str) -> JoinHandle<(CommitOutcome, Vec<String>)> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch { name: name.into(), ..Default::default() };
    txn.insert(&switch).unwrap();
    let client = client.clone();
    tokio::spawn(async move {
        let outcome = client.transact(txn.finish()).await;
        (outcome, names(&client))
    })
}

fn switches(rows: &[(&str, &str)]) -> String {
    let row =
        |(uuid, name): &(&str, &str)| format!(r#""{uuid}":{{"initial":{{"name":"{name}"}}}}"#);
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!(r#"{{"Logical_Switch":{{{}}}}}"#, rows.join(","))
}

fn committed() -> String {
    format!(r#""result":[{{"uuid":["uuid","{OTHER}"]}}],"error":null"#)
}

const REFUSED: &str = r#""result":[{"error":"timed out"}],"error":null"#;

/// Two transactions that are answered after the end of the monitor: the first is committed, the
/// second rejected.
async fn answered_too_late(
    client: &Client,
    peer: &mut Peer,
) -> [JoinHandle<(CommitOutcome, Vec<String>)>; 2] {
    let made = add_switch(client, "b");
    assert_eq!(peer.request().await, "transact");
    let first = peer.id.clone();
    let refused = add_switch(client, "c");
    assert_eq!(peer.request().await, "transact");
    let second = std::mem::replace(&mut peer.id, first);
    peer.send(CANCELED).await;
    peer.answer(&committed()).await;
    peer.id = second;
    peer.answer(REFUSED).await;
    peer.id = Json::Null;
    peer.answer_schema(SCHEMA).await;
    assert_eq!(peer.request().await, "monitor_cond_since");
    [made, refused]
}

#[tokio::test]
async fn outcomes_are_delivered_when_the_replica_shows_them() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(config(&server), &server).await;
    let outcomes = answered_too_late(&client, &mut peer).await;
    assert!(outcomes.iter().all(|outcome| !outcome.is_finished()));
    peer.answer_monitor(&switches(&[(ROW, "a"), (OTHER, "b")])).await;
    let [made, refused] = outcomes;
    let (outcome, shown) = soon(made).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(shown, ["a", "b"]);
    let (outcome, shown) = soon(refused).await.unwrap();
    assert!(matches!(&outcome, CommitOutcome::Rejected(error) if error.is_conflict()));
    assert_eq!(shown, ["a", "b"]);
    until_live(&client, true).await;
}

#[tokio::test]
async fn undelivered_commits_survive_the_connection() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(config(&server), &server).await;
    let [made, refused] = answered_too_late(&client, &mut peer).await;
    drop(peer);
    let (outcome, _) = soon(refused).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Rejected(_)));
    assert!(!made.is_finished());
    let _peer = server.accept_live(&switches(&[(ROW, "a"), (OTHER, "b")])).await;
    let (outcome, shown) = soon(made).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(shown, ["a", "b"]);
}

#[tokio::test]
async fn a_rejected_coalesced_request_is_split_after_a_change_of_the_schema() {
    let server = FakeServer::start();
    let mut config = config(&server);
    config.pipelining = Pipelining::coalesced();
    let (client, mut peer) = live_client(config, &server).await;
    let first = add_switch(&client, "first");
    assert_eq!(peer.request().await, "transact");
    let outcomes = [add_switch(&client, "b"), add_switch(&client, "c")];
    tokio::time::sleep(Duration::from_millis(50)).await;
    peer.answer(&committed()).await;
    soon(first).await.unwrap().0.into_result().unwrap();
    assert_eq!(peer.request().await, "transact");
    let both = peer.id.clone();
    peer.send(CANCELED).await;
    peer.answer_schema(SCHEMA).await;
    let schema = std::mem::replace(&mut peer.id, both);
    peer.answer(r#""result":[{"error":"timed out"},null],"error":null"#).await;
    peer.id = schema;
    assert_eq!(peer.request().await, "monitor_cond_since");
    peer.answer_monitor(&one_switch("a")).await;
    for (outcome, answer) in outcomes.into_iter().zip([committed(), REFUSED.to_owned()]) {
        assert_eq!(peer.request().await, "transact");
        peer.answer(&answer).await;
        let (outcome, _) = soon(outcome).await.unwrap();
        assert_eq!(matches!(outcome, CommitOutcome::Committed(_)), answer != REFUSED);
    }
}

#[tokio::test]
async fn an_outstanding_filter_takes_effect_with_the_new_schema() {
    for answer in
        [r#""result":{},"error":null"#, r#""result":null,"error":"unknown monitor session""#]
    {
        let server = FakeServer::start();
        let (client, mut peer) = live_client(config(&server), &server).await;
        let filter = Filter::column("name", Function::Equal, Datum::scalar("b"));
        let filtering = {
            let client = client.clone();
            tokio::spawn(async move { client.set_filter("Logical_Switch", filter).await })
        };
        assert_eq!(peer.request().await, "monitor_cond_change");
        peer.send(CANCELED).await;
        peer.answer(answer).await;
        peer.answer_schema(SCHEMA).await;
        let monitor = peer.next_text().await.unwrap();
        assert!(monitor.contains(r#""where":[["name","==","b"]]"#), "{monitor}");
        let monitor = Json::parse(monitor.as_bytes()).unwrap();
        peer.id = monitor.get("id").unwrap().clone();
        assert!(!filtering.is_finished());
        peer.answer_monitor(&switches(&[(OTHER, "b")])).await;
        soon(filtering).await.unwrap().unwrap();
        assert_eq!(names(&client), ["b"]);
    }
}

/// Columns of the replica's table.
fn columns(client: &Client) -> Vec<String> {
    let snapshot = client.snapshot();
    let (_, table) = snapshot.schema().table_by_name("Logical_Switch").unwrap();
    let names = table.column_ids().map(|id| table.column_name(id).to_owned());
    names.collect()
}

fn with_another_column(schema: &str) -> String {
    let column = r#""name":{"type":"string"}"#;
    schema.replace(column, &format!(r#"{column},"later":{{"type":"string"}}"#))
}

#[tokio::test]
async fn a_schema_that_changed_before_the_monitor_is_detected() {
    let server = FakeServer::start();
    let client = tokio::spawn(Client::connect(config(&server)));
    let mut peer = server.accept().await;
    peer.serve_until_monitor().await;
    peer.send_contents(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    let made = add_switch(&client, "b");
    let newer = with_another_column(SCHEMA);
    peer.answer_schema(&newer).await;
    // The replica does not show this reply's changes yet.
    loop {
        match &*peer.request().await {
            "transact" => peer.answer(&committed()).await,
            "monitor_cancel" => break peer.answer(r#""result":{},"error":null"#).await,
            other => panic!("{other}"),
        }
    }
    until_live(&client, false).await;
    peer.answer_schema(&newer).await;
    let monitor = peer.next_text().await.unwrap();
    assert!(monitor.contains(r#""columns":["later","name","#), "{monitor}");
    let monitor = Json::parse(monitor.as_bytes()).unwrap();
    peer.id = monitor.get("id").unwrap().clone();
    peer.send_contents(&switches(&[(ROW, "a"), (OTHER, "b")])).await;
    peer.answer_schema(&newer).await;
    let (outcome, shown) = soon(made).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(shown, ["a", "b"]);
    assert!(client.is_live() && columns(&client).contains(&"later".to_owned()));
}

#[tokio::test]
async fn a_database_converted_before_the_monitor_is_followed() {
    const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"Logical_Switch":{"isRoot":true,
        "columns":{"name":{"type":"string"}}}}}"#;
    let server = RealServer::start(SCHEMA);
    let front = FakeServer::start();
    let client = tokio::spawn(Client::connect(config(&front)));
    let mut relay = Relay::accept(&front, &server.socket()).await;
    let monitor = relay.until_request("monitor_cond_since").await;
    let dir = tempfile::tempdir().unwrap();
    let newer = dir.path().join("newer");
    std::fs::write(&newer, with_another_column(SCHEMA).replace("1.0.0", "1.1.0")).unwrap();
    let converted = Command::new(testing::program("ovsdb-client"))
        .args(["convert", &server.remote(), newer.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(converted.status.success(), "{converted:?}");
    relay.server.send(&monitor).await;
    tokio::spawn(async move { relay.until_request("nothing").await });
    let client = soon(client).await.unwrap().unwrap();
    soon(async {
        while columns(&client) != ["later", "name"] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    until_live(&client, true).await;
    let (outcome, shown) = soon(add_switch(&client, "b")).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(shown, ["b"]);
}
