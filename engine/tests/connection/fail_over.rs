//! Members of a cluster stop, start and change roles.

use std::time::Duration;

use patchbay_engine::client::{Client, CommitOutcome, ConnectionEvent, DatabaseStatus, LockLost};
use patchbay_ovn_programs::testing::{RealCluster, ScratchDir};

use crate::{add, config, connect, names, next_event, once, schema_file, soon, try_add};

fn cluster() -> RealCluster {
    let dir = ScratchDir::new();
    RealCluster::start(&schema_file(&dir), 3)
}

fn connected(event: &ConnectionEvent) -> Option<DatabaseStatus> {
    match event {
        ConnectionEvent::Connected { status, .. } => status.clone(),
        _ => None,
    }
}

#[tokio::test]
async fn a_client_follows_the_leader() {
    let mut cluster = cluster();
    let client = connect(config(&cluster.remotes())).await;
    let mut events = client.connection_events().unwrap();
    add(&client, "a").await;
    let lock = client.lock("leader").unwrap();
    let held = soon(lock.wait_until_held()).await.unwrap();

    let first = cluster.leader();
    cluster.kill(first);
    let status = next_event(&mut events, connected).await;
    assert!(status.leader && status.connected, "{status:?}");
    // Each member has its own locks.
    assert!(matches!(soon(held.wait_until_lost()).await, LockLost::Disconnected(_)));
    assert!(!soon(lock.wait_until_held()).await.unwrap().is_over());
    add(&client, "b").await;
    let second = cluster.leader();
    assert_ne!(second, first);

    // A restarted follower is no reason to change servers.
    cluster.start_member(first);
    add(&client, "c").await;
    assert!(client.is_live());
    assert_eq!(names(&client), once(["a", "b", "c"]));

    // A leader that hangs during an election learns about it when it continues.
    cluster.suspend(second);
    while cluster.leader() == second {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.resume(second);
    let lost = |event: &ConnectionEvent| match event {
        ConnectionEvent::LeaderLost { remote } => Some(remote.to_string()),
        _ => None,
    };
    let remote = next_event(&mut events, lost).await;
    assert_eq!(remote, cluster.remote(second));
    assert!(next_event(&mut events, connected).await.leader);
    add(&client, "d").await;
    assert_eq!(names(&client), once(["a", "b", "c", "d"]));
}

#[tokio::test]
async fn only_the_leader_of_the_named_cluster_qualifies() {
    let cluster = cluster();
    let leader = cluster.leader();
    let follower = (leader + 1) % 3;
    let error = soon(Client::connect(config(&cluster.remote(follower)))).await;
    let text = error.unwrap_err().to_string();
    assert!(text.ends_with("the server does not lead its cluster"), "{text}");

    let mut any = config(&cluster.remote(follower));
    any.leader_only = false;
    let client = connect(any).await;
    add(&client, "through a follower").await;
    assert_eq!(names(&client), once(["through a follower"]));

    let other = "00000000-0000-4000-8000-000000000001";
    let remotes = format!("{},cid:{other}", cluster.remote(leader));
    let error = soon(Client::connect(config(&remotes))).await;
    let text = error.unwrap_err().to_string();
    assert!(text.ends_with(&format!(", not {other}")), "{text}");
}

/// A stopped server executes a received transaction long after another member has replied for it.
#[tokio::test]
async fn a_transaction_reported_as_not_executed_is_never_executed() {
    let cluster = cluster();
    let mut config = config(&cluster.remotes());
    config.unix_probe_interval = Some(Duration::from_millis(500));
    let client = connect(config.clone()).await;
    add(&client, "before").await;

    let leader = cluster.leader();
    cluster.suspend(leader);
    let outcome = try_add(&client, "held").await;
    assert!(matches!(outcome, CommitOutcome::NotSent(_)), "{outcome:?}");
    assert_eq!(names(&client), once(["before"]));
    add(&client, "held").await;

    cluster.resume(leader);
    cluster.wait_until(leader, "it follows", |status| status.contains("Role: follower"));
    // It executes older requests before newer ones.
    config.remotes = cluster.remote(leader).parse().unwrap();
    config.leader_only = false;
    config.guard = None;
    let through_the_held = connect(config).await;
    add(&through_the_held, "after").await;
    assert_eq!(names(&through_the_held), once(["before", "held", "after"]));
}
