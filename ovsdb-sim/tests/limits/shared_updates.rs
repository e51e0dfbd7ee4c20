//! Many monitors with equal requests: each gets each update once, in order and in time.

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Bed;
use crate::client::Client;

const READERS: usize = 12;
const STEPS: usize = 2000;
/// Number of updates in a burst, of which most are shared.
const MANY: i64 = 20;
const MONITOR: &str = r#"["D","m",{"A":[{}]}]"#;

/// Number and length in bytes of updates that a connection does not hold: its reader is behind.
const LONG_UPDATES: usize = 50;
const LONG_UPDATE_BYTES: usize = 1 << 14;

/// Client with a monitor of the table's only row, in which a number is increased.
struct Reader {
    client: Client,
    /// The number according to the monitor.
    seen: i64,
    /// `true` if the server may merge updates, because the client reads slowly.
    is_slow: bool,
}

impl Reader {
    async fn new(client: Client, is_slow: bool) -> Self {
        let mut reader = Self { client, seen: 0, is_slow };
        reader.monitor().await;
        reader
    }

    async fn monitor(&mut self) {
        let reply = self.call("monitor_cond", MONITOR).await;
        self.seen = number_in(&reply).unwrap();
    }

    /// Sends a request and returns its result. Checks the updates before it.
    async fn call(&mut self, method: &str, params: &str) -> Json {
        self.client.request(method, params, "\"call\"").await;
        loop {
            let message = self.client.next().await.expect("it is not cut off");
            if message.get("id").and_then(Json::as_str) == Some("call") {
                return message.get("result").unwrap().clone();
            }
            let Some(Json::Array(params)) = message.get("params") else {
                panic!("{}", message.to_text())
            };
            let number = number_in(params.last().unwrap()).unwrap();
            if self.is_slow {
                assert!(number > self.seen, "{number} after {}", self.seen);
            } else {
                assert_eq!(number, self.seen + 1);
            }
            self.seen = number;
        }
    }
}

/// The number in `{"A":{UUID:{"initial" or "modify":{"i":NUMBER}}}}`, 0 if it is omitted.
fn number_in(update: &Json) -> Option<i64> {
    let Json::Object(rows) = update.get("A")? else {
        return None;
    };
    let row = rows.values().next()?;
    let row = row.get("initial").or(row.get("modify"))?;
    match row.get("i") {
        Some(Json::Integer(number)) => Some(*number),
        Some(_) => None,
        None => Some(0),
    }
}

/// Increases the number. `len`: length in bytes of another value that changes.
fn increase(len: usize) -> String {
    let mutate = r#"{"op":"mutate","table":"A","where":[],"mutations":[["i","+=",1]]}"#;
    if len == 0 {
        return format!(r#"["D",{mutate}]"#);
    }
    let text = "x".repeat(len);
    format!(r#"["D",{mutate},{{"op":"update","table":"A","where":[],"row":{{"s":"{text}"}}}}]"#)
}

/// Increases the number several times in a short time. Returns by how much.
async fn write_many(writer: &mut Client) -> i64 {
    for _ in 0..MANY {
        writer.call("transact", &increase(0)).await.unwrap();
    }
    MANY
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_equal_monitors_gets_each_update_once_before_the_next_reply() {
    let bed = Bed::new(Limits::default()).await;
    let mut writer = bed.client().await;
    let first = r#"["D",{"op":"insert","table":"A","row":{}}]"#;
    writer.call("transact", first).await.unwrap();
    let mut readers = Vec::new();
    for i in 0..READERS {
        readers.push(Reader::new(bed.client().await, i == 0).await);
    }
    let (mut rng, mut number) = (StdRng::seed_from_u64(1), 0);
    for step in 0..STEPS {
        // The first reader does not read until the end.
        let reader = &mut readers[rng.random_range(1..READERS)];
        match rng.random_range(0..100) {
            0..60 => {
                // Different lengths, so that values differ.
                let len = if rng.random_bool(0.1) { 8192 + step } else { 0 };
                writer.call("transact", &increase(len)).await.unwrap();
                number += 1;
            }
            60..75 => {
                number += 1;
                reader.call("transact", &increase(0)).await;
                assert_eq!(reader.seen, number);
            }
            75..92 => {
                reader.call("echo", "[]").await;
                assert_eq!(reader.seen, number);
            }
            92..94 => {
                reader.call("monitor_cancel", r#"["m"]"#).await;
                assert_eq!(reader.seen, number);
                reader.monitor().await;
            }
            94..96 => {
                // A new reader comes, and the former one goes, while updates are shared.
                let client = bed.client().await;
                number += write_many(&mut writer).await;
                let new = Reader::new(client, false).await;
                assert_eq!(new.seen, number);
                number += write_many(&mut writer).await;
                *reader = new;
            }
            _ => {
                let other = r#"["D","other",{"B":[{}]}]"#;
                reader.call("monitor_cond", other).await;
                reader.call("monitor_cancel", r#"["other"]"#).await;
            }
        }
    }
    for round in 0..5 {
        // The first reader is behind, and most of the last updates are shared by the others.
        for change in 0..LONG_UPDATES {
            let text = increase(LONG_UPDATE_BYTES + 2 * round + change % 2);
            writer.call("transact", &text).await.unwrap();
            number += 1;
            if change % 5 == 0 {
                for reader in &mut readers[1..] {
                    reader.call("echo", "[]").await;
                }
            }
        }
        number += write_many(&mut writer).await;
        for reader in &mut readers {
            reader.call("echo", "[]").await;
            assert_eq!(reader.seen, number);
        }
    }
}
