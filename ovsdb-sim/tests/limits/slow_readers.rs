//! Slow readers: the changes for their monitors are merged.

use std::collections::BTreeMap;

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;

use crate::client::Client;
use crate::{Bed, insert};

const ROWS: usize = 16;
const CHANGES: usize = 300;
/// Length of a string in a row, in bytes.
const LEN: usize = 1 << 14;
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// Rows according to the updates of a monitor.
type Rows = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Json>>;

#[tokio::test]
async fn a_slow_reader_gets_one_update_of_many_changes_and_ends_with_the_right_rows() {
    let bed = Bed::new(Limits { backlog: 1 << 20, ..Limits::default() }).await;
    let (mut slow, mut quick) = (bed.client().await, bed.client().await);
    let mut writer = bed.client().await;
    for reader in [&mut slow, &mut quick] {
        for (method, rest) in [
            ("monitor", String::new()),
            ("monitor_cond", String::new()),
            ("monitor_cond_since", format!(",\"{ZERO}\"")),
        ] {
            let requests = r#"{"A":{"columns":["s","i"]}}"#;
            let params = format!(r#"["D","{method}",{requests}{rest}]"#);
            reader.call(method, &params).await.unwrap();
        }
    }
    let text = |change: usize| char::from(b'a' + (change % 26) as u8).to_string().repeat(LEN);
    for row in 0..ROWS {
        let operation = format!(r#"{{"op":"insert","table":"A","row":{{"i":{row}}}}}"#);
        let params = format!(r#"["D",{operation}]"#);
        writer.call("transact", &params).await.unwrap();
    }
    for change in 0..CHANGES {
        let operation = match change % 10 {
            3 => r#"{"op":"insert","table":"A","row":{"i":-1}}"#.to_owned(),
            5 => r#"{"op":"delete","table":"A","where":[["i","==",-1]]}"#.to_owned(),
            _ => {
                let (row, text) = (change % ROWS, text(change));
                format!(
                    r#"{{"op":"update","table":"A","where":[["i","==",{row}]],"row":{{"s":"{text}"}}}}"#
                )
            }
        };
        let params = format!(r#"["D",{operation}]"#);
        writer.call("transact", &params).await.unwrap();
        read_all(&mut quick).await;
    }
    let last = r#"["D",{"op":"insert","table":"A","row":{"i":-2}}]"#;
    writer.call("transact", last).await.unwrap();
    let select = r#"["D",{"op":"select","table":"A","where":[],"columns":["s","i"]}]"#;
    let selected = writer.call("transact", select).await.unwrap();
    let Some(Json::Array(expected)) = selected_rows(&selected) else {
        panic!("{}", selected.to_text())
    };
    let mut expected: Vec<String> = expected.iter().map(Json::to_text).collect();
    expected.sort_unstable();

    let (monitors, bytes) = updates(&mut slow).await;
    for method in ["monitor", "monitor_cond", "monitor_cond_since"] {
        let mut rows: Vec<String> =
            monitors[method].values().map(|row| Json::Object(row.clone()).to_text()).collect();
        rows.sort_unstable();
        assert!(rows == expected, "{method}: {} rows", rows.len());
    }
    // Separate updates of every change would be ten times as long for each of its monitors.
    let all_changes = 3 * CHANGES * LEN;
    assert!(bytes < all_changes / 4, "{bytes} of {all_changes}");
}

#[tokio::test]
async fn former_versions_of_rows_that_wait_for_slow_readers_count_in_the_budget() {
    const READERS: usize = 12;
    /// Length of a string in the row, in bytes.
    const LONG: usize = 1 << 22;
    let bed = Bed::new(Limits { memory: 8 * LONG, ..Limits::default() }).await;
    let mut writer = bed.client().await;
    let first = insert("A", &"a".repeat(LONG));
    writer.call("transact", &first).await.unwrap();
    let mut readers = Vec::new();
    for reader in 0..READERS {
        let mut slow = bed.client().await;
        let monitor = r#"["D",1,{"A":{"columns":["s"],"select":{"initial":false}}}]"#;
        slow.call("monitor", monitor).await.unwrap();
        // It reads neither the rest of this reply nor the update behind it.
        let padding = format!("[\"{}\"]", "x".repeat(1 << 20));
        slow.request("echo", &padding, 1).await;
        slow.stream.readable().await.unwrap();
        let text = char::from(b'b' + reader as u8).to_string().repeat(LONG);
        let update = format!(r#"{{"op":"update","table":"A","where":[],"row":{{"s":"{text}"}}}}"#);
        writer.call("transact", &format!(r#"["D",{update}]"#)).await;
        readers.push(slow);
    }
    // Each reader's collected changes hold another version of the row.
    let mut kept = 0;
    for reader in &mut readers {
        kept += usize::from(reader.is_served().await);
    }
    assert!((2..=8).contains(&kept), "{kept}");
    assert!(writer.is_served().await);
}

fn selected_rows(results: &Json) -> Option<&Json> {
    match results {
        Json::Array(results) => results.first()?.get("rows"),
        _ => None,
    }
}

/// Reads everything.
async fn read_all(client: &mut Client) {
    assert!(client.is_served().await);
}

/// Reads all updates and applies them for each monitor. Returns the rows and the updates' length in
/// bytes.
async fn updates(client: &mut Client) -> (BTreeMap<String, Rows>, usize) {
    client.request("echo", "[]", "\"end\"").await;
    let mut monitors: BTreeMap<String, Rows> = BTreeMap::new();
    let mut bytes = 0;
    loop {
        let message = client.next().await.expect("it is not cut off");
        if message.get("id").and_then(Json::as_str) == Some("end") {
            return (monitors, bytes);
        }
        bytes += message.to_text().len();
        let Some(Json::Array(params)) = message.get("params") else {
            panic!("{}", message.to_text())
        };
        let name = params[0].as_str().unwrap().to_owned();
        if let Some(Json::Object(rows)) = params.last().unwrap().get("A") {
            let known = monitors.entry(name).or_default();
            for (uuid, update) in rows {
                apply(known, uuid, update);
            }
        }
    }
}

/// Applies an update of a row. Columns without a value in an `insert` have their defaults.
fn apply(rows: &mut Rows, uuid: &[u8], update: &Json) {
    let Json::Object(members) = update else { panic!("{}", update.to_text()) };
    let Some(Json::Object(columns)) =
        ["new", "insert", "modify"].iter().find_map(|name| members.get(name.as_bytes()))
    else {
        assert!(rows.remove(uuid).is_some(), "a row that is not there goes");
        return;
    };
    let row = rows.entry(uuid.to_vec()).or_insert_with(|| {
        assert!(!members.contains_key(&b"modify"[..]), "a row that is not there changes");
        [(b"i".to_vec(), Json::Integer(0)), (b"s".to_vec(), Json::string(""))].into()
    });
    row.extend(columns.clone());
}
