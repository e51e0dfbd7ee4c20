//! What a database holds, in words that are the same whatever UUIDs its rows have.

use std::collections::BTreeMap;
use std::path::Path;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::schema::DatabaseSchema;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::soon;

/// A row's table and name; what has no name of its own has the column that stands for it.
type Label = String;

/// Rows, each with its columns.
pub(super) struct Contents(BTreeMap<Label, BTreeMap<String, String>>);

/// A row's table, UUID and columns, as messages have them.
struct RawRow {
    table: String,
    uuid: String,
    columns: BTreeMap<String, Json>,
}

impl Contents {
    /// What a snapshot shows.
    pub(super) fn of(snapshot: &Snapshot, tables: &[&str]) -> Self {
        let schema = snapshot.schema();
        let mut rows = Vec::new();
        for name in tables {
            let (id, table) = schema.table_by_name(name).unwrap();
            for row in snapshot.table(id).iter() {
                let columns = table.column_ids().map(|id| {
                    let mut json = Vec::new();
                    row.values[id].write_json(&mut json);
                    let name = table.column_name(id).to_owned();
                    (name, parse(&json))
                });
                rows.push(RawRow {
                    table: (*name).to_owned(),
                    uuid: row.uuid.to_string(),
                    columns: columns.collect(),
                });
            }
        }
        Self::new(rows)
    }

    fn new(rows: Vec<RawRow>) -> Self {
        let labels: BTreeMap<String, Label> = rows
            .iter()
            .map(|row| {
                let named = ["name", "ip_prefix"];
                let name = named.iter().find_map(|name| row.columns.get(*name)?.as_str());
                let name = name.unwrap_or_else(|| panic!("{} has no name", row.table));
                (row.uuid.clone(), format!("{} {name}", row.table))
            })
            .collect();
        let count = rows.len();
        let contents: BTreeMap<_, _> = rows
            .into_iter()
            .map(|row| {
                let columns =
                    row.columns.into_iter().map(|(name, value)| (name, words(&value, &labels)));
                (labels[&row.uuid].clone(), columns.collect())
            })
            .collect();
        assert_eq!(contents.len(), count, "each row has a name of its own");
        Self(contents)
    }

    #[track_caller]
    pub(super) fn assert_same(&self, other: &Self, what: &str) {
        for (label, columns) in &self.0 {
            let others =
                other.0.get(label).unwrap_or_else(|| panic!("{what}: only one has {label}"));
            for (column, value) in columns {
                assert_eq!(Some(value), others.get(column), "{what}: {label}, {column}");
            }
        }
        assert_eq!(self.0.len(), other.0.len(), "{what}: rows");
    }
}

fn parse(text: &[u8]) -> Json {
    // A text that is no object or array is none that can stand alone.
    let text = [b"[", text, b"]"].concat();
    match Json::parse(&text) {
        Ok(Json::Array(mut values)) => values.remove(0),
        other => panic!("{other:?}"),
    }
}

/// A value in words; sets and maps in their order.
fn words(value: &Json, labels: &BTreeMap<String, Label>) -> String {
    let Json::Array(parts) = value else {
        return value.to_text();
    };
    match (parts[0].as_str(), &parts[1]) {
        (Some("set"), Json::Array(elements)) => set(elements, labels),
        (Some("map"), Json::Array(pairs)) => {
            let pair = |pair: &Json| match pair {
                Json::Array(pair) => (words(&pair[0], labels), words(&pair[1], labels)),
                other => panic!("{other:?}"),
            };
            format!("{:?}", pairs.iter().map(pair).collect::<BTreeMap<_, _>>())
        }
        _ => set(std::slice::from_ref(value), labels),
    }
}

/// Messages have a set of one element as the element.
fn set(elements: &[Json], labels: &BTreeMap<String, Label>) -> String {
    let element = |element: &Json| match element {
        Json::Array(uuid) => {
            // ovsdb-server leaves weak references to rows that are gone, where the same transaction
            // has changed both sides; ovsdb-sim removes them.
            labels.get(uuid[1].as_str().unwrap()).cloned()
        }
        other => Some(other.to_text()),
    };
    let mut elements: Vec<_> = elements.iter().filter_map(element).collect();
    elements.sort();
    if elements.len() == 1 {
        return elements.remove(0);
    }
    format!("{elements:?}")
}

/// A connection that reads the database without keeping a replica.
pub(super) struct Reader {
    stream: UnixStream,
    framer: Framer,
}

impl Reader {
    pub(super) async fn connect(socket: &Path) -> Self {
        Self { stream: UnixStream::connect(socket).await.unwrap(), framer: Framer::new(usize::MAX) }
    }

    /// Selects all rows of the tables.
    pub(super) async fn read(&mut self, schema: &DatabaseSchema, tables: &[&str]) -> Contents {
        let mut params = vec![Json::string(&*schema.name)];
        for name in tables {
            let (_, table) = schema.table_by_name(name).unwrap();
            let columns = table.column_ids().map(|id| Json::string(table.column_name(id)));
            let columns = [Json::string("_uuid")].into_iter().chain(columns).collect();
            params.push(Json::object([
                ("op", Json::string("select")),
                ("table", Json::string(*name)),
                ("where", Json::Array(Vec::new())),
                ("columns", Json::Array(columns)),
            ]));
        }
        let request = Json::object([
            ("id", Json::Integer(1)),
            ("method", Json::string("transact")),
            ("params", Json::Array(params)),
        ]);
        self.stream.write_all(request.to_text().as_bytes()).await.unwrap();
        let reply = soon(self.next()).await;
        let Some(Json::Array(results)) = reply.get("result") else { panic!("{}", reply.to_text()) };
        let mut rows = Vec::new();
        for (name, result) in tables.iter().zip(results) {
            let Some(Json::Array(found)) = result.get("rows") else {
                panic!("{}", result.to_text())
            };
            for row in found {
                let Json::Object(columns) = row else { panic!("{}", row.to_text()) };
                let mut columns: BTreeMap<_, _> = columns
                    .iter()
                    .map(|(name, value)| {
                        let name = String::from_utf8(name.clone()).unwrap();
                        (name, value.clone())
                    })
                    .collect();
                let Some(Json::Array(uuid)) = columns.remove("_uuid") else {
                    panic!("{}", row.to_text())
                };
                rows.push(RawRow {
                    table: (*name).to_owned(),
                    uuid: uuid[1].as_str().unwrap().to_owned(),
                    columns,
                });
            }
        }
        Contents::new(rows)
    }

    async fn next(&mut self) -> Json {
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                let message = Json::parse(text.as_text().bytes()).unwrap();
                if message.get("method").and_then(Json::as_str) != Some("echo") {
                    return message;
                }
                let id = message.get("id").unwrap().clone();
                let reply = Json::object([
                    ("id", id),
                    ("result", Json::Array(Vec::new())),
                    ("error", Json::Null),
                ])
                .to_text();
                self.stream.write_all(reply.as_bytes()).await.unwrap();
                continue;
            }
            let buffer = self.framer.buffer_mut();
            assert!(self.stream.read_buf(buffer).await.unwrap() > 0);
        }
    }
}
