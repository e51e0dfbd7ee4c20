//! Results and updates that one client requests and whose memory would grow with its requests.

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;

use crate::client::Client;
use crate::{Bed, insert};

const BACKLOG: usize = 1 << 20;
const SELECT: &str = r#"{"op":"select","table":"A","where":[],"columns":["_uuid"]}"#;

/// Server whose table `A` has rows with the numbers from 0.
async fn filled(rows: usize, limits: Limits) -> (Bed, Client) {
    let bed = Bed::new(limits).await;
    let mut client = bed.client().await;
    let row = |i| format!(r#",{{"op":"insert","table":"A","row":{{"i":{i}}}}}"#);
    let rows: String = (0..rows).map(row).collect();
    client.call("transact", &format!(r#"["D"{rows}]"#)).await.unwrap();
    (bed, client)
}

fn limits() -> Limits {
    Limits { backlog: BACKLOG, ..Limits::default() }
}

/// Sends operations, and returns the text of the reply's results.
async fn results(client: &mut Client, operations: &[&str]) -> String {
    let params = format!(r#"["D",{}]"#, operations.join(","));
    let results = client.call("transact", &params).await;
    results.expect("the connection stays").to_text()
}

#[tokio::test]
async fn selects_of_all_rows_are_refused_before_their_rows_fill_memory() {
    let (_bed, mut client) = filled(10_000, limits()).await;
    // The list of rows alone would have 160 MB, before the reply is longer than its limit.
    let many = vec![SELECT; 2_000];
    let error = r#"{"details":"the rows that a transaction selects may not have more than 1048576 bytes together","error":"resources exhausted"}"#;
    assert!(results(&mut client, &many).await.contains(error));
    let delete = r#"{"op":"delete","table":"A","where":[["i","<",5000]]}"#;
    let writing = [&[delete], &many[..]].concat();
    assert!(results(&mut client, &writing).await.contains(error));
    // It has deleted nothing.
    let count = r#"{"op":"mutate","table":"A","where":[],"mutations":[["i","+=",1]]}"#;
    assert_eq!(results(&mut client, &[count]).await, r#"[{"count":10000}]"#);
}

#[tokio::test]
async fn selected_rows_that_the_transaction_has_changed_count_with_their_values() {
    let (_bed, mut client) = filled(1_000, limits()).await;
    let change = r#"{"op":"mutate","table":"A","where":[],"mutations":[["i","+=",1]]}"#;
    let select = r#"{"op":"select","table":"A","where":[],"columns":["i"]}"#;
    // Each select holds a version of each row, of which the reply has few bytes.
    let steps = [change, select].repeat(40);
    let text = results(&mut client, &steps).await;
    assert!(text.contains("resources exhausted"), "{}", text.len());
    // The same number of rows in one version.
    let text = results(&mut client, &[select; 40]).await;
    assert!(!text.contains("error"));
}

#[tokio::test]
async fn updates_of_many_monitors_of_one_session_are_encoded_one_after_the_other() {
    const MONITORS: usize = 300;
    const ROWS: usize = 1_000;
    let (bed, mut writer) = filled(ROWS, limits()).await;
    let mut reader = bed.client().await;
    for id in 0..MONITORS {
        // All of them report all rows, and no two have one request.
        let requests = format!(r#"{{"A":{{"columns":["i"],"where":[["i",">=",-{id}]]}}}}"#);
        let params = format!(r#"["D",{id},{requests}]"#);
        reader.call("monitor_cond", &params).await.unwrap();
    }
    let change = r#"{"op":"mutate","table":"A","where":[],"mutations":[["i","+=",1]]}"#;
    results(&mut writer, &[change]).await;
    // Together the updates have some ten megabytes, of which a client may leave one unread.
    let mut updated = vec![0; MONITORS];
    while updated.contains(&0) {
        let update = reader.next().await.expect("the connection stays");
        let Some(Json::Array(params)) = update.get("params") else {
            panic!("{}", update.to_text())
        };
        let id = params[0].to_text().parse::<usize>().unwrap();
        let Some(Json::Object(rows)) = params[1].get("A") else { panic!("{}", update.to_text()) };
        updated[id] += rows.len();
    }
    assert_eq!(updated, [ROWS; MONITORS]);
    assert!(reader.is_served().await);
}

#[tokio::test]
async fn what_is_held_in_small_parts_by_many_clients_counts() {
    const NAME_BYTES: usize = 1 << 15;
    let bed = Bed::new(Limits { memory: 34 * NAME_BYTES, ..Limits::default() }).await;
    let name = "n".repeat(NAME_BYTES - 2048);
    let mut clients = Vec::new();
    let mut granted = 0;
    for number in 0..100 {
        let mut client = bed.client().await;
        let lock = format!(r#"["n{number}{name}"]"#);
        granted += usize::from(client.call("lock", &lock).await.is_some());
        clients.push(client);
    }
    // A name is kept twice.
    assert!((12..=20).contains(&granted), "{granted}");
}

#[tokio::test]
async fn rows_that_are_kept_to_decode_the_next_ones_count() {
    let bed = Bed::new(Limits::default()).await;
    let mut client = bed.client().await;
    let row = insert("A", &"x".repeat(3_900));
    let held = bed.sim.connection_bytes();
    for _ in 0..50 {
        client.call("transact", &row).await.unwrap();
    }
    let row = insert("B", &"x".repeat(3_900));
    client.call("transact", &row).await.unwrap();
    let more = bed.sim.connection_bytes() - held;
    // A row of each table.
    assert!((8_000..16_000).contains(&more), "{more}");
}
