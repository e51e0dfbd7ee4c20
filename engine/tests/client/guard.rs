//! Guard rows that a client cannot acquire.

use patchbay_engine::client::{ChangeEvent, Client, Config, FollowedTables, Guard};
use patchbay_schemas::nb::LogicalSwitch;

use crate::peer::{FakeServer, Peer, ROW, ZERO, one_switch};
use crate::{impatient, soon, until_live};

fn config(server: &FakeServer) -> Config {
    let mut config = impatient(Config::new(server.remote().parse().unwrap(), "D"));
    config.guard = Some(Guard::new("Guard", "ids", "test"));
    config
}

/// Replies to the requests that acquire the guard row.
async fn give_guard(peer: &mut Peer) {
    for answer in [r#"{"rows":[]}"#.to_owned(), format!(r#"{{}},{{"uuid":["uuid","{ROW}"]}}"#)] {
        assert_eq!(peer.request().await, "transact");
        peer.answer(&format!(r#""result":[{answer}],"error":null"#)).await;
    }
}

#[tokio::test]
async fn changes_do_not_accumulate_while_the_guard_cannot_be_acquired() {
    let server = FakeServer::start();
    let client = tokio::spawn(Client::connect(config(&server)));
    let mut peer = server.accept_live(&one_switch("a")).await;
    give_guard(&mut peer).await;
    let client = soon(client).await.unwrap().unwrap();
    let mut events = client.follow(FollowedTables::all()).unwrap();
    drop(peer);
    for name in ["b", "c", "d"] {
        let mut peer = server.accept_live(&one_switch(name)).await;
        assert_eq!(peer.request().await, "transact");
        peer.answer(r#""result":[{"error":"permission error"}],"error":null"#).await;
        peer.until_gone().await;
    }
    let mut peer = server.accept_live(&one_switch("e")).await;
    give_guard(&mut peer).await;
    until_live(&client, true).await;
    let event = soon(events.next()).await.unwrap();
    let ChangeEvent::Lagged(snapshot) = event else { panic!("{event:?}") };
    let switches = snapshot.typed::<LogicalSwitch>();
    let names: Vec<_> = switches.iter().map(|row| row.unwrap().1.name).collect();
    assert_eq!((names, events.queued_rows()), (vec!["e".to_owned()], 0));
}

#[tokio::test]
async fn subscriptions_do_not_report_changes_before_the_first_connection() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    let mut config = config(&first);
    config.remotes = format!("{},{}", first.remote(), second.remote()).parse().unwrap();
    let client = tokio::spawn(Client::connect(config));
    let mut peer = first.accept_live(&one_switch("a")).await;
    assert_eq!(peer.request().await, "transact");
    drop(peer);
    let mut peer = second.accept_live(&one_switch("b")).await;
    give_guard(&mut peer).await;
    let client = soon(client).await.unwrap().unwrap();
    let mut events = client.follow(FollowedTables::all()).unwrap();
    let update = format!(r#"{{"Logical_Switch":{{"{ROW}":{{"modify":{{"name":"c"}}}}}}}}"#);
    peer.send(&format!(r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{update}]}}"#))
        .await;
    let event = soon(events.next()).await.unwrap();
    assert!(matches!(event, ChangeEvent::Committed(_)), "{event:?}");
}

#[tokio::test]
async fn a_change_of_the_schema_during_setup_ends_the_connection() {
    let server = FakeServer::start();
    let client = tokio::spawn(Client::connect(config(&server)));
    let mut peer = server.accept_live(&one_switch("a")).await;
    assert_eq!(peer.request().await, "transact");
    peer.send(r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#).await;
    let error = soon(client).await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("the schema has changed during connection setup"), "{error}");
}
