//! Random takeovers between clients of one guard name: every reported status is correct.

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

/// Progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Executed and answered.
    Answered,
    /// Executed; the reply is lost.
    Executed,
    /// Kept by a server, which executes it later or never.
    Kept,
}

#[derive(Clone, Debug)]
enum Event {
    /// A client connects and acquires the row. Its last request progresses this far.
    Connects(usize, Progress),
    /// A client sends a transaction.
    Sends(usize, Progress),
    /// A client's connection breaks.
    Breaks(usize),
    /// A client has been connected for the retention time of foreign marks.
    Stays(usize),
    /// A client's process restarts.
    Restarts(usize),
    /// A server executes a kept request.
    Late(usize),
    /// The row is deleted.
    Deletes,
}

fn event() -> impl Strategy<Value = Event> {
    let client = || 0..3_usize;
    let progress = || {
        prop_oneof![
            3 => Just(Progress::Answered),
            1 => Just(Progress::Executed),
            1 => Just(Progress::Kept),
        ]
    };
    prop_oneof![
        6 => (client(), progress()).prop_map(|(client, progress)| Event::Connects(client, progress)),
        8 => (client(), progress()).prop_map(|(client, progress)| Event::Sends(client, progress)),
        1 => client().prop_map(Event::Breaks),
        2 => client().prop_map(Event::Stays),
        1 => client().prop_map(Event::Restarts),
        2 => (0..8_usize).prop_map(Event::Late),
        1 => Just(Event::Deletes),
    ]
}

/// A request that a server keeps, and the mark of its transaction.
struct Kept {
    request: Vec<u8>,
    mark: Option<String>,
}

struct Server {
    database: Database,
    kept: Vec<Kept>,
    /// Marks of all executed transactions.
    made: BTreeSet<String>,
}

impl Server {
    fn new() -> Self {
        let schema = DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap();
        Self { database: Database::new(schema.into()), kept: Vec::new(), made: BTreeSet::new() }
    }

    /// Executes a request and returns the reply.
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
                    assert!(self.made.insert(mark), "a transaction was executed twice");
                }
                results.iter().map(result).collect()
            }
            Execution::Failed { error, .. } => {
                vec![Json::object([("error", Json::string(&*error.tag))])]
            }
            Execution::Waiting { .. } => unreachable!("every wait has timeout 0"),
        };
        let mut reply = br#"{"id":1,"error":null,"result":"#.to_vec();
        Json::Array(results).write(&mut reply);
        reply.push(b'}');
        TextBuf::parse(reply).unwrap()
    }

    /// Executes a request as far as `progress` allows. Returns the reply that the client receives.
    fn request(
        &mut self,
        request: Vec<u8>,
        mark: Option<String>,
        progress: Progress,
    ) -> Option<TextBuf> {
        let request = Kept { request, mark };
        if progress == Progress::Kept {
            self.kept.push(request);
            return None;
        }
        let reply = self.execute(request);
        (progress == Progress::Answered).then_some(reply)
    }
}

fn result(result: &OperationResult) -> Json {
    let uuid = |uuid: Uuid| Json::Array(vec![Json::string("uuid"), Json::string(uuid.to_string())]);
    match result {
        OperationResult::Inserted(row) => Json::object([("uuid", uuid(*row))]),
        OperationResult::Rows(selected) => {
            let rows = selected.rows.iter().map(|row| {
                let mut ids = Vec::new();
                row.get(ColumnId(0)).write_json(&mut ids);
                let ids = Json::parse(&ids).unwrap();
                Json::object([("_uuid", uuid(row.uuid)), ("ids", ids)])
            });
            Json::object([("rows", Json::Array(rows.collect()))])
        }
        OperationResult::Count(_) | OperationResult::Empty => Json::object([]),
    }
}

/// A client process.
struct Process {
    id: Arc<str>,
    held: Option<HeldGuard>,
    unresolved: Vec<TransactionMark>,
}

impl Process {
    fn new() -> Self {
        Self { id: Uuid::new_v4().to_string().into(), held: None, unresolved: Vec::new() }
    }

    fn connect(&mut self, server: &mut Server, progress: Progress) {
        self.held = None;
        let guard = Guard::new("T", "ids", "me");
        let (mut acquisition, mut request) = GuardAcquisition::begin(&guard, "D", &self.id);
        loop {
            let changes = request.windows(10).any(|part| part == b"\"op\":\"wait");
            let progress = if changes { progress } else { Progress::Answered };
            let Some(reply) = server.request(request, None, progress) else {
                return;
            };
            match acquisition.handle_reply(&reply).unwrap() {
                AcquisitionProgress::Request(next, more) => (acquisition, request) = (next, more),
                AcquisitionProgress::Acquired(held) => {
                    self.held = Some(held);
                    return;
                }
            }
        }
    }

    fn send(&mut self, server: &mut Server, progress: Progress) {
        let Some(held) = &mut self.held else { return };
        let mut request = request_head("transact");
        request.extend_from_slice(br#"["D",{"op":"comment","comment":"x"}]"#);
        let mut request = request.into();
        let mark = held.guard_request(&mut request);
        let reply = server.request(request.text, Some(mark.key.clone()), progress);
        let refused = b"\"error\":\"";
        match reply {
            Some(reply) if !reply.as_text().bytes().windows(9).any(|part| part == refused) => {
                held.release_mark(mark);
            }
            _ => {
                // In both cases the connection is lost.
                self.unresolved.push(mark);
                self.held = None;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_reported_status_is_correct(events in prop::collection::vec(event(), 0..40)) {
        let mut server = Server::new();
        let mut clients = [Process::new(), Process::new(), Process::new()];
        // Marks that were reported as not executed.
        let mut not_executed = Vec::new();
        let mut marks_were_removed = false;
        for event in events {
            match event {
                Event::Connects(client, progress) => {
                    let client = &mut clients[client];
                    client.connect(&mut server, progress);
                    let Some(held) = &client.held else { continue };
                    for mark in client.unresolved.drain(..) {
                        match held.execution_status(&mark) {
                            ExecutionStatus::Executed => prop_assert!(server.made.contains(&mark.key)),
                            ExecutionStatus::NotExecuted => not_executed.push(mark.key),
                            ExecutionStatus::Unknown => prop_assert!(marks_were_removed, "no marks were removed"),
                        }
                    }
                }
                Event::Sends(client, progress) => clients[client].send(&mut server, progress),
                Event::Breaks(client) => clients[client].held = None,
                Event::Stays(client) => {
                    if let Some(held) = &mut clients[client].held {
                        held.foreign_marks_expiry = Instant::now();
                        marks_were_removed = true;
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
                    server.request(request.into_bytes(), None, Progress::Answered);
                    marks_were_removed = true;
                }
            }
            for mark in &not_executed {
                prop_assert!(!server.made.contains(mark), "it was reported as not executed");
            }
        }
    }
}
