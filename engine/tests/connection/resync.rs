//! Resync of a replica after a time without a connection.

use patchbay_engine::client::{
    Change, ChangeEvent, ChangedRows, Client, ConnectionEvent, ConnectionEvents, FollowedTables,
    ResyncKind, Subscription,
};
use patchbay_engine::txn::TxnBuilder;
use patchbay_ovn_programs::testing::{RealCluster, ScratchDir};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::task::block_in_place;

use crate::proxy::Proxy;
use crate::{add, config, connect, names, next_event, once, schema_file, soon};

async fn delete(client: &Client, name: &str) {
    let snapshot = client.snapshot();
    let switches = snapshot.typed::<LogicalSwitch>();
    let mut rows = switches.iter().map(Result::unwrap);
    let (row, _) = rows.find(|(_, switch)| switch.name == name).unwrap();
    let mut txn = TxnBuilder::new(&snapshot);
    txn.delete(row).unwrap();
    let outcome = soon(client.transact(txn.finish())).await;
    outcome.into_result().unwrap();
}

async fn next_resync(events: &mut ConnectionEvents) -> ResyncKind {
    next_event(events, |event| match event {
        ConnectionEvent::Resynced { kind, .. } => Some(*kind),
        _ => None,
    })
    .await
}

/// Cuts the connection, and waits until the client knows: what is committed later is missed.
async fn cut(proxy: &Proxy, events: &mut ConnectionEvents) {
    proxy.refuse(true);
    next_event(events, |event| match event {
        ConnectionEvent::Disconnected(_) => Some(()),
        _ => None,
    })
    .await;
}

/// The changes of one event: `+` and `-` with names.
async fn resynced(events: &mut Subscription) -> Vec<String> {
    let words = |changed: &ChangedRows| {
        let word = |change: Change<LogicalSwitch>| match change {
            Change::Inserted { new, .. } => format!("+{}", new.name),
            Change::Modified { new, .. } => format!("!{}", new.name),
            Change::Deleted { old, .. } => format!("-{}", old.name),
        };
        let changes = changed.of::<LogicalSwitch>().map(Result::unwrap);
        let mut words: Vec<_> = changes.map(word).collect();
        words.sort();
        words
    };
    match soon(events.next()).await.unwrap() {
        ChangeEvent::Resynced(changed) => words(&changed),
        other => panic!("{other:?}"),
    }
}

/// Waits until every member has these rows.
async fn until_all_show(cluster: &RealCluster, wanted: &[&str]) {
    for member in 0..cluster.size() {
        let mut config = config(&cluster.remote(member));
        config.leader_only = false;
        config.guard = None;
        let client = connect(config).await;
        let mut changes = client.changes();
        while names(&client) != once(wanted.iter().copied()) {
            soon(changes.next()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_sends_missed_transactions_while_it_has_the_history() {
    let dir = ScratchDir::new();
    let mut cluster = RealCluster::start(&schema_file(&dir), 3);
    let mut other = config(&cluster.remotes());
    other.guard = None;
    let other = connect(other).await;
    add(&other, "a").await;
    let proxy = Proxy::start(&cluster.socket(0));
    let mut config = config(&proxy.remote());
    config.leader_only = false;
    config.guard = None;
    let client = connect(config).await;
    let mut changes = client.changes();
    while names(&client) != once(["a"]) {
        soon(changes.next()).await.unwrap();
    }
    let mut events = client.follow(FollowedTables::table::<LogicalSwitch>()).unwrap();
    let mut connection = client.connection_events().unwrap();

    cut(&proxy, &mut connection).await;
    add(&other, "b").await;
    until_all_show(&cluster, &["a", "b"]).await;
    proxy.refuse(false);
    assert_eq!(next_resync(&mut connection).await, ResyncKind::Continued);
    assert_eq!(resynced(&mut events).await, ["+b"]);

    // A member that has started from a snapshot of the database has no history.
    cut(&proxy, &mut connection).await;
    add(&other, "c").await;
    delete(&other, "a").await;
    until_all_show(&cluster, &["b", "c"]).await;
    block_in_place(|| {
        for member in 0..cluster.size() {
            cluster.compact(member);
        }
        cluster.kill(0);
        cluster.start_member(0);
        cluster.wait_until(0, "it is a connected member", |status| {
            status.contains("Status: cluster member") && !status.contains("Leader: unknown")
        });
    });
    proxy.refuse(false);
    assert_eq!(next_resync(&mut connection).await, ResyncKind::Full);
    assert_eq!(resynced(&mut events).await, ["+c", "-a"]);
    assert_eq!(names(&client), once(["b", "c"]));
    assert_eq!(names(&other), names(&client));
}
