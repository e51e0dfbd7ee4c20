//! Clients of one name take the row from each other, and what they are told is true.

use std::collections::BTreeSet;

use patchbay_schemas::json::{Json, Reader, TextBuf};
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::decode_transaction;
use proptest::prelude::*;

use crate::client::outgoing::request_head;
use crate::db::{Access, Database, Execution, OperationResult};

use super::*;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"isRoot":true,"columns":{
    "ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}}}}"#;

/// How far a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It is executed and answered.
    Answered,
    /// It is executed, and the answer is lost.
    Executed,
    /// A server keeps it and executes it later, if ever.
    Kept,
}

#[derive(Clone, Debug)]
enum Event {
    /// A client connects and takes the row; of the last request only so much may happen.
    Connects(usize, Reach),
    /// A client sends a transaction.
    Sends(usize, Reach),
    /// Its connection breaks.
    Breaks(usize),
    /// It has been connected for long.
    Stays(usize),
    /// Its process ends, and another begins.
    Restarts(usize),
    /// A server executes a request that it has kept.
    Late(usize),
    /// Somebody deletes the row.
    Deletes,
}

fn event() -> impl Strategy<Value = Event> {
    let client = || 0..3_usize;
    let reach = || {
        prop_oneof![
            3 => Just(Reach::Answered),
            1 => Just(Reach::Executed),
            1 => Just(Reach::Kept),
        ]
    };
    prop_oneof![
        6 => (client(), reach()).prop_map(|(client, reach)| Event::Connects(client, reach)),
        8 => (client(), reach()).prop_map(|(client, reach)| Event::Sends(client, reach)),
        1 => client().prop_map(Event::Breaks),
        2 => client().prop_map(Event::Stays),
        1 => client().prop_map(Event::Restarts),
        2 => (0..8_usize).prop_map(Event::Late),
        1 => Just(Event::Deletes),
    ]
}

/// A request that a server keeps, and the mark of a transaction.
struct Kept {
    request: Vec<u8>,
    mark: Option<String>,
}

struct Server {
    database: Database,
    kept: Vec<Kept>,
    /// The marks of all transactions that were made.
    made: BTreeSet<String>,
}

impl Server {
    fn new() -> Self {
        let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
        Self {
            database: Database::new(schema.into()),
            kept: Vec::new(),
            made: BTreeSet::new(),
        }
    }

    /// Executes a request; returns the reply.
    fn execute(&mut self, Kept { mut request, mark }: Kept) -> TextBuf {
        request.push(b'}');
        let text = TextBuf::parse(request).unwrap();
        let mut at = Reader::new(text.as_text());
        assert!(at.enter_object());
        while at.next_member().unwrap() != b"params".as_slice() {
            at.skip();
        }
        assert!(at.enter_array() && at.next_element());
        at.skip();
        let schema = self.database.schema().clone();
        let (mut strings, mut uuids) = (StringCache::default(), UuidSource::random());
        let mut decoded = decode_transaction(at, &schema, &mut strings, &mut uuids);
        assert!(decoded.failure.is_none(), "{:?}", decoded.failure);
        let results = match self.database.execute(&mut decoded, &Access::unrestricted()) {
            Execution::Committed { results, .. } => {
                if let Some(mark) = mark {
                    assert!(self.made.insert(mark), "it is made twice");
                }
                results.iter().map(result).collect()
            }
            Execution::Failed { error, .. } => {
                vec![Json::object([("error", Json::string(&*error.tag))])]
            }
            Execution::Blocked { .. } => unreachable!("no wait waits"),
        };
        let mut reply = br#"{"id":1,"error":null,"result":"#.to_vec();
        Json::Array(results).write(&mut reply);
        reply.push(b'}');
        TextBuf::parse(reply).unwrap()
    }

    /// What comes back of a request.
    fn request(&mut self, request: Vec<u8>, mark: Option<String>, reach: Reach) -> Option<TextBuf> {
        let request = Kept { request, mark };
        if reach == Reach::Kept {
            self.kept.push(request);
            return None;
        }
        let reply = self.execute(request);
        (reach == Reach::Answered).then_some(reply)
    }
}

fn result(result: &OperationResult) -> Json {
    let uuid = |uuid: Uuid| Json::Array(vec![Json::string("uuid"), Json::string(uuid.to_string())]);
    match result {
        OperationResult::Inserted(row) => Json::object([("uuid", uuid(*row))]),
        OperationResult::Rows { rows, .. } => {
            let rows = rows.iter().map(|row| {
                let mut ids = Vec::new();
                row.get(ColumnId(0)).write_json(&mut ids);
                let ids = Json::parse(&ids).unwrap();
                Json::object([("_uuid", uuid(row.uuid)), ("ids", ids)])
            });
            Json::object([("rows", Json::Array(rows.collect()))])
        }
        OperationResult::Count(_) | OperationResult::Nothing => Json::object([]),
    }
}

/// One process.
struct Process {
    id: Arc<str>,
    held: Option<HeldGuard>,
    unsettled: Vec<Mark>,
}

impl Process {
    fn new() -> Self {
        Self {
            id: Uuid::new_v4().to_string().into(),
            held: None,
            unsettled: Vec::new(),
        }
    }

    fn connect(&mut self, server: &mut Server, reach: Reach) {
        self.held = None;
        let guard = Guard::new("T", "ids", "me");
        let (mut taking, mut request) = Taking::begin(&guard, "D", &self.id);
        loop {
            let changes = request.windows(10).any(|part| part == b"\"op\":\"wait");
            let reach = if changes { reach } else { Reach::Answered };
            let Some(reply) = server.request(request, None, reach) else {
                return;
            };
            match taking.answered(&reply).unwrap() {
                Taken::Ask(next, more) => (taking, request) = (next, more),
                Taken::Held(held) => {
                    self.held = Some(held);
                    return;
                }
            }
        }
    }

    fn send(&mut self, server: &mut Server, reach: Reach) {
        let Some(held) = &mut self.held else { return };
        let mut request = request_head("transact");
        request.extend_from_slice(br#"["D",{"op":"comment","comment":"x"}]"#);
        let mut request = request.into();
        let mark = held.guard(&mut request);
        let reply = server.request(request.text, Some(mark.key.clone()), reach);
        let refused = b"\"error\":\"";
        match reply {
            Some(reply)
                if !reply
                    .as_text()
                    .bytes()
                    .windows(9)
                    .any(|part| part == refused) =>
            {
                held.settle(mark);
            }
            _ => {
                // With the answer, or without it, the connection is lost.
                self.unsettled.push(mark);
                self.held = None;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_clients_are_told_is_true(events in prop::collection::vec(event(), 0..40)) {
        let mut server = Server::new();
        let mut clients = [Process::new(), Process::new(), Process::new()];
        // Those that were said not to have been made.
        let mut never = Vec::new();
        let mut is_tidy = false;
        for event in events {
            match event {
                Event::Connects(client, reach) => {
                    let client = &mut clients[client];
                    client.connect(&mut server, reach);
                    let Some(held) = &client.held else { continue };
                    for mark in client.unsettled.drain(..) {
                        match held.fate(&mark) {
                            Fate::Made => prop_assert!(server.made.contains(&mark.key)),
                            Fate::NotMade => never.push(mark.key),
                            Fate::Unknown => prop_assert!(is_tidy, "nobody has removed marks"),
                        }
                    }
                }
                Event::Sends(client, reach) => clients[client].send(&mut server, reach),
                Event::Breaks(client) => clients[client].held = None,
                Event::Stays(client) => {
                    if let Some(held) = &mut clients[client].held {
                        held.foreign_until = Instant::now();
                        is_tidy = true;
                    }
                }
                Event::Restarts(client) => clients[client] = Process::new(),
                Event::Late(place) if place < server.kept.len() => {
                    let kept = server.kept.swap_remove(place);
                    server.execute(kept);
                }
                Event::Late(_) => {}
                Event::Deletes => {
                    let request = format!(
                        r#"{},"params":["D",{{"op":"delete","table":"T","where":[]}}]"#,
                        r#"{"method":"transact""#
                    );
                    server.request(request.into_bytes(), None, Reach::Answered);
                    is_tidy = true;
                }
            }
            for mark in &never {
                prop_assert!(!server.made.contains(mark), "it was said not to be made");
            }
        }
    }
}
