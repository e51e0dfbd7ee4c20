//! Ids of transactions of clusters.

use std::path::Path;

use patchbay_schemas::json::Json;

use crate::client::Client;

/// Beginning of a transaction's name in a request.
const NAME_PREFIX: &[u8] = b"<txn ";

/// Transactions of a clustered server, whose ids are random. Requests name them by the number of
/// steps: `<txn 2>` is the last transaction after two steps.
pub(crate) struct Transactions {
    client: Client,
    ids: Vec<String>,
}

impl Transactions {
    pub(crate) fn new(socket: &Path) -> Self {
        let mut transactions = Self { client: Client::connect(socket), ids: Vec::new() };
        // The connection stays open when the schema changes.
        let aware = br#"{"id":0,"method":"set_db_change_aware","params":[true]}"#;
        transactions.client.send(aware);
        transactions.note_last();
        transactions
    }

    /// Requests the id of the last transaction.
    pub(crate) fn note_last(&mut self) {
        let zero = uuid::Uuid::nil();
        let begin =
            format!(r#"{{"id":1,"method":"monitor_cond_since","params":["D",0,{{}},"{zero}"]}}"#);
        self.client.send(begin.as_bytes());
        let end = br#"{"id":2,"method":"monitor_cancel","params":[0]}"#;
        self.client.send(end);
        self.client.barrier();
        self.client.read_to_barrier();
        let (received, _) = self.client.take_received();
        // [false, <id>, {}]
        let id = received.iter().find_map(|message| match message.get("result")? {
            Json::Array(result) => result.get(1)?.as_str(),
            _ => None,
        });
        let id = id.unwrap_or_else(|| panic!("the id of a transaction: {received:?}"));
        self.ids.push(id.to_owned());
    }

    /// The text with ids instead of their names.
    pub(crate) fn insert_ids(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.windows(NAME_PREFIX.len()).position(|text| text == NAME_PREFIX) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at + NAME_PREFIX.len()..];
            let end = rest.iter().position(|byte| *byte == b'>').expect("its end");
            let number = std::str::from_utf8(&rest[..end]).expect("a number");
            let number: usize = number.parse().expect("a number");
            out.extend_from_slice(self.ids[number].as_bytes());
            rest = &rest[end + 1..];
        }
        out.extend_from_slice(rest);
        out
    }
}
