//! What servers send after the connection was lost, and which rows of the database they send at all.

use std::time::Duration;

use ovsdb_sim::testing::{RealCluster, RealServer, ScratchDir};
use patchbay_engine::client::{Client, ConnectionEvent, Filter, FilterError, Resync};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::wire::Function;

use crate::proxy::Proxy;
use crate::{add, config, connect, names, next_event, once, schema_file, soon};

fn resynced(event: &ConnectionEvent) -> Option<(Resync, usize)> {
    match event {
        ConnectionEvent::Resynced { kind, rows } => Some((*kind, *rows)),
        _ => None,
    }
}

async fn until_it_shows(client: &Client, wanted: &[String]) {
    while names(client) != once(wanted) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_member_continues_what_another_has_sent_unless_its_history_is_gone() {
    let dir = ScratchDir::new();
    let mut cluster = RealCluster::start(&schema_file(&dir), 3);
    let mut writing = config(&cluster.remotes());
    writing.guard = None;
    let writer = connect(writing).await;
    // Servers keep no more history than the database is large.
    let mut wanted = Vec::new();
    for number in 0..20 {
        wanted.push(format!("old {number}"));
        add(&writer, &wanted[number]).await;
    }

    let (member, other) = (cluster.leader(), (cluster.leader() + 1) % 3);
    // A follower learns only with the leader's next message what is committed.
    let mut following = config(&cluster.remote(other));
    following.leader_only = false;
    following.guard = None;
    let follower = connect(following).await;
    soon(until_it_shows(&follower, &wanted)).await;
    let proxies = [member, other].map(|member| Proxy::start(&cluster.socket(member)));
    let remotes = proxies.each_ref().map(Proxy::remote).join(",");
    let mut reading = config(&remotes).with_columns("Logical_Switch", ["name"]);
    reading.leader_only = false;
    reading.guard = None;
    let reader = connect(reading).await;
    let mut events = reader.connection_events().unwrap();
    assert_eq!(names(&reader), once(wanted.clone()));

    proxies[0].refuse(true);
    add(&writer, "b").await;
    wanted.push("b".into());
    assert_eq!(next_event(&mut events, resynced).await.0, Resync::Continued);
    soon(until_it_shows(&reader, &wanted)).await;

    proxies[1].refuse(true);
    add(&writer, "c").await;
    wanted.push("c".into());
    cluster.compact(other);
    cluster.kill(other);
    cluster.start_member(other);
    cluster.wait_until(other, "it follows", |status| {
        status.contains("Role: follower") && !status.contains("Leader: unknown")
    });
    proxies[1].refuse(false);
    let (kind, _) = next_event(&mut events, resynced).await;
    assert_eq!(kind, Resync::Full);
    soon(until_it_shows(&reader, &wanted)).await;
}

#[tokio::test]
async fn filters_choose_rows_and_change_while_the_replica_follows() {
    let dir = ScratchDir::new();
    let server = RealServer::start([schema_file(&dir)]);
    let writer = connect(config(&server.remote())).await;
    for name in ["a", "b", "c"] {
        add(&writer, name).await;
    }
    let named = |name: &str| Filter::column("name", Function::Equal, Datum::scalar(name));
    let proxy = Proxy::start(server.socket());
    let mut filtered = config(&proxy.remote())
        .with_columns("Logical_Switch", ["name"])
        .with_filter("Logical_Switch", named("a"));
    filtered.guard = None;
    let client = connect(filtered).await;
    assert_eq!(names(&client), once(["a"]));

    let set = |filter| soon(client.set_filter("Logical_Switch", filter));
    set(named("b").or(named("c"))).await.unwrap();
    assert_eq!(names(&client), once(["b", "c"]));
    set(Filter::none()).await.unwrap();
    assert!(names(&client).is_empty());

    // What cannot be is refused, and nothing changes.
    let wrong = Filter::column("name", Function::Less, Datum::scalar("b"));
    let error = set(wrong).await.unwrap_err();
    assert!(matches!(error, FilterError::Refused { .. }), "{error}");
    let error = soon(client.set_filter("Guard", Filter::all())).await;
    assert!(matches!(error, Err(FilterError::NoTable { .. })));
    assert!(names(&client).is_empty());

    // A filter outlives connections, and one that is set meanwhile comes into force with the next.
    proxy.refuse(true);
    let changing = tokio::spawn({
        let client = client.clone();
        let filter = named("a").or(named("c"));
        async move { client.set_filter("Logical_Switch", filter).await }
    });
    proxy.refuse(false);
    soon(changing).await.unwrap().unwrap();
    assert_eq!(names(&client), once(["a", "c"]));
    set(Filter::all()).await.unwrap();
    assert_eq!(names(&client), once(["a", "b", "c"]));
}
