//! Content of the databases of ovn-northd, independent of UUIDs.
//!
//! A row's UUID becomes a digest of the row, in which the UUIDs of other rows are replaced by their
//! digests, and so on for some steps. That includes the northbound database, whose UUIDs ovn-northd
//! writes into the southbound database.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Map, Value, json};

const UUID_LEN: usize = 36;
/// Length of the part of a UUID with which ovn-northd hints at a row.
const PART_LEN: usize = 8;
/// Maximum distance of the rows whose content is part of a row's digest.
const STEPS: usize = 6;

/// Columns that ovn-northd draws at random, counts in the order of UUIDs, or takes from the clock.
const ARBITRARY: [(&str, &[&str]); 6] = [
    ("BFD", &["disc", "src_port"]),
    ("Datapath_Binding", &["tunnel_key"]),
    ("Multicast_Group", &["tunnel_key"]),
    ("NB_Global", &["nb_cfg_timestamp", "sb_cfg_timestamp", "hv_cfg_timestamp"]),
    ("Port_Binding", &["tunnel_key"]),
    ("SB_Global", &["nb_cfg"]),
];

struct Row {
    database: &'static str,
    table: String,
    columns: Map<String, Value>,
}

/// The rows of both databases, one line each, sorted. First without references, which shows the
/// origin of a difference, then those of the southbound database with references.
pub(crate) fn content(socket: &Path) -> String {
    let mut rows = HashMap::new();
    for database in ["OVN_Northbound", "OVN_Southbound"] {
        read(socket, database, &mut rows);
    }
    let mut digests: HashMap<&str, u64> = HashMap::new();
    let mut lines: Vec<String> = rows.values().map(|row| line(row, &digests)).collect();
    lines.sort_unstable();
    for _ in 0..STEPS {
        let digest = |(uuid, row): (&'_ String, &Row)| {
            let mut hasher = DefaultHasher::new();
            line(row, &digests).hash(&mut hasher);
            (uuid.clone(), hasher.finish())
        };
        let next: HashMap<String, u64> = rows.iter().map(digest).collect();
        digests = HashMap::new();
        for uuid in rows.keys() {
            digests.insert(uuid, next[uuid]);
            digests.insert(&uuid[..PART_LEN], next[uuid]);
        }
    }
    let southbound = rows.values().filter(|row| row.database == "OVN_Southbound");
    let mut whole: Vec<String> = southbound.map(|row| line(row, &digests)).collect();
    whole.sort_unstable();
    lines.extend(whole);
    lines.join("\n")
}

/// Removes the parts of UUIDs that `ovn-sbctl lflow-list` prints.
pub(crate) fn without_flow_ids(text: &str) -> String {
    let mut parts = text.split("uuid=0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "uuid=0x";
        out += part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    out
}

fn read(socket: &Path, database: &'static str, rows: &mut HashMap<String, Row>) {
    let schema = request(socket, &json!({"id": 0, "method": "get_schema", "params": [database]}));
    let tables = schema["result"]["tables"].as_object().expect("a schema");
    let mut params = vec![json!(database)];
    let select = |table| json!({"op": "select", "table": table, "where": []});
    params.extend(tables.keys().map(select));
    let reply = request(socket, &json!({"id": 0, "method": "transact", "params": params}));
    for (number, table) in tables.keys().enumerate() {
        let selected = reply["result"][number]["rows"].as_array().expect("rows");
        for row in selected {
            let mut columns = row.as_object().expect("a row").clone();
            let uuid = columns.remove("_uuid").expect("a row's UUID")[1]
                .as_str()
                .expect("a UUID")
                .to_owned();
            columns.remove("_version");
            for (_, arbitrary) in ARBITRARY.iter().filter(|(of, _)| of == table) {
                for column in *arbitrary {
                    columns.remove(*column);
                }
            }
            settle(table, &mut columns);
            let table = table.clone();
            rows.insert(uuid, Row { database, table, columns });
        }
    }
}

/// Sorts the values that ovn-northd writes in the order of UUIDs.
fn settle(table: &str, columns: &mut Map<String, Value>) {
    match table {
        "Port_Binding" => sort_words(&mut columns["nat_addresses"]),
        // A flow of several datapaths hints at a row of any of them.
        "Logical_Flow" if columns["logical_dp_group"] != json!(["set", []]) => {
            if let Some(pairs) = columns["external_ids"][1].as_array_mut() {
                pairs.retain(|pair| pair[0] != "stage-hint");
            }
        }
        _ => {}
    }
}

fn sort_words(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut words: Vec<&str> = text.split(' ').collect();
            words.sort_unstable();
            *text = words.join(" ");
        }
        Value::Array(elements) => elements.iter_mut().for_each(sort_words),
        _ => {}
    }
}

fn request(socket: &Path, request: &Value) -> Value {
    let mut stream = UnixStream::connect(socket).expect("a server that listens");
    let text = request.to_string();
    stream.write_all(text.as_bytes()).expect("a server that reads");
    let mut reply = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut buffer).expect("a server that answers");
        assert!(count > 0, "the server hung up");
        reply.extend_from_slice(&buffer[..count]);
        // Only a complete text ends so. Parsing it each time would take long.
        if reply.ends_with(b"}")
            && let Ok(reply) = serde_json::from_slice(&reply)
        {
            return reply;
        }
    }
}

fn line(row: &Row, digests: &HashMap<&str, u64>) -> String {
    let mut columns: Vec<_> = row.columns.iter().collect();
    columns.sort_by_key(|(name, _)| *name);
    let mut words = vec![row.database.to_owned(), row.table.clone()];
    for (name, value) in columns {
        words.push(format!("{name}={}", shown(value, digests)));
    }
    words.join(" ")
}

/// A value with digests instead of UUIDs, whose parts in the order of UUIDs are sorted.
fn shown(value: &Value, digests: &HashMap<&str, u64>) -> String {
    match value {
        Value::String(text) => renamed(text, digests),
        Value::Array(elements) => {
            let mut shown: Vec<_> = elements.iter().map(|e| shown(e, digests)).collect();
            if elements.first().is_none_or(|first| !first.is_string()) {
                shown.sort_unstable();
            }
            format!("[{}]", shown.join(" "))
        }
        other => other.to_string(),
    }
}

/// A text with digests instead of UUIDs of rows, or of parts of UUIDs.
fn renamed(text: &str, digests: &HashMap<&str, u64>) -> String {
    if text.len() == PART_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let digest = digests.get(text);
        return digest
            .map_or_else(|| "part of ?".to_owned(), |digest| format!("part of {digest:x}"));
    }
    let (mut out, mut at) = (String::new(), 0);
    while at < text.len() {
        let uuid = text.get(at..at + UUID_LEN).filter(|uuid| is_uuid(uuid));
        if let Some(uuid) = uuid {
            out +=
                &digests.get(uuid).map_or_else(|| "?".to_owned(), |digest| format!("{digest:x}"));
            at += UUID_LEN;
        } else {
            let char = text[at..].chars().next().expect("before the end");
            out.push(char);
            at += char.len_utf8();
        }
    }
    out
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
