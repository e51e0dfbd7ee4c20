//! Proof of what became of transactions that were not answered, on clusters too: see `docs/design/client.md`.
//!
//! The client keeps a row of its own in the database. It holds an epoch, which each connection replaces by a new one before
//! it sends transactions, and the marks of transactions that were made. Each transaction is preceded by a `wait` for the
//! connection's epoch and for the absence of its own mark, and followed by a mutation that leaves its mark.

use std::collections::BTreeSet;

use patchbay_schemas::atom::parse_uuid;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::wire::{Message, Reply};
use uuid::Uuid;

use super::error::{SessionError, reply_error, unexpected};
use super::outgoing::{Outgoing, request_head};

/// The key of the guard's name.
const NAME: &str = "patchbay-guard";

/// The key of the epoch.
const EPOCH: &str = "patchbay-epoch";

/// A row of the client's own, with which it finds out what became of transactions that were not answered.
///
/// The row is found by its name, and made where it is missing. It needs a column that is a map from strings to strings, in
/// a table whose rows stay though nothing refers to them. Choose one that others seldom look at: every transaction changes
/// the row. In `OVN_Northbound`, `DNS` is such a table: `ovn-northd` ignores what no logical switch refers to.
///
/// Of all clients of one name, the one that connected last can make transactions; what its predecessors had under way is
/// not made any more. A process that takes over from another, or from itself before a restart, should use the same name.
///
/// ```
/// use patchbay_engine::client::{Config, Guard};
///
/// let mut config = Config::new("unix:/run/ovn/ovnnb_db.sock".parse()?, "OVN_Northbound");
/// config.guard = Some(Guard::new("DNS", "external_ids", "my-controller"));
/// # Ok::<(), patchbay_engine::client::RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    table: String,
    column: String,
    name: String,
}

impl Guard {
    /// The guard of this name, in this table and column.
    pub fn new(
        table: impl Into<String>,
        column: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            table: table.into(),
            column: column.into(),
            name: name.into(),
        }
    }
}

/// The guard row in the hands of one connection.
#[derive(Debug)]
pub(super) struct HeldGuard {
    guard: Guard,
    /// How a `transact` request for the database begins.
    head: Vec<u8>,
    row: Uuid,
    epoch: String,
    /// The transactions of former connections that were made.
    made: BTreeSet<String>,
    /// Marks of which everything is known that there is to know.
    settled: Vec<String>,
}

/// The steps by which a connection takes the guard row.
#[derive(Debug)]
pub(super) struct Taking {
    guard: Guard,
    database: String,
    epoch: String,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Looks for the row.
    Looking,
    /// Makes the row.
    Making,
    /// Replaces the epoch in the row.
    Replacing { row: Uuid },
}

/// What follows an answer.
#[derive(Debug)]
pub(super) enum Taken {
    /// Another request, of which everything is there but the id.
    Ask(Taking, Vec<u8>),
    /// The row is ours.
    Held(HeldGuard),
}

impl Taking {
    /// Begins, with a first request of which everything is there but the id.
    pub(super) fn begin(guard: &Guard, database: &str) -> (Self, Vec<u8>) {
        let this = Self {
            guard: guard.clone(),
            database: database.to_owned(),
            epoch: Uuid::new_v4().to_string(),
            step: Step::Looking,
        };
        let look = this.look();
        (this, look)
    }

    /// Deals with the answer to the last request.
    pub(super) fn answered(mut self, reply: &TextBuf) -> Result<Taken, SessionError> {
        let results = results(reply)?;
        let lost_a_race = results.iter().find_map(OvsdbError::from_json);
        if let Some(error) = lost_a_race {
            // Another client of our name was faster than we are, or a server was late.
            if error.tag != "timed out" || matches!(self.step, Step::Looking) {
                return Err(SessionError::Refused {
                    method: "transact",
                    error: format!("{error} (the guard in table {})", self.guard.table),
                });
            }
            self.step = Step::Looking;
            let look = self.look();
            return Ok(Taken::Ask(self, look));
        }
        match self.step {
            Step::Looking => {
                let rows = rows(results.first()).ok_or_else(malformed)?;
                let request = match rows {
                    [] => {
                        self.step = Step::Making;
                        self.make()
                    }
                    [row] => {
                        let uuid = row.get("_uuid").and_then(uuid_of).ok_or_else(malformed)?;
                        let pairs = pairs(row, &self.guard.column).ok_or_else(malformed)?;
                        let epoch = pairs.into_iter().find(|(key, _)| key == EPOCH);
                        let (_, epoch) = epoch.ok_or_else(malformed)?;
                        self.step = Step::Replacing { row: uuid };
                        self.replace(uuid, &epoch)
                    }
                    _ => return Err(unexpected("guard", "several rows have its name")),
                };
                Ok(Taken::Ask(self, request))
            }
            Step::Making => {
                let row = results.get(1).and_then(|made| made.get("uuid"));
                let row = row.and_then(uuid_of).ok_or_else(malformed)?;
                Ok(Taken::Held(self.held(row, BTreeSet::new())))
            }
            Step::Replacing { row } => {
                let Some([found]) = rows(results.get(1)) else {
                    return Err(malformed());
                };
                let pairs = pairs(found, &self.guard.column).ok_or_else(malformed)?;
                let made = pairs.into_iter().map(|(key, _)| key);
                let made = made.filter(|key| Uuid::try_parse(key).is_ok()).collect();
                Ok(Taken::Held(self.held(row, made)))
            }
        }
    }

    fn held(self, row: Uuid, made: BTreeSet<String>) -> HeldGuard {
        let mut head = request_head("transact");
        head.push(b'[');
        Json::string(&self.database).write(&mut head);
        HeldGuard {
            guard: self.guard,
            head,
            row,
            epoch: self.epoch,
            settled: made.iter().cloned().collect(),
            made,
        }
    }

    fn look(&self) -> Vec<u8> {
        self.request([Json::object([
            ("op", Json::string("select")),
            ("table", Json::string(&self.guard.table)),
            ("where", Json::Array(vec![self.guard.named()])),
            (
                "columns",
                Json::Array(vec![
                    Json::string("_uuid"),
                    Json::string(&self.guard.column),
                ]),
            ),
        ])])
    }

    fn make(&self) -> Vec<u8> {
        let row = map([(NAME, self.guard.name.as_str()), (EPOCH, &self.epoch)]);
        self.request([
            self.guard.wait("==", vec![self.guard.named()]),
            Json::object([
                ("op", Json::string("insert")),
                ("table", Json::string(&self.guard.table)),
                ("row", Json::object([(self.guard.column.as_str(), row)])),
            ]),
        ])
    }

    fn replace(&self, row: Uuid, epoch: &str) -> Vec<u8> {
        let column = self.guard.column.as_str();
        let (old, new) = (set([EPOCH]), map([(EPOCH, self.epoch.as_str())]));
        self.request([
            // Only if nobody has done so since we looked.
            self.guard.wait(
                "!=",
                vec![
                    is_row(row),
                    clause(column, "includes", map([(EPOCH, epoch)])),
                ],
            ),
            Json::object([
                ("op", Json::string("select")),
                ("table", Json::string(&self.guard.table)),
                ("where", Json::Array(vec![is_row(row)])),
                ("columns", Json::Array(vec![Json::string(column)])),
            ]),
            self.guard.mutate(
                row,
                vec![clause(column, "delete", old), clause(column, "insert", new)],
            ),
        ])
    }

    fn request<const N: usize>(&self, operations: [Json; N]) -> Vec<u8> {
        let mut request = request_head("transact");
        let mut params = vec![Json::string(&self.database)];
        params.extend(operations);
        Json::Array(params).write(&mut request);
        request
    }
}

impl HeldGuard {
    /// Whether a transaction of a former connection was made.
    pub(super) fn was_made(&self, mark: &str) -> bool {
        self.made.contains(mark)
    }

    /// Everything is known of the transaction of this mark.
    pub(super) fn settle(&mut self, mark: String) {
        self.settled.push(mark);
    }

    /// Guards a request, and returns its mark.
    pub(super) fn guard(&mut self, request: &mut Outgoing) -> String {
        let mark = Uuid::new_v4().to_string();
        let column = self.guard.column.as_str();
        let wait = self.guard.wait(
            "!=",
            vec![
                is_row(self.row),
                clause(column, "includes", map([(EPOCH, self.epoch.as_str())])),
                clause(column, "excludes", map([(mark.as_str(), "")])),
            ],
        );
        let settled = std::mem::take(&mut self.settled);
        let mut mutations = vec![clause(column, "insert", map([(mark.as_str(), "")]))];
        if !settled.is_empty() {
            let settled = set(settled.iter().map(String::as_str));
            mutations.push(clause(column, "delete", settled));
        }
        let leave_mark = self.guard.mutate(self.row, mutations);
        let mut before = b",".to_vec();
        wait.write(&mut before);
        let at = self.head.len();
        request.text.splice(at..at, before);
        let end = request.end();
        end.pop();
        end.push(b',');
        leave_mark.write(end);
        end.push(b']');
        mark
    }
}

impl Guard {
    /// The clause that finds the row.
    fn named(&self) -> Json {
        clause(&self.column, "includes", map([(NAME, self.name.as_str())]))
    }

    /// Fails unless some row (`!=`) or none (`==`) fulfils the clauses.
    fn wait(&self, until: &str, clauses: Vec<Json>) -> Json {
        Json::object([
            ("op", Json::string("wait")),
            ("table", Json::string(&self.table)),
            ("timeout", Json::Integer(0)),
            ("where", Json::Array(clauses)),
            ("columns", Json::Array(vec![Json::string("_uuid")])),
            ("until", Json::string(until)),
            ("rows", Json::Array(Vec::new())),
        ])
    }

    fn mutate(&self, row: Uuid, mutations: Vec<Json>) -> Json {
        Json::object([
            ("op", Json::string("mutate")),
            ("table", Json::string(&self.table)),
            ("where", Json::Array(vec![is_row(row)])),
            ("mutations", Json::Array(mutations)),
        ])
    }
}

fn is_row(row: Uuid) -> Json {
    let row = Json::Array(vec![Json::string("uuid"), Json::string(row.to_string())]);
    clause("_uuid", "==", row)
}

/// A clause or a mutation.
fn clause(column: &str, function: &str, argument: Json) -> Json {
    Json::Array(vec![Json::string(column), Json::string(function), argument])
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> Json {
    let pair = |(key, value)| Json::Array(vec![Json::string(key), Json::string(value)]);
    let pairs = pairs.into_iter().map(pair).collect();
    Json::Array(vec![Json::string("map"), Json::Array(pairs)])
}

fn set<'a>(keys: impl IntoIterator<Item = &'a str>) -> Json {
    let keys = keys.into_iter().map(Json::string).collect();
    Json::Array(vec![Json::string("set"), Json::Array(keys)])
}

fn results(reply: &TextBuf) -> Result<Vec<Json>, SessionError> {
    let Message::Reply(Reply { outcome, .. }) = Message::decode(reply)? else {
        return Err(malformed());
    };
    let mut at = outcome.map_err(|error| SessionError::Refused {
        method: "transact",
        error: reply_error(error).to_string(),
    })?;
    match Json::read(&mut at) {
        Json::Array(results) => Ok(results),
        _ => Err(malformed()),
    }
}

fn rows(result: Option<&Json>) -> Option<&[Json]> {
    match result?.get("rows")? {
        Json::Array(rows) => Some(rows),
        _ => None,
    }
}

/// `["uuid", UUID]`
fn uuid_of(json: &Json) -> Option<Uuid> {
    match json {
        Json::Array(parts) => match &parts[..] {
            [tag, uuid] if tag.as_str() == Some("uuid") => parse_uuid(uuid.as_str()?.as_bytes()),
            _ => None,
        },
        _ => None,
    }
}

/// `["map", [[KEY, VALUE], ...]]`
fn pairs(row: &Json, column: &str) -> Option<Vec<(String, String)>> {
    let Json::Array(map) = row.get(column)? else {
        return None;
    };
    let [tag, Json::Array(pairs)] = &map[..] else {
        return None;
    };
    (tag.as_str() == Some("map")).then_some(())?;
    let pair = |pair: &Json| match pair {
        Json::Array(parts) => match &parts[..] {
            [key, value] => Some((key.as_str()?.to_owned(), value.as_str()?.to_owned())),
            _ => None,
        },
        _ => None,
    };
    pairs.iter().map(pair).collect()
}

fn malformed() -> SessionError {
    unexpected(
        "guard",
        "its row or an answer about it is not as it should be",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(results: &str) -> TextBuf {
        TextBuf::parse(format!(r#"{{"id":1,"result":{results},"error":null}}"#).into_bytes())
            .unwrap()
    }

    fn text(request: &[u8]) -> String {
        String::from_utf8(request.to_vec()).unwrap()
    }

    const ROW: &str = "00000000-0000-4000-8000-000000000001";
    const MARK: &str = "00000000-0000-4000-8000-00000000000a";

    fn taking() -> Taking {
        Taking::begin(&Guard::new("T", "ids", "me"), "D").0
    }

    fn ask(taken: Taken) -> (Taking, String) {
        match taken {
            Taken::Ask(taking, request) => (taking, text(&request)),
            Taken::Held(held) => panic!("{held:?}"),
        }
    }

    fn held(taken: Taken) -> HeldGuard {
        match taken {
            Taken::Held(held) => held,
            Taken::Ask(taking, _) => panic!("{taking:?}"),
        }
    }

    #[test]
    fn the_row_is_made_where_it_is_missing() {
        let (taking, made) = ask(taking().answered(&reply(r#"[{"rows":[]}]"#)).unwrap());
        assert!(made.contains(r#""op":"insert""#) && made.contains(r#"["patchbay-guard","me"]"#));
        let inserted = format!(r#"[{{}},{{"uuid":["uuid","{ROW}"]}}]"#);
        let held = held(taking.answered(&reply(&inserted)).unwrap());
        assert!(!held.was_made(MARK));
    }

    #[test]
    fn the_epoch_is_replaced_and_marks_are_read_with_it() {
        let map =
            format!(r#"["map",[["patchbay-guard","me"],["patchbay-epoch","1"],["{MARK}",""]]]"#);
        let found = format!(r#"[{{"rows":[{{"_uuid":["uuid","{ROW}"],"ids":{map}}}]}}]"#);
        let (again, replace) = ask(taking().answered(&reply(&found)).unwrap());
        assert!(replace.contains(r#"["ids","includes",["map",[["patchbay-epoch","1"]]]]"#));
        // Somebody else was faster.
        let (again, look) = ask(again
            .answered(&reply(r#"[{"error":"timed out"},null,null]"#))
            .unwrap());
        assert!(look.contains(r#""op":"select""#) && !look.contains("mutate"));
        let (replacing, _) = ask(again.answered(&reply(&found)).unwrap());
        let replaced = format!(r#"[{{}},{{"rows":[{{"ids":{map}}}]}},{{"count":1}}]"#);
        let held = held(replacing.answered(&reply(&replaced)).unwrap());
        assert!(held.was_made(MARK) && !held.was_made(ROW));
    }

    #[test]
    fn a_request_is_guarded_on_both_sides() {
        let (taking, _) = ask(taking().answered(&reply(r#"[{"rows":[]}]"#)).unwrap());
        let inserted = format!(r#"[{{}},{{"uuid":["uuid","{ROW}"]}}]"#);
        let mut held = held(taking.answered(&reply(&inserted)).unwrap());
        let mut request = request_head("transact");
        request.extend_from_slice(br#"["D",{"op":"comment","comment":"x"}]"#);
        let mut request = request.into();
        held.settle(MARK.to_owned());
        let mark = held.guard(&mut request);
        let request = text(&request.text);
        let json = Json::parse(format!("{request}}}").as_bytes()).unwrap();
        let Some(Json::Array(params)) = json.get("params") else {
            panic!("{request}")
        };
        let names: Vec<_> = params[1..]
            .iter()
            .map(|operation| operation.get("op").and_then(Json::as_str).unwrap())
            .collect();
        assert_eq!(names, ["wait", "comment", "mutate"]);
        assert!(request.contains(&format!(r#"["ids","excludes",["map",[["{mark}",""]]]]"#)));
        assert!(request.contains(&format!(r#"["ids","delete",["set",["{MARK}"]]]"#)));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for results in [
            "{}",
            "[]",
            r#"[{"rows":5}]"#,
            r#"[{"rows":[{}]}]"#,
            r#"[{"rows":[{},{}]}]"#,
            r#"[{"error":"unknown table"}]"#,
        ] {
            assert!(taking().answered(&reply(results)).is_err(), "{results}");
        }
    }
}
