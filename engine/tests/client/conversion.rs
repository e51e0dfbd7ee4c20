//! The database gets another schema while something else is under way.

use patchbay_engine::client::{Client, CommitOutcome, Config, Filter, Pipelining};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Json;
use patchbay_schemas::nb::LogicalSwitch;
use patchbay_schemas::wire::Function;
use tokio::task::JoinHandle;

use crate::peer::{FakeServer, Peer, ROW, SCHEMA, one_switch};
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
    let mut names: Vec<_> = snapshot
        .typed::<LogicalSwitch>()
        .iter()
        .map(|row| row.unwrap().1.name)
        .collect();
    names.sort();
    names
}

/// Adds a switch; what becomes of it and which switches there are then.
fn add_switch(client: &Client, name: &str) -> JoinHandle<(CommitOutcome, Vec<String>)> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch {
        name: name.into(),
        ..Default::default()
    };
    txn.insert(&switch).unwrap();
    let client = client.clone();
    tokio::spawn(async move {
        let outcome = client.transact(txn.finish()).await;
        (outcome, names(&client))
    })
}

async fn answer_schema(peer: &mut Peer) {
    assert_eq!(peer.request().await, "get_schema");
    peer.answer(&format!(r#""result":{SCHEMA},"error":null"#))
        .await;
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

/// Two transactions, of which the server makes the first after it has stopped to report changes, and refuses the second.
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
    answer_schema(peer).await;
    assert_eq!(peer.request().await, "monitor_cond_since");
    [made, refused]
}

#[tokio::test]
async fn outcomes_are_told_when_the_replica_shows_them() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(config(&server), &server).await;
    let outcomes = answered_too_late(&client, &mut peer).await;
    assert!(outcomes.iter().all(|outcome| !outcome.is_finished()));
    peer.answer_monitor(&switches(&[(ROW, "a"), (OTHER, "b")]))
        .await;
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
async fn outcomes_that_were_not_told_outlive_the_connection() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(config(&server), &server).await;
    let [made, refused] = answered_too_late(&client, &mut peer).await;
    drop(peer);
    let (outcome, _) = soon(refused).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Rejected(_)));
    assert!(!made.is_finished());
    let _peer = server
        .accept_live(&switches(&[(ROW, "a"), (OTHER, "b")]))
        .await;
    let (outcome, shown) = soon(made).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(shown, ["a", "b"]);
}

#[tokio::test]
async fn what_is_refused_together_is_tried_alone_on_the_other_schema() {
    let server = FakeServer::start();
    let mut config = config(&server);
    config.pipelining = Pipelining::coalesced();
    let (client, mut peer) = live_client(config, &server).await;
    let first = add_switch(&client, "first");
    assert_eq!(peer.request().await, "transact");
    let outcomes = [add_switch(&client, "b"), add_switch(&client, "c")];
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    peer.answer(&committed()).await;
    soon(first).await.unwrap().0.into_result().unwrap();
    assert_eq!(peer.request().await, "transact");
    let both = peer.id.clone();
    peer.send(CANCELED).await;
    answer_schema(&mut peer).await;
    let schema = std::mem::replace(&mut peer.id, both);
    peer.answer(r#""result":[{"error":"timed out"},null],"error":null"#)
        .await;
    peer.id = schema;
    assert_eq!(peer.request().await, "monitor_cond_since");
    peer.answer_monitor(&one_switch("a")).await;
    for (outcome, answer) in outcomes.into_iter().zip([committed(), REFUSED.to_owned()]) {
        assert_eq!(peer.request().await, "transact");
        peer.answer(&answer).await;
        let (outcome, _) = soon(outcome).await.unwrap();
        assert_eq!(
            matches!(outcome, CommitOutcome::Committed(_)),
            answer != REFUSED
        );
    }
}

#[tokio::test]
async fn a_filter_on_its_way_comes_into_force_with_the_other_schema() {
    for answer in [
        r#""result":{},"error":null"#,
        r#""result":null,"error":"unknown monitor session""#,
    ] {
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
        answer_schema(&mut peer).await;
        let monitor = peer.next_text().await.unwrap();
        assert!(
            monitor.contains(r#""where":[["name","==","b"]]"#),
            "{monitor}"
        );
        let monitor = Json::parse(monitor.as_bytes()).unwrap();
        peer.id = monitor.get("id").unwrap().clone();
        assert!(!filtering.is_finished());
        peer.answer_monitor(&switches(&[(OTHER, "b")])).await;
        soon(filtering).await.unwrap().unwrap();
        assert_eq!(names(&client), ["b"]);
    }
}
