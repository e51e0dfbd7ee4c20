//! Requests that the client forwards for others, probe intervals, and the ids of transactions.

use std::time::Duration;

use ovsdb_sim::{Fault, FaultRule, Loss, Model, Sim};
use patchbay_engine::client::{
    ChangeEvent, Client, Config, ConnectionEvent, FollowedTables, ForwardOutcome, ForwardedReplies,
};

use crate::{impatient, soon, until_live};

const NB: &str = "OVN_Northbound";

async fn connect(sim: &Sim) -> Client {
    let config = impatient(Config::new(sim.connector().into(), NB));
    Client::connect(config).await.unwrap()
}

fn insert(name: &str) -> Vec<u8> {
    let operation =
        format!(r#"{{"op":"insert","table":"Logical_Switch","row":{{"name":"{name}"}}}}"#);
    format!(r#"["{NB}",{operation}]"#).into_bytes()
}

async fn next(replies: &mut ForwardedReplies) -> (u64, ForwardOutcome) {
    let reply = soon(replies.next()).await.unwrap();
    (reply.token, reply.outcome)
}

#[tokio::test]
async fn replies_come_in_order_and_after_their_changes() {
    let sim = Sim::builder().build().unwrap();
    let client = connect(&sim).await;
    let (forwarder, mut replies) = client.forwarder();
    for token in 0..20 {
        let params = insert(&format!("sw{token}"));
        forwarder.send(token, "transact", params).unwrap();
    }
    forwarder.send(20, "nope", b"[]".to_vec()).unwrap();
    for expected in 0..20 {
        let (token, outcome) = next(&mut replies).await;
        assert_eq!(token, expected);
        assert!(matches!(outcome, ForwardOutcome::Result(_)), "{outcome:?}");
        assert!(client.snapshot().row_count() > expected as usize);
    }
    let refused = ForwardOutcome::Error(br#""unknown method""#.to_vec());
    assert_eq!(next(&mut replies).await, (20, refused));
}

#[tokio::test]
async fn a_request_without_a_reply_is_lost_and_one_without_a_connection_is_not_sent() {
    let sim = Sim::builder().build().unwrap();
    let client = connect(&sim).await;
    let (forwarder, mut replies) = client.forwarder();
    let lost = FaultRule::from(Fault::LoseReply(Loss::Crashed)).once();
    sim.set_fault(lost).unwrap();
    forwarder.send(1, "transact", insert("sw1")).unwrap();
    assert_eq!(next(&mut replies).await, (1, ForwardOutcome::Lost));
    until_live(&client, true).await;
    assert_eq!(client.snapshot().row_count(), 1);
    sim.go_down().await;
    until_live(&client, false).await;
    forwarder.send(2, "transact", insert("sw2")).unwrap();
    let not_sent = ForwardOutcome::NotSent(insert("sw2"));
    assert_eq!(next(&mut replies).await, (2, not_sent));
    sim.come_back().await.unwrap();
    until_live(&client, true).await;
    forwarder.send(3, "transact", insert("sw3")).unwrap();
    assert!(matches!(next(&mut replies).await, (3, ForwardOutcome::Result(_))));
    // A closed client returns the request.
    drop(client);
    soon(async {
        while forwarder.send(4, "echo", b"[]".to_vec()).is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn events_have_the_ids_of_the_transactions() {
    for model in [Model::Standalone, Model::Clustered] {
        let sim = Sim::builder().model(model).build().unwrap();
        let client = connect(&sim).await;
        let mut changes = client.follow(FollowedTables::all()).unwrap();
        let first = changes.last_transaction();
        assert_eq!(first.is_some(), model == Model::Clustered);
        let (forwarder, _replies) = client.forwarder();
        forwarder.send(1, "transact", insert("sw1")).unwrap();
        let ChangeEvent::Committed(changed) = soon(changes.next()).await.unwrap() else {
            panic!("a transaction was committed")
        };
        assert_eq!(changed.transaction(), changes.last_transaction());
        if model == Model::Clustered {
            assert_ne!(changed.transaction(), first);
        }
        assert!(changes.try_next().unwrap().is_none());
        let later = client.follow(FollowedTables::all()).unwrap();
        assert_eq!(later.last_transaction(), changes.last_transaction());
    }
}

#[tokio::test]
async fn the_probe_interval_can_be_changed() {
    let sim = Sim::builder().build().unwrap();
    let mut config = impatient(Config::new(sim.connector().into(), NB));
    config.probe_interval = None;
    let client = Client::connect(config).await.unwrap();
    let mut events = client.connection_events().unwrap();
    sim.set_fault(Fault::StopReading).unwrap();
    // Without probes the client would never find out.
    client.set_probe_interval(Some(Duration::from_millis(20)));
    let event = soon(events.next()).await.unwrap();
    assert!(matches!(event, ConnectionEvent::Disconnected(_)), "{event:?}");
}
