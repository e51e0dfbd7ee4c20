//! Closing of a client: its subscriptions and waits end.

use std::time::Duration;

use patchbay_engine::client::{Client, Config, FollowedTables, SnapshotChanges, Subscription};
use tokio::runtime::Runtime;

use crate::peer::{FakeServer, Peer, one_switch};
use crate::{impatient, soon};

/// A client with a subscription and a wait for snapshots.
async fn followed() -> (Client, Subscription, SnapshotChanges, Peer) {
    let server = FakeServer::start();
    let config = impatient(Config::new(server.remote().parse().unwrap(), "D"));
    let client = tokio::spawn(Client::connect(config));
    let peer = server.accept_live(&one_switch("a")).await;
    let client = soon(client).await.unwrap().unwrap();
    let events = client.follow(FollowedTables::all()).unwrap();
    let changes = client.changes();
    (client, events, changes, peer)
}

#[test]
fn a_shutdown_of_the_runtime_closes_the_client() {
    let runtime = Runtime::new().unwrap();
    let (client, mut events, mut changes, _peer) = runtime.block_on(followed());
    runtime.shutdown_timeout(Duration::from_secs(120));
    assert!(!client.is_live());
    Runtime::new().unwrap().block_on(async {
        assert!(soon(events.next()).await.is_err());
        assert!(soon(changes.next()).await.is_err());
        // The replica is still readable, but subscriptions are closed.
        let mut late = client.follow(FollowedTables::all()).unwrap();
        assert_eq!(late.snapshot().row_count(), 1);
        assert!(soon(late.next()).await.is_err());
    });
}

#[tokio::test]
async fn dropping_the_last_handle_closes_subscriptions() {
    let (client, mut events, mut changes, _peer) = followed().await;
    drop(client);
    assert!(soon(events.next()).await.is_err());
    assert!(soon(changes.next()).await.is_err());
}
