//! Clients that exceed the server's limits: its memory stays bounded, and others are not affected.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod client;
mod locks;
mod long_requests;
mod long_transactions;
mod per_connection;
mod results;
mod shared_updates;
mod slow_readers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ovsdb_sim::{Limits, Listener, Sim};
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use tempfile::TempDir;

use client::Client;

const SCHEMA: &str = r#"{"name":"D","tables":{
    "A":{"columns":{"s":{"type":"string"},"i":{"type":"integer"}}},
    "B":{"columns":{"s":{"type":"string"},"i":{"type":"integer"}}}}}"#;

struct Bed {
    sim: Sim,
    _listener: Listener,
    _folder: TempDir,
    socket: PathBuf,
}

impl Bed {
    async fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("db.sock");
        let schema = Arc::new(DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
        let sim = Sim::builder().schema(schema).limits(limits).build().unwrap();
        let listener = sim.listen(&format!("punix:{}", socket.display())).await;
        Self { sim, _listener: listener.unwrap(), _folder: folder, socket }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.socket).await
    }

    /// Waits until a connection is free, and returns a new client.
    async fn wait_for_free_connection(&self) -> Client {
        let start = Instant::now();
        loop {
            let mut client = self.client().await;
            if client.is_served().await {
                return client;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no place");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn insert(table: &str, text: &str) -> String {
    format!(r#"["D",{{"op":"insert","table":"{table}","row":{{"s":"{text}"}}}}]"#)
}

#[tokio::test]
async fn a_message_longer_than_the_limit_ends_its_connection_only() {
    let bed = Bed::new(Limits { message: 1 << 20, ..Limits::default() }).await;
    let (mut other, mut client) = (bed.client().await, bed.client().await);
    let fits = format!("[\"{}\"]", "x".repeat((1 << 20) - 100));
    assert!(client.call("echo", &fits).await.is_some());
    let piece = vec![b'x'; 1 << 16];
    client.send(br#"{"id":1,"method":"echo","params":[""#).await;
    for _ in 0..20 {
        client.send(&piece).await;
    }
    client.until_closed().await;
    assert!(other.is_served().await);
}

#[tokio::test]
async fn connections_above_the_limit_are_refused_even_all_at_once() {
    let bed = Bed::new(Limits { connections: 4, ..Limits::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(bed.client().await);
    }
    let mut served = Vec::new();
    for mut client in clients {
        if client.is_served().await {
            served.push(client);
        }
    }
    assert_eq!(served.len(), 4);
    served.pop();
    bed.wait_for_free_connection().await;
    for client in &mut served {
        assert!(client.is_served().await);
    }
}

#[tokio::test]
async fn one_peer_cannot_take_all_places() {
    let bed =
        Bed::new(Limits { connections: 4, connections_per_peer: 3, ..Limits::default() }).await;
    let mut mine = Vec::new();
    for _ in 0..10 {
        mine.push(bed.client().await);
    }
    let mut served = 0;
    for client in &mut mine {
        served += usize::from(client.is_served().await);
    }
    assert_eq!(served, 3);
    // Another process of the user is not another peer.
    let list_dbs = |remote: &str| {
        let mut command =
            std::process::Command::new(patchbay_ovn_programs::testing::program("ovsdb-client"));
        command.args(["--timeout=20", "list-dbs", remote]);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let own = list_dbs(&format!("unix:{}", bed.socket.display())).await;
    assert!(!own.unwrap().status.success());
    // Another address has the last place.
    let listener = bed.sim.listen("ptcp:0:127.0.0.1").await.unwrap();
    let other = list_dbs(&listener.remote()).await.unwrap();
    assert!(other.status.success(), "{other:?}");
}

#[tokio::test]
async fn messages_that_are_not_complete_have_a_budget_together() {
    const PIECE: usize = 1 << 19;
    let bed = Bed::new(Limits { memory: 4 * PIECE, ..Limits::default() }).await;
    let mut other = bed.client().await;
    let mut holders = Vec::new();
    for _ in 0..8 {
        let mut client = bed.client().await;
        let text = format!(r#"{{"id":1,"method":"echo","params":["{}"#, "x".repeat(PIECE));
        client.send(text.as_bytes()).await;
        holders.push(client);
    }
    // Those for whom there was no budget are closed; the others can end their messages.
    let mut ended = 0;
    for mut client in holders {
        client.send(b"\"]}").await;
        ended += usize::from(client.next().await.is_some());
    }
    assert!((3..=4).contains(&ended), "{ended}");
    assert!(other.is_served().await);
    let fits = format!("[\"{}\"]", "x".repeat(PIECE));
    assert!(bed.client().await.call("echo", &fits).await.is_some());
}

#[tokio::test]
async fn a_connection_with_too_many_unread_replies_is_closed() {
    let bed = Bed::new(Limits { connections: 1, ..Limits::default() }).await;
    let mut silent = bed.client().await;
    let long = format!("[\"{}\"]", "x".repeat(1 << 19));
    silent.request("echo", &long, 1).await;
    silent.send(b"nonsense").await;
    bed.wait_for_free_connection().await;
}

#[tokio::test]
async fn a_reply_cannot_grow_beyond_the_limit() {
    let bed = Bed::new(Limits { backlog: 1 << 20, ..Limits::default() }).await;
    let (mut other, mut client) = (bed.client().await, bed.client().await);
    let row = insert("A", &"x".repeat(1 << 16));
    other.call("transact", &row).await.unwrap();
    // The reply would have sixty gigabytes.
    let select = r#"{"op":"select","table":"A","where":[]}"#;
    let selects = format!("[\"D\"{}]", format!(",{select}").repeat(1_000_000));
    client.request("transact", &selects, 1).await;
    client.until_closed().await;
    assert!(other.is_served().await);
}

#[tokio::test]
async fn a_request_may_be_received_byte_by_byte() {
    let bed = Bed::new(Limits::default()).await;
    let (mut other, mut client) = (bed.client().await, bed.client().await);
    for byte in br#" {"id":1,"method":"echo","params":["\ud83d\ude00",1.5e0,true]} "# {
        client.send(&[*byte]).await;
        assert!(other.is_served().await);
    }
    let reply = client.next().await.unwrap();
    assert_eq!(reply.get("result").unwrap().to_text(), r#"["😀",1.5,true]"#);
}

#[tokio::test]
async fn the_deepest_nesting_is_served_and_one_more_level_is_not() {
    let bed = Bed::new(Limits::default()).await;
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let mut client = bed.client().await;
    // The message is one level, its parameters are the others.
    let echoed = client.call("echo", &nested(999)).await.unwrap();
    assert_eq!(echoed.to_text(), nested(999));
    // In any position it is decoded or quoted.
    let deep = nested(995);
    for (method, params) in [
        ("transact", format!(r#"["D",{deep}]"#)),
        ("transact", format!(r#"["D",{{"op":{deep}}}]"#)),
        ("monitor", format!(r#"["D",{deep},{{"A":{{}}}}]"#)),
        ("monitor", format!(r#"["D",1,{{"A":{deep}}}]"#)),
        ("convert", format!(r#"["D",{{"name":{deep}}}]"#)),
        ("lock", format!("[{deep}]")),
    ] {
        client.request(method, &params, &deep).await;
        let reply = client.next().await.unwrap();
        assert_eq!(reply.get("id").unwrap().to_text(), deep);
    }
    client.request("echo", &nested(1000), 1).await;
    client.until_closed().await;
}

#[tokio::test]
async fn a_very_long_string_is_stored_and_read_back() {
    let bed = Bed::new(Limits::default()).await;
    let (mut other, mut client) = (bed.client().await, bed.client().await);
    let text = "x".repeat(32 << 20);
    client.call("transact", &insert("A", &text)).await.unwrap();
    assert!(other.is_served().await);
    let select = r#"["D",{"op":"select","table":"A","where":[],"columns":["s"]}]"#;
    let rows = client.call("transact", select).await.unwrap();
    assert_eq!(
        rows,
        Json::parse(format!(r#"[{{"rows":[{{"s":"{text}"}}]}}]"#).as_bytes()).unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_read_delays_no_writer() {
    const ROWS: usize = 20_000;
    const SELECTS: usize = 1_000;
    let bed = Bed::new(Limits::default()).await;
    let (mut reader, mut writer) = (bed.client().await, bed.client().await);
    let rows = r#",{"op":"insert","table":"A","row":{"i":1}}"#.repeat(ROWS);
    let filled = writer.call("transact", &format!("[\"D\"{rows}]")).await;
    assert!(filled.is_some());
    let select = r#",{"op":"select","table":"A","where":[["i","==",2]]}"#.repeat(SELECTS);
    reader.request("transact", &format!("[\"D\"{select}]"), 1).await;
    for _ in 0..20 {
        writer.call("transact", &insert("B", "x")).await.unwrap();
    }
    let early = tokio::time::timeout(Duration::ZERO, reader.next()).await;
    assert!(early.is_err(), "the writer has waited for the reader");
    // The read has the content of its begin.
    let change = r#"["D",{"op":"update","table":"A","where":[],"row":{"i":2}}]"#;
    writer.call("transact", change).await.unwrap();
    let reply = reader.next().await.unwrap();
    let Some(Json::Array(results)) = reply.get("result") else { panic!("{}", reply.to_text()) };
    assert_eq!(results.len(), SELECTS);
    let first = results[0].to_text();
    assert!(results.iter().all(|result| result.to_text() == first));
}

#[tokio::test]
async fn transactions_that_wait_for_other_tables_cost_a_commit_nothing() {
    const WAITING: usize = 20_000;
    let bed = Bed::new(Limits::default()).await;
    let mut waiting = bed.client().await;
    let wait =
        r#"["D",{"op":"wait","table":"A","where":[],"columns":["i"],"until":"!=","rows":[]}]"#;
    let start = Instant::now();
    for id in 0..WAITING {
        waiting.request("transact", wait, id).await;
    }
    assert!(waiting.is_served().await);
    let mut writer = bed.client().await;
    for _ in 0..1000 {
        writer.call("transact", &insert("B", "x")).await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(180), "{:?}", start.elapsed());
    writer.call("transact", &insert("A", "x")).await.unwrap();
    for id in 0..WAITING {
        let reply = waiting.next().await.unwrap();
        assert_eq!(reply.get("id"), Some(&Json::Integer(id as i64)));
        assert_eq!(reply.get("result").unwrap().to_text(), "[{}]");
    }
}

#[tokio::test]
async fn thousands_of_monitors_on_one_connection_begin_and_end() {
    const MONITORS: usize = 20_000;
    let bed = Bed::new(Limits::default()).await;
    let (mut client, mut writer) = (bed.client().await, bed.client().await);
    let start = Instant::now();
    for id in 0..MONITORS {
        // Half of them have the same request, the others different ones.
        let condition = if id % 2 == 0 { 0 } else { id };
        let requests = format!(r#"{{"A":{{"where":[["i","<=",{condition}]]}}}}"#);
        let params = format!(r#"["D",{id},{requests}]"#);
        assert!(client.call("monitor_cond", &params).await.is_some(), "{id}");
    }
    writer.call("transact", &insert("A", "x")).await.unwrap();
    for _ in 0..MONITORS {
        let update = client.next().await.unwrap();
        assert_eq!(update.get("method").and_then(Json::as_str), Some("update2"));
    }
    for id in 0..MONITORS {
        let params = format!("[{id}]");
        assert!(client.call("monitor_cancel", &params).await.is_some(), "{id}");
    }
    assert!(start.elapsed() < Duration::from_secs(240), "{:?}", start.elapsed());
    writer.call("transact", &insert("A", "x")).await.unwrap();
    assert!(client.is_served().await);
}
