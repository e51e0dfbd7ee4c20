//! The client against misbehaving servers, and connections that break at the worst moment.

use std::time::{Duration, Instant};

use patchbay_engine::client::{Client, CommitOutcome, Config, Pipelining};
use patchbay_engine::db::Snapshot;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::LogicalSwitch;
use tokio::net::TcpListener;

use crate::peer::{FakeServer, ROW, ZERO, one_switch};
use crate::{impatient, soon, until_live};

fn config(remotes: &str) -> Config {
    impatient(Config::new(remotes.parse().unwrap(), "D"))
}

/// A live client of a scripted server, with one switch in its replica.
async fn live_client(server: &FakeServer) -> (Client, crate::peer::Peer) {
    let client = tokio::spawn(Client::connect(config(&server.remote())));
    let peer = server.accept_live(&one_switch("a")).await;
    (soon(client).await.unwrap().unwrap(), peer)
}

fn names(client: &Client) -> Vec<String> {
    client.snapshot().typed::<LogicalSwitch>().iter().map(|row| row.unwrap().1.name).collect()
}

/// Starts a transaction that adds a switch.
fn add_switch(client: &Client, name: impl Into<String>) -> tokio::task::JoinHandle<CommitOutcome> {
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.insert(&LogicalSwitch { name: name.into(), ..Default::default() }).unwrap();
    let client = client.clone();
    tokio::spawn(async move { client.transact(txn.finish()).await })
}

fn update(row_update: &str) -> String {
    format!(
        r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Logical_Switch":{{"{ROW}":{row_update}}}}}]}}"#
    )
}

#[tokio::test]
async fn malformed_messages_cause_a_reconnect_and_keep_the_replica() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    for (i, nonsense) in [
        update(r#"{"insert":{"name":"twice"}}"#),
        update(r#"{"modify":{"name":5}}"#),
        update("5"),
        r#"{"id":null,"method":"update3","params":["D"]}"#.to_owned(),
        format!(r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Nobody":{{"{ROW}":{{"insert":{{}}}}}}}}]}}"#),
        format!(r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"Logical_Switch":{{"no uuid":{{"insert":{{}}}}}}}}]}}"#),
        update(r#"{"modify":{"ports":["set",[["uuid","x"]]]}}"#),
        update(r#"{"modify":{"ports":["map",[]]}}"#),
        update(r#"{"initial":{"name":"b"},"delete":null}"#),
        r#"{"id":99,"result":[],"error":null}"#.to_owned(),
        r#"{"id":"who","result":[],"error":null}"#.to_owned(),
        r#"{"bogus":1}"#.to_owned(),
        "nonsense".to_owned(),
        "[".repeat(2000),
        "\u{0}".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        peer.send(nonsense).await;
        peer.until_gone().await;
        assert_eq!(names(&client).len(), 1, "{nonsense}");
        peer = server.accept_live(&one_switch(&format!("after {i}"))).await;
        until_live(&client, true).await;
        assert_eq!(names(&client), [format!("after {i}")], "{nonsense}");
    }
}

#[tokio::test]
async fn readers_see_the_old_contents_until_the_new_are_complete() {
    let server = FakeServer::start();
    let (client, peer) = live_client(&server).await;
    drop(peer);
    let mut peer = server.accept().await;
    peer.serve_until_monitor().await;
    let contents = one_switch("b");
    let (first, rest) = contents.split_at(contents.len() / 2);
    let id = peer.id.to_text();
    peer.send(&format!(r#"{{"id":{id},"error":null,"result":[false,"{ZERO}",{first}"#)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!client.is_live());
    assert_eq!(names(&client), ["a"]);
    peer.send(&format!("{rest}]}}")).await;
    until_live(&client, true).await;
    assert_eq!(names(&client), ["b"]);
}

#[tokio::test]
async fn a_reconnect_publishes_changes() {
    let server = FakeServer::start();
    let (client, peer) = live_client(&server).await;
    let mut changes = client.changes();
    drop(peer);
    let _peer = server.accept_live(&one_switch("b")).await;
    let snapshot = soon(changes.next()).await.unwrap();
    assert_eq!(snapshot.typed::<LogicalSwitch>().iter().next().unwrap().unwrap().1.name, "b");
}

#[tokio::test]
async fn an_update_before_the_reply_is_visible_with_the_outcome() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    let outcome = add_switch(&client, "ignored");
    assert_eq!(peer.request().await, "transact");
    peer.send(&update(r#"{"modify":{"name":"b"}}"#)).await;
    peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}],"error":null"#)).await;
    assert!(matches!(soon(outcome).await.unwrap(), CommitOutcome::Committed(_)));
    assert_eq!(names(&client), ["b"]);
}

#[tokio::test]
async fn replies_are_matched_by_id() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    let first = add_switch(&client, "first");
    assert_eq!(peer.request().await, "transact");
    let first_id = peer.id.clone();
    let second = add_switch(&client, "second");
    assert_eq!(peer.request().await, "transact");
    peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#)).await;
    assert!(matches!(soon(second).await.unwrap(), CommitOutcome::Committed(_)));
    assert!(!first.is_finished());
    peer.id = first_id;
    peer.answer(r#""error":"not today""#).await;
    let CommitOutcome::Rejected(error) = soon(first).await.unwrap() else {
        panic!("it should be rejected")
    };
    assert_eq!(error.to_string(), "the server refused the transaction: not today");

    // Other members of the cluster may commit a cancelled transaction.
    let third = add_switch(&client, "third");
    assert_eq!(peer.request().await, "transact");
    peer.answer(r#""error":"canceled""#).await;
    let CommitOutcome::Unknown(unknown) = soon(third).await.unwrap() else {
        panic!("the outcome should be unknown")
    };
    assert!(
        unknown.to_string().ends_with("the server cancelled a transaction that was in progress"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_malformed_reply_leaves_the_outcome_unknown() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    for answer in [
        r#""result":{}"#,
        r#""result":[]"#,
        r#""result":[{}]"#,
        r#""result":[{"uuid":"x"}]"#,
        r#""result":[null]"#,
        r#""result":[{"uuid":["uuid","00000000-0000-4000-8000-000000000001"]},{}]"#,
    ] {
        let outcome = add_switch(&client, "b");
        assert_eq!(peer.request().await, "transact");
        peer.answer(answer).await;
        assert!(matches!(soon(outcome).await.unwrap(), CommitOutcome::Unknown(_)), "{answer}");
        peer = server.accept_live(&one_switch("a")).await;
        until_live(&client, true).await;
    }
}

#[tokio::test]
async fn a_truncated_request_counts_as_not_sent() {
    let server = FakeServer::start();
    let (client, peer) = live_client(&server).await;
    // More than sockets buffer: the server does not read.
    let outcome = add_switch(&client, "x".repeat(8 << 20));
    let queued = add_switch(&client, "y");
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(peer);
    for outcome in [outcome, queued] {
        let CommitOutcome::NotSent(error) = soon(outcome).await.unwrap() else {
            panic!("it should not be sent")
        };
        assert!(
            error.to_string().starts_with("not sent to the server, nothing has changed: unix:"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn echo_is_answered_while_a_transaction_waits() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    let _waits = add_switch(&client, "b");
    assert_eq!(peer.request().await, "transact");
    peer.send(r#"{"method":"echo","params":["still there?"],"id":"echo"}"#).await;
    assert_eq!(
        peer.next_text().await.unwrap(),
        r#"{"result":["still there?"],"error":null,"id":"echo"}"#
    );
}

#[tokio::test]
async fn a_silent_server_on_tcp_is_abandoned() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    let server = FakeServer::start();
    let mut config = config(&format!("tcp:{silent},{}", server.remote()));
    config.probe_interval = Some(Duration::from_millis(50));
    let client = tokio::spawn(Client::connect(config));
    let (_never_answers, _) = soon(listener.accept()).await.unwrap();
    let _peer = server.accept_live(&one_switch("a")).await;
    assert_eq!(names(&soon(client).await.unwrap().unwrap()), ["a"]);
}

#[tokio::test]
async fn remotes_are_tried_in_order_again_and_again() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    let remotes = format!("{},{}", first.remote(), second.remote());
    let client = tokio::spawn(Client::connect(config(&remotes)));
    drop(first.accept().await);
    let peer = second.accept_live(&one_switch("second")).await;
    let client = soon(client).await.unwrap().unwrap();
    assert_eq!(names(&client), ["second"]);
    drop(peer);
    let _peer = first.accept_live(&one_switch("first")).await;
    until_live(&client, true).await;
    assert_eq!(names(&client), ["first"]);
}

#[tokio::test]
async fn a_server_that_keeps_closing_is_retried_with_growing_delays() {
    let server = FakeServer::start();
    let (client, peer) = live_client(&server).await;
    let start = Instant::now();
    drop(peer);
    // 10, 20, 40 and 80 milliseconds: the connection did not live long enough to count as a good
    // one, or did.
    for _ in 0..5 {
        drop(server.accept().await);
    }
    assert!(start.elapsed() >= Duration::from_millis(10 + 20 + 40 + 80), "{:?}", start.elapsed());
    drop(client);
}

#[tokio::test]
async fn a_client_closes_with_its_last_handle() {
    let server = FakeServer::start();
    let (client, mut peer) = live_client(&server).await;
    let another = client.clone();
    drop(client);
    peer.send(&update(r#"{"modify":{"name":"b"}}"#)).await;
    soon(async {
        while names(&another) != ["b"] {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(another);
    peer.until_gone().await;
}

/// A server that accepts and is silent, at once or after the first reply, is abandoned.
#[tokio::test]
async fn a_silent_server_on_a_unix_socket_is_abandoned() {
    let server = FakeServer::start();
    let mut config = config(&server.remote());
    config.connect_timeout = Duration::from_millis(50);
    let client = tokio::spawn(Client::connect(config));
    let _never_answers = server.accept().await;
    let error = soon(client).await.unwrap().unwrap_err().to_string();
    assert!(error.contains(": the server has been silent for "), "{error}");

    let mut config = self::config(&server.remote());
    config.setup_timeout = Duration::from_secs(1);
    let client = tokio::spawn(Client::connect(config));
    let mut peer = server.accept().await;
    peer.serve_until_monitor().await;
    let error = soon(client).await.unwrap().unwrap_err().to_string();
    assert!(error.contains(": the server has been silent for "), "{error}");
}

/// A server that hangs while the client follows it, on a unix socket with probes.
#[tokio::test]
async fn a_hanging_server_leaves_outcomes_unknown() {
    let server = FakeServer::start();
    let mut config = config(&server.remote());
    config.unix_probe_interval = Some(Duration::from_secs(2));
    let client = tokio::spawn(Client::connect(config));
    let _hangs = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    let outcome = soon(add_switch(&client, "b")).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
}

/// A client with at most one unanswered request.
async fn one_at_a_time(server: &FakeServer) -> (Client, crate::peer::Peer) {
    let mut config = config(&server.remote());
    config.pipelining = Pipelining::EachAtOnce { window: 1 };
    let client = tokio::spawn(Client::connect(config));
    let peer = server.accept_live(&one_switch("a")).await;
    (soon(client).await.unwrap().unwrap(), peer)
}

#[tokio::test]
async fn an_abandoned_transaction_is_not_sent() {
    let server = FakeServer::start();
    let (client, mut peer) = one_at_a_time(&server).await;
    let first = add_switch(&client, "first");
    assert_eq!(peer.request().await, "transact");
    let given_up = add_switch(&client, "given up");
    tokio::task::yield_now().await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let _second = add_switch(&client, "second");
    peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#)).await;
    let outcome = soon(first).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    let request = peer.next_text().await.unwrap();
    assert!(request.contains("second"), "{request}");
}

#[tokio::test]
async fn a_client_closes_with_outstanding_replies() {
    let server = FakeServer::start();
    let (client, mut peer) = one_at_a_time(&server).await;
    let outcome = add_switch(&client, "b");
    assert_eq!(peer.request().await, "transact");
    outcome.abort();
    drop(client);
    peer.until_gone().await;
}

#[tokio::test]
async fn a_transaction_for_another_database_is_refused() {
    let server = FakeServer::start();
    let (client, _peer) = live_client(&server).await;
    let northbound = Snapshot::empty(patchbay_schemas::nb::schema());
    let mut txn = TxnBuilder::new(&northbound);
    txn.insert(&LogicalSwitch::default()).unwrap();
    let error = soon(client.transact(txn.finish())).await.into_result();
    assert_eq!(
        error.unwrap_err().to_string(),
        "the server refused the transaction: unknown database: \
         the transaction is for database OVN_Northbound, this client's is D"
    );
}

#[tokio::test]
async fn the_window_limits_unanswered_requests() {
    let server = FakeServer::start();
    let mut config = config(&server.remote());
    config.pipelining = Pipelining::EachAtOnce { window: 2 };
    let client = tokio::spawn(Client::connect(config));
    let mut peer = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    let outcomes: Vec<_> = (0..4).map(|i| add_switch(&client, i.to_string())).collect();
    let mut ids = Vec::new();
    for _ in 0..2 {
        assert_eq!(peer.request().await, "transact");
        ids.push(peer.id.clone());
    }
    // Nothing more comes before an answer, and then one.
    let silence = Duration::from_millis(50);
    for id in ids {
        let another = tokio::time::timeout(silence, peer.request()).await;
        assert!(another.is_err(), "{another:?}");
        peer.id = id;
        peer.answer(&format!(r#""result":[{{"uuid":["uuid","{ROW}"]}}]"#)).await;
        assert_eq!(peer.request().await, "transact");
    }
    drop(peer);
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let committed = matches!(soon(outcome).await.unwrap(), CommitOutcome::Committed(_));
        assert_eq!(committed, number < 2, "{number}");
    }
}
