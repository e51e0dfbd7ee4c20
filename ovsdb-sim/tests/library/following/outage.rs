//! Sources that are away for a long time. Time is paused: it advances only while everybody waits.

use std::time::Duration;

use ovsdb_sim::{Fault, Model};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::json::Json;
use tokio::time::{Instant, sleep};

use super::{ALL, Server, error, insert, values};
use crate::client::Client;

/// Time after which ovsdb-server's relay reports a source that hangs: five seconds until the probe,
/// five seconds without an answer, and half a minute without a connection.
const REPORT_TIME: Duration = Duration::from_secs(40);
/// Limit of a state that takes several probe intervals.
const STATE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Connection of the relay's client to the database, as `_Server` reports it.
const CONNECTED: &str = r#"["_Server","s",
    {"Database":[{"columns":["connected"],"where":[["name","==","D"]]}]}]"#;

/// A client with monitors of the table and of the relay's state.
async fn monitoring(relay: &Server) -> Client {
    let mut client = relay.client().await;
    let nil = uuid::Uuid::nil();
    let monitor = format!(r#"["D","m",{{"T":[{{"columns":["i"]}}]}},"{nil}"]"#);
    let began = client.call("monitor_cond_since", &monitor).await;
    assert!(began.is_some(), "a monitor of the table");
    let began = client.call("monitor_cond", CONNECTED).await;
    assert!(began.is_some(), "a monitor of the state");
    client
}

/// The state that the relay reports to a new client.
async fn is_connected(relay: &Server) -> bool {
    relay.status().await.contains(r#""connected":true"#)
}

async fn until_connected(relay: &Server, expected: bool) {
    let start = Instant::now();
    while is_connected(relay).await != expected {
        assert!(start.elapsed() < STATE_TIMEOUT, "{expected} did not come");
        sleep(Duration::from_secs(1)).await;
    }
}

/// The next message: what it is, and its content.
async fn next(client: &mut Client) -> (String, Json) {
    let message = client.next().await.expect("an open connection");
    let what = message
        .get("method")
        .or_else(|| message.get("id"))
        .and_then(Json::as_str)
        .expect("a name")
        .to_owned();
    (what, message)
}

async fn write(client: &mut Client, i: i64, id: &str) {
    let params = format!(r#"["D",{}]"#, insert(i));
    let id = format!("\"{id}\"");
    client.request("transact", &params, id).await;
}

#[tokio::test(start_paused = true)]
async fn monitors_of_a_relay_outlive_a_source_that_hangs_for_longer_than_its_probes() {
    for model in [Model::Standalone, Model::Clustered] {
        let folder = ScratchDir::new();
        let source = Server::source(&folder, model).await;
        let relay = Server::relay(&folder, "relay", &source.remote()).await;
        let mut client = monitoring(&relay).await;

        source.sim.set_fault(Fault::StopReading).unwrap();
        let start = Instant::now();
        write(&mut client, 1, "lost").await;
        until_connected(&relay, false).await;
        let elapsed = start.elapsed();
        let expected = REPORT_TIME..REPORT_TIME + Duration::from_secs(5);
        assert!(expected.contains(&elapsed), "{elapsed:?}");
        // The connection ends when a probe is not answered, and the transaction with it.
        let (id, reply) = next(&mut client).await;
        assert_eq!((&*id, &*error(&reply)), ("lost", "canceled"));
        let (method, update) = next(&mut client).await;
        assert_eq!(method, "update2");
        assert!(update.to_text().contains(r#""connected":false"#));
        // It still serves what it has. Writes wait.
        assert!(values(&client.ask("transact", ALL).await).is_empty());
        write(&mut client, 2, "waiting").await;
        assert!(client.is_served().await);

        source.sim.clear_faults();
        until_connected(&relay, true).await;
        relay.wait_for(&[1, 2]).await;
        let mut seen = Vec::new();
        // The state, the row of the source, the own row, and the reply.
        while !seen.contains(&"waiting".to_owned()) {
            let (what, message) = next(&mut client).await;
            match &*what {
                "update2" => assert!(message.to_text().contains(r#""connected":true"#)),
                "update3" => assert!(message.to_text().contains(r#""insert""#)),
                "waiting" => assert_eq!(error(&message), ""),
                _ => panic!("{message:?}"),
            }
            seen.push(what);
        }
        assert_eq!(seen.iter().filter(|what| *what == "update2").count(), 1);
        assert!(seen.contains(&"update3".to_owned()), "{seen:?}");
        // The monitor goes on.
        write(&mut client, 3, "last").await;
        let (method, update) = next(&mut client).await;
        assert_eq!(method, "update3");
        assert!(update.to_text().contains(r#""i":3"#), "{update:?}");
        assert_eq!(next(&mut client).await.0, "last");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_comes_back_without_its_rows_changes_the_monitors_of_its_relay() {
    let folder = ScratchDir::new();
    let source = Server::source(&folder, Model::Standalone).await;
    let relay = Server::relay(&folder, "relay", &source.remote()).await;
    for i in [1, 2] {
        assert_eq!(error(&relay.client().await.transact(&insert(i)).await), "");
    }
    let mut client = monitoring(&relay).await;
    source.sim.go_down().await;
    until_connected(&relay, false).await;
    assert_eq!(next(&mut client).await.0, "update2");
    drop(source);
    // Another server in its place, with one equal row and another one.
    let source = Server::source(&folder, Model::Standalone).await;
    for i in [2, 3] {
        source.client().await.transact(&insert(i)).await;
    }
    until_connected(&relay, true).await;
    relay.wait_for(&[2, 3]).await;
    let mut texts = Vec::new();
    while texts.len() < 2 {
        let (method, message) = next(&mut client).await;
        texts.push((method, message.to_text()));
    }
    texts.sort_unstable();
    let [(state, _), (rows, changes)] = &texts[..] else { panic!("{texts:?}") };
    assert_eq!((&**state, &**rows), ("update2", "update3"));
    // Rows with other UUIDs are other rows.
    let count = |kind: &str| changes.matches(kind).count();
    assert_eq!((count("\"delete\""), count("\"insert\"")), (2, 2));
    assert!(client.is_served().await);
}
