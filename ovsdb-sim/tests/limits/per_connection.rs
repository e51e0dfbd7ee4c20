//! Limits of one connection.

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;

use crate::client::Client;
use crate::{Bed, insert};

async fn few() -> Bed {
    Bed::new(Limits {
        locks: 2,
        monitors: 2,
        waiting_transactions: 2,
        ..Limits::default()
    })
    .await
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
async fn the_bytes_of_monitors_are_counted() {
    let bed = Bed::new(Limits {
        monitor_bytes: 2000,
        ..Limits::default()
    })
    .await;
    let (mut client, mut other) = (bed.client().await, bed.client().await);
    let monitor = |letter: &str| format!(r#"["D","{}",{{"A":{{}}}}]"#, letter.repeat(1500));
    client.call("monitor", &monitor("a")).await.unwrap();
    client.request("monitor", &monitor("b"), 1).await;
    let error = r#"{"details":"a connection may not have more than 2000 bytes of monitors","error":"resources exhausted"}"#;
    assert_eq!(refused(&mut client).await, error);
    other.call("monitor", &monitor("b")).await.unwrap();
    let cancel = format!(r#"["{}"]"#, "a".repeat(1500));
    client.call("monitor_cancel", &cancel).await.unwrap();
    let small = r#"["D",1,{"A":{}}]"#;
    client.call("monitor_cond", small).await.unwrap();
    let clauses = vec![r#"["i","==",1]"#; 200].join(",");
    let change = format!(r#"[1,1,{{"A":[{{"where":[{clauses}]}}]}}]"#);
    client.request("monitor_cond_change", &change, 1).await;
    assert_eq!(refused(&mut client).await, error);
    client.call("monitor", &monitor("b")).await.unwrap();
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
