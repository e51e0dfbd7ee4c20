//! Limits of one connection.

use std::time::{Duration, Instant};

use ovsdb_sim::{Limits, Sim};
use patchbay_schemas::json::Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::Client;
use crate::{Bed, insert};

async fn few() -> Bed {
    Bed::new(Limits { locks: 2, monitors: 2, waiting_transactions: 2, ..Limits::default() }).await
}

/// Reads the error in the next message.
async fn refused(client: &mut Client) -> String {
    let reply = client.next().await.unwrap();
    reply.get("error").map(Json::to_text).unwrap_or_default()
}

#[tokio::test]
async fn locks_are_counted_until_they_are_unlocked() {
    let bed = few().await;
    let (mut client, mut other) = (bed.client().await, bed.client().await);
    client.call("lock", r#"["a"]"#).await.unwrap();
    client.call("steal", r#"["b"]"#).await.unwrap();
    client.request("lock", r#"["c"]"#, 1).await;
    let error = r#"{"details":"a connection may not have more than 2 locks","error":"resources exhausted"}"#;
    assert_eq!(refused(&mut client).await, error);
    other.call("lock", r#"["c"]"#).await.unwrap();
    client.call("unlock", r#"["a"]"#).await.unwrap();
    client.call("lock", r#"["a"]"#).await.unwrap();
}

#[tokio::test]
async fn monitors_of_all_databases_are_counted() {
    let bed = few().await;
    let mut client = bed.client().await;
    client.call("monitor", r#"["D",1,{"A":{}}]"#).await.unwrap();
    let params = r#"["_Server",2,{"Database":{}}]"#;
    client.call("monitor_cond", params).await.unwrap();
    client.request("monitor", r#"["D",3,{"A":{}}]"#, 1).await;
    let error = r#"{"details":"a connection may not have more than 2 monitors","error":"resources exhausted"}"#;
    assert_eq!(refused(&mut client).await, error);
    client.call("monitor_cancel", "[2]").await.unwrap();
    client.call("monitor", r#"["D",3,{"A":{}}]"#).await.unwrap();
}

#[tokio::test]
async fn bytes_that_a_client_leaves_behind_are_counted_until_they_are_gone() {
    let bed = Bed::new(Limits { connection_memory: 5000, ..Limits::default() }).await;
    let (mut client, mut other) = (bed.client().await, bed.client().await);
    let error = r#"{"details":"a connection may not leave behind more than 5000 bytes","error":"resources exhausted"}"#;
    let text = |letter: &str| letter.repeat(3000);
    let monitor = |letter: &str| format!(r#"["D","{}",{{"A":{{}}}}]"#, text(letter));
    client.call("monitor_cond", &monitor("a")).await.unwrap();
    // The bytes of locks, monitors and waiting transactions are counted together.
    let lock = format!(r#"["{}"]"#, text("l"));
    client.request("lock", &lock, 1).await;
    assert_eq!(refused(&mut client).await, error);
    client.request("monitor", &monitor("b"), 1).await;
    assert_eq!(refused(&mut client).await, error);
    let wait =
        r#"["D",{"op":"wait","table":"A","where":[],"columns":["i"],"until":"!=","rows":[]}]"#;
    let id = format!("\"{}\"", text("w"));
    client.request("transact", wait, &id).await;
    assert_eq!(refused(&mut client).await, error);
    let comment =
        format!(r#"{},{{"op":"comment","comment":"{}"}}]"#, &wait[..wait.len() - 1], text("c"));
    client.request("transact", &comment, 1).await;
    assert_eq!(refused(&mut client).await, error);
    let clauses = vec![r#"["i","==",1]"#; 200].join(",");
    let change = format!(r#"["{}",1,{{"A":[{{"where":[{clauses}]}}]}}]"#, text("a"));
    client.request("monitor_cond_change", &change, 1).await;
    assert_eq!(refused(&mut client).await, error);
    other.call("monitor", &monitor("b")).await.unwrap();
    let cancel = format!(r#"["{}"]"#, text("a"));
    client.call("monitor_cancel", &cancel).await.unwrap();
    client.call("lock", &lock).await.unwrap();
    client.call("unlock", &lock).await.unwrap();
    // The request id is free again after a refusal.
    client.request("transact", wait, &id).await;
    assert!(client.is_served().await);
    client.request("lock", &lock, 1).await;
    assert_eq!(refused(&mut client).await, error);
    client.call("transact", &insert("A", "x")).await.expect("it ends the wait");
    client.call("lock", &lock).await.unwrap();
}

#[tokio::test]
async fn what_all_clients_leave_behind_is_bounded_and_ends_with_them() {
    const NAME_BYTES: usize = 1 << 20;
    let bed = Bed::new(Limits {
        memory: 8 * NAME_BYTES,
        connection_memory: 3 * NAME_BYTES,
        ..Limits::default()
    })
    .await;
    let mut clients = Vec::new();
    let mut granted = 0;
    for number in 0..6 {
        let mut client = bed.client().await;
        for letter in ["a", "b", "c", "d"] {
            let lock = format!(r#"["n{number}{}"]"#, letter.repeat(NAME_BYTES - 1024));
            granted += usize::from(client.call("lock", &lock).await.is_some());
        }
        clients.push(client);
    }
    // The text of a request counts, too, while it is received.
    assert!((6..=8).contains(&granted), "{granted}");
    let held = bed.sim.connection_bytes();
    assert!(held <= 8 * NAME_BYTES && held > 5 * NAME_BYTES, "{held}");
    drop(clients);
    let start = Instant::now();
    while bed.sim.connection_bytes() > 0 {
        assert!(start.elapsed() < Duration::from_secs(120), "bytes stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_message_that_does_not_end_closes_its_connection() {
    let sim = Sim::builder()
        .limits(Limits { connection_memory: 1 << 20, ..Limits::default() })
        .build()
        .unwrap();
    let mut stream = sim.connect().unwrap();
    let begin = br#"{"id":1,"method":"echo","params":[""#;
    stream.write_all(begin).await.unwrap();
    stream.write_all(&vec![b'x'; 3 << 20]).await.unwrap();
    // It is not too long: it may be complete in time.
    stream.write_all(b"\"]}").await.unwrap();
    let mut echoed = vec![0; 3 << 20];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(sim.connections().len(), 1);
    stream.write_all(begin).await.unwrap();
    stream.write_all(&vec![b'x'; 3 << 20]).await.unwrap();
    // Paused time goes on while nothing else happens.
    let mut rest = Vec::new();
    loop {
        // Each byte answers the probes.
        if stream.write_all(b"x").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        if sim.connections().is_empty() {
            break;
        }
    }
    stream.read_to_end(&mut rest).await.unwrap_or_default();
    assert_eq!(sim.connection_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_long_replies_is_disconnected_after_a_minute() {
    let sim = Sim::builder()
        .limits(Limits { connection_memory: 1 << 20, ..Limits::default() })
        .build()
        .unwrap();
    let mut stream = sim.connect().unwrap();
    let echo = format!(r#"{{"id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(3 << 20));
    stream.write_all(echo.as_bytes()).await.unwrap();
    while !sim.connections().is_empty() {
        // Whitespace answers the probes, until the server does not read any more.
        let write = stream.write_all(b" ");
        let sent = tokio::time::timeout(Duration::from_secs(1), write).await;
        drop(sent);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(sim.connection_bytes(), 0);
}

#[tokio::test]
async fn waiting_transactions_are_counted() {
    let bed = few().await;
    let mut client = bed.client().await;
    let wait =
        r#"["D",{"op":"wait","table":"A","where":[],"columns":["i"],"until":"!=","rows":[]}]"#;
    for id in 1..=3 {
        client.request("transact", wait, id).await;
    }
    let error = r#"{"details":"a connection may not have more than 2 waiting transactions","error":"resources exhausted"}"#;
    assert_eq!(refused(&mut client).await, error);
    // A transaction that does not wait is executed, and satisfies the others.
    client.request("transact", &insert("A", "x"), 4).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.next().await.unwrap().get("id").unwrap().to_text());
    }
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2", "4"]);
}
