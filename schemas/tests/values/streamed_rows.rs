//! Rows decoded while their message is being received equal those of the complete message, and so
//! do the errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use patchbay_schemas::json::{Framer, Json, Reader, TextBuf};
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::streaming::StreamedRows;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{
    Message, MonitorVersion, Reply, RowUpdate, UpdateError, UpdateReader,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{
    "T":{"columns":{"name":{"type":"string"},"i":{"type":"integer"},
        "set":{"type":{"key":"string","min":0,"max":"unlimited"}},
        "m":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}}},
    "U":{"columns":{"name":{"type":"string"}}}}}"#;

fn schema() -> &'static DatabaseSchema {
    static PARSED: LazyLock<DatabaseSchema> =
        LazyLock::new(|| DatabaseSchema::parse(SCHEMA.as_bytes()).unwrap());
    &PARSED
}

/// Content of a stream of messages.
#[derive(Debug, Default, PartialEq)]
struct Content {
    updates: Vec<(TableId, Uuid, RowUpdate)>,
    unknown_columns: BTreeSet<String>,
    errors: Vec<UpdateError>,
    /// Messages that are not updates.
    others: Vec<String>,
    /// Syntax error of the stream.
    broken: Option<&'static str>,
}

impl Content {
    /// Adds a message, of which some rows were decoded earlier.
    fn add(&mut self, text: &TextBuf, version: MonitorVersion, streamed: StreamedRows) {
        let Some(updates) = updates(text) else {
            let other = Message::decode(text).map(|message| format!("{:?}", kind(&message)));
            self.others.push(format!("{other:?}"));
            return;
        };
        let (schema, mut strings) = (schema(), StringCache::default());
        let mut updates =
            UpdateReader::new(updates, schema, version, &mut strings).with_streamed(streamed);
        for update in &mut updates {
            match update {
                Ok(update) => self.updates.push(update),
                Err(error) => self.errors.push(error),
            }
        }
        let unknown = updates.unknown_columns().map(str::to_owned);
        self.unknown_columns.extend(unknown);
    }
}

fn kind(message: &Message<'_>) -> (&'static str, Option<Json>) {
    match message {
        Message::Request { id, .. } => ("request", Some(id.clone())),
        Message::Notification { .. } => ("notification", None),
        Message::Reply(Reply { id, outcome }) if outcome.is_ok() => ("reply", Some(id.clone())),
        Message::Reply(Reply { id, .. }) => ("error", Some(id.clone())),
    }
}

/// Returns the table updates of a reply or notification: the whole content, or the third element of
/// an array.
fn updates(text: &TextBuf) -> Option<Reader<'_>> {
    let mut at = match Message::decode(text) {
        Ok(Message::Reply(Reply { outcome, .. })) => outcome.ok()?,
        Ok(Message::Notification { params, .. }) => params,
        _ => return None,
    };
    if at.enter_array() {
        for _ in 0..2 {
            at.next_element().then(|| at.skip())?;
        }
        at.next_element().then_some(())?;
    }
    Some(at)
}

/// Decodes complete messages only.
fn decode_whole(stream: &[u8], max_len: usize, version: MonitorVersion) -> Content {
    let (mut framer, mut content) = (Framer::new(max_len), Content::default());
    framer.push(stream);
    loop {
        match framer.next_text() {
            Ok(Some(text)) => content.add(&text, version, StreamedRows::default()),
            Ok(None) => return content,
            Err(error) => {
                content.broken = Some(error.problem);
                return content;
            }
        }
    }
}

/// Rows that are decoded once a message is known to report rows.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Scanned,
    Unvalidated,
}

/// Decodes rows of a stream that is received in parts; `parts` are their lengths, which are used
/// cyclically.
fn decode_streamed(
    stream: &[u8],
    parts: &[usize],
    max_len: usize,
    version: MonitorVersion,
    rows: Rows,
) -> Content {
    let (schema, mut strings) = (schema(), StringCache::default());
    let (mut framer, mut content) = (Framer::new(max_len), Content::default());
    let (mut streamed, mut is_report) = (StreamedRows::default(), false);
    let (mut rest, mut parts) = (stream, parts.iter().cycle());
    while !rest.is_empty() {
        let part;
        (part, rest) = rest.split_at(rest.len().min(*parts.next().unwrap()));
        framer.push(part);
        loop {
            if is_report && let Rows::Unvalidated = rows {
                match framer.unvalidated_rows() {
                    Ok(Some(members)) => {
                        streamed.take_unvalidated(members, schema, version, &mut strings);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        content.broken = Some(error.problem);
                        return content;
                    }
                }
            }
            match framer.next_text() {
                Ok(Some(text)) => content.add(&text, version, std::mem::take(&mut streamed)),
                Ok(None) => break,
                Err(error) => {
                    content.broken = Some(error.problem);
                    return content;
                }
            }
            is_report = false;
        }
        if let Some(open) = framer.open_rows(1) {
            let head = open.head().unwrap();
            assert!(!head.as_text().bytes().starts_with(b" "));
            streamed.take(open, schema, version, &mut strings);
            is_report = true;
            assert!(framer.open_rows(1).is_none(), "all complete rows were taken");
        }
    }
    content
}

fn check(stream: &[u8], parts: &[usize], version: MonitorVersion) {
    for (max_len, rows) in [
        (usize::MAX, Rows::Scanned),
        (usize::MAX, Rows::Unvalidated),
        (stream.len() / 2, Rows::Scanned),
        (stream.len() / 2, Rows::Unvalidated),
    ] {
        // A message exceeds the limit as soon as this number of bytes has been received without its
        // end.
        let (whole, streamed) = (
            decode_whole(stream, max_len, version),
            decode_streamed(stream, parts, max_len, version, rows),
        );
        let shown = String::from_utf8_lossy(stream);
        if max_len == usize::MAX || whole.broken.is_none() {
            assert_eq!(whole, streamed, "{shown} in parts of {parts:?}, {rows:?}");
        } else {
            assert!(streamed.broken.is_some(), "{shown} in parts of {parts:?}");
        }
    }
}

fn uuid(last: u8) -> String {
    format!("00000000-0000-4000-8000-00000000000{last}")
}

/// Returns updates of a few rows: inserted, changed and invalid ones.
fn updates_with_fault(version: MonitorVersion, fault: &str) -> String {
    let (insert, old) = match version {
        MonitorVersion::V1 => ("new", r#"{"old":{"name":"x"},"new":{"name":"y","i":4}}"#),
        _ => ("initial", r#"{"modify":{"name":"y","i":4}}"#),
    };
    let row = |last, name: &str| {
        format!(
            r#""{}":{{"{insert}":{{"name":"{name}","set":["set",["a","b"]],"m":["map",[["k","}}{{"]]],"later":{{}}}}}}"#,
            uuid(last)
        )
    };
    let (one, two, three, five) =
        (row(1, "a\\\"b"), row(2, "\\ud83d\\ude00"), row(3, ""), row(5, "z"));
    format!(
        r#"{{"T":{{{one}, {two} ,{three}{fault},"{}":{old}}}, "U" : {{ "{}":{{"{insert}":{{"name":"u"}}}},{five}}},"T":{{}},"U":{{{two},{two}}}}}"#,
        uuid(4),
        uuid(6)
    )
}

/// Returns messages that contain updates, in all forms that monitors use and some invalid ones.
fn messages(updates: &str) -> Vec<String> {
    vec![
        format!(r#"{{"id":5,"result":{updates},"error":null}}"#),
        format!(r#" {{"error":null,"result":{updates},"id":5}} {{"id":null,"#)
            + r#""method":"echo","params":[]}"#,
        format!(r#"{{"id":5,"result":[false,"x",{updates}],"error":null}}"#),
        format!(r#"{{"result":[false,"x",{updates},{updates}],"id":5}}"#),
        format!(r#"{{"id":null,"method":"update3","params":["D","x",{updates}]}}"#),
        // The last of several equal members is used, and unknown members are refused.
        format!(r#"{{"id":5,"result":{updates},"result":{updates}}}"#),
        format!(r#"{{"id":5,"result":{updates},"result":{{"U":{{}}}}}}"#),
        format!(r#"{{"id":5,"result":{{"T":{{"x":5}}}},"result":[0,0,{updates}]}}"#),
        format!(r#"{{"id":5,"result":{updates},"junk":{updates}}}"#),
        format!(r#"{{"id":5,"error":{updates}}}"#),
        format!(r#"{{"id":5,"error":{updates},"result":{updates}}}"#),
    ]
}

const VERSIONS: [MonitorVersion; 3] = [MonitorVersion::V1, MonitorVersion::V2, MonitorVersion::V3];

#[test]
fn a_message_may_be_cut_at_every_byte() {
    for version in VERSIONS {
        let mut messages = messages(&updates_with_fault(version, ""));
        if version != MonitorVersion::V2 {
            messages.truncate(3);
        }
        for message in messages {
            let stream = message.into_bytes();
            let whole = decode_whole(&stream, usize::MAX, version);
            assert!(whole.errors.is_empty() && whole.broken.is_none());
            for cut in 1..stream.len() {
                for rows in [Rows::Scanned, Rows::Unvalidated] {
                    let parts = [cut, stream.len()];
                    let streamed = decode_streamed(&stream, &parts, usize::MAX, version, rows);
                    assert_eq!(whole, streamed, "cut at {cut}, {rows:?}");
                }
            }
            check(&stream, &[1], version);
        }
    }
}

#[test]
fn errors_in_rows_are_those_of_the_complete_message() {
    for version in VERSIONS {
        let (initial, modify) = match version {
            MonitorVersion::V1 => ("new", "new"),
            _ => ("initial", "modify"),
        };
        for fault in [
            format!(r#","{}":{{"{initial}":{{"name":5}}}}"#, uuid(7)),
            format!(r#","{}":{{"{modify}":{{"set":["map",[]]}}}}"#, uuid(7)),
            format!(r#","{}":{{"{initial}":5}}"#, uuid(7)),
            format!(r#","{}":[]"#, uuid(7)),
            format!(r#","{}":{{}}"#, uuid(7)),
            r#","no uuid":{}"#.to_owned(),
            format!(
                r#"}},"V":{{"{}":{{"{initial}":{{}}}},"{}":{{"{initial}":{{}}}}"#,
                uuid(7),
                uuid(8)
            ),
            r#"},"U":[{}],"T":{"#.to_owned(),
        ] {
            for message in messages(&updates_with_fault(version, &fault)) {
                for part in [1, 7, 100, 333] {
                    check(message.as_bytes(), &[part], version);
                }
            }
        }
    }
}

#[test]
fn unvalidated_rows_are_taken_as_they_are_received() {
    let mut framer = Framer::new(usize::MAX);
    framer.push(br#"{"id":5,"result":{"T":{"#);
    assert!(framer.next_text().unwrap().is_none());
    let mut taken = Vec::new();
    let member = |number: usize| format!(r#""{number}":[{number},"x"],"#).into_bytes();
    let stream: Vec<u8> = (0..100).flat_map(member).collect();
    // Each row is received in at most two parts.
    for part in stream.chunks(14) {
        framer.push(part);
        let members = framer.unvalidated_rows().unwrap().unwrap();
        taken.extend(members.take(|reader| {
            let name = reader.next_member()?.into_owned();
            let is_begun = reader.enter_array() && reader.next_element();
            let number = is_begun.then(|| reader.integer())??;
            let is_whole = reader.next_element() && reader.string().is_some();
            (is_whole && !reader.next_element()).then_some((name, number))
        }));
        // An incomplete row stays in the text.
        assert!(framer.next_text().unwrap().is_none());
        assert!(framer.open_rows(1).is_none());
    }
    let numbers = taken.iter().map(|(_, number)| *number);
    assert!(numbers.eq(0..100));
    framer.push(br#""last":0}}}"#);
    let rest = framer.next_text().unwrap().unwrap();
    assert_eq!(rest.as_text().bytes(), br#"{"id":5,"result":{"T":{"last":0}}}"#);
}

#[test]
fn a_row_received_byte_by_byte_is_not_read_for_each_byte() {
    let mut framer = Framer::new(usize::MAX);
    framer.push(br#"{"id":5,"result":{"T":{"#);
    assert!(framer.next_text().unwrap().is_none());
    let mut reads = 0;
    let row = format!(r#""long":"{}","#, "x".repeat(10_000));
    for byte in row.bytes() {
        framer.push(&[byte]);
        if let Some(members) = framer.unvalidated_rows().unwrap() {
            let taken = members.take(|reader| {
                reads += 1;
                reader.next_member()?;
                reader.string().map(|_| ())
            });
            assert!(taken.is_empty());
        }
        assert!(framer.next_text().unwrap().is_none());
    }
    assert!((1..5).contains(&reads), "{reads} reads");
    let row = framer.open_rows(1).unwrap();
    row.take(|row| assert_eq!(row.bytes().len(), 10_011));
}

#[test]
fn offsets_of_errors_include_removed_rows() {
    let stream = br#"{"result":{"T":{"a":1,"b":2,"c":?}}}"#;
    let mut framer = Framer::new(usize::MAX);
    framer.push(&stream[..30]);
    assert!(framer.next_text().unwrap().is_none());
    framer.open_rows(1).unwrap().take(|_| ());
    framer.push(&stream[30..]);
    assert_eq!(framer.next_text().unwrap_err().at, 32);
}

type Damage = (prop::sample::Index, u8, bool);

/// Replaces or removes bytes.
fn damage(stream: &mut Vec<u8>, changes: Vec<Damage>) {
    for (place, byte, replace) in changes {
        let place = place.index(stream.len());
        if replace {
            stream[place] = byte;
        } else {
            stream.remove(place);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Rows in the form of servers are validated while they are decoded. Random damage must be
    /// detected.
    #[test]
    fn damaged_rows_of_servers_have_the_result_of_the_complete_message(
        version in select(&VERSIONS[1..]),
        rows in vec(
            (any::<u32>(), "[a-z]{0,30}", any::<i32>(), vec("[a-z]{0,12}", 0..4), vec(("[a-c]", "[a-z]{0,40}"), 0..3)),
            1..30,
        ),
        parts in vec(1..700_usize, 1..6),
        changes in vec((any::<prop::sample::Index>(), select(&b"{}[]\",: a\\5-0.\xff\x01"[..]), any::<bool>()), 0..2),
    ) {
        let mut updates: Vec<String> = Vec::new();
        for (id, name, i, set, map) in rows {
            let set: BTreeSet<String> = set.iter().map(|one| format!("{one:?}")).collect();
            let map: BTreeMap<String, String> = map.into_iter().collect();
            let map: Vec<String> = map.iter().map(|(key, value)| format!("[{key:?},{value:?}]")).collect();
            let set = set.into_iter().collect::<Vec<_>>().join(",");
            updates.push(format!(
                r#""00000000-0000-4000-8000-0000{id:08x}":{{"initial":{{"i":{i},"m":["map",[{}]],"name":{name:?},"set":["set",[{set}]]}}}}"#,
                map.join(",")
            ));
        }
        let updates = format!(r#"{{"T":{{{}}},"U":{{}}}}"#, updates.join(","));
        let mut stream = messages(&updates).swap_remove(2).into_bytes();
        damage(&mut stream, changes);
        check(&stream, &parts, version);
    }

    #[test]
    fn any_message_in_any_parts_has_the_result_of_the_complete_message(
        version in select(&VERSIONS[..]),
        shape in 0..11_usize,
        parts in vec(1..300_usize, 1..6),
        changes in vec((any::<prop::sample::Index>(), select(&b"{}[]\",: a\\5\xff\x01"[..]), any::<bool>()), 0..3),
    ) {
        let mut stream = messages(&updates_with_fault(version, "")).swap_remove(shape).into_bytes();
        damage(&mut stream, changes);
        check(&stream, &parts, version);
    }
}
