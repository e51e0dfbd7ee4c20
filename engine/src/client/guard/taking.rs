//! How a connection takes the guard row from former ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, TextBuf};
use uuid::Uuid;

use crate::client::error::{SessionError, unexpected};
use crate::client::outgoing::request_head;

use super::notation::{clause, is_row, malformed, map, pairs, results, rows, set, uuid_of};
use super::{CLEARED, EPOCH, FOREIGN_MARKS_KEPT, Guard, HeldGuard, Hold, NAME};

/// The steps by which a connection takes the guard row.
#[derive(Debug)]
pub(in crate::client) struct Taking {
    guard: Guard,
    database: String,
    client: Arc<str>,
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
pub(in crate::client) enum Taken {
    /// Another request, of which everything is there but the id.
    Ask(Taking, Vec<u8>),
    /// The row is ours.
    Held(HeldGuard),
}

impl Taking {
    /// Begins, with a first request of which everything is there but the id.
    pub(in crate::client) fn begin(
        guard: &Guard,
        database: &str,
        client: &Arc<str>,
    ) -> (Self, Vec<u8>) {
        let this = Self {
            guard: guard.clone(),
            database: database.to_owned(),
            client: client.clone(),
            epoch: Uuid::new_v4().to_string(),
            step: Step::Looking,
        };
        let look = this.look();
        (this, look)
    }

    /// Deals with the answer to the last request.
    pub(in crate::client) fn answered(mut self, reply: &TextBuf) -> Result<Taken, SessionError> {
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
                        let epoch = value(&pairs, EPOCH).ok_or_else(malformed)?;
                        self.step = Step::Replacing { row: uuid };
                        self.replace(uuid, epoch)
                    }
                    _ => return Err(unexpected("guard", "several rows have its name")),
                };
                Ok(Taken::Ask(self, request))
            }
            Step::Making => {
                let row = results.get(1).and_then(|made| made.get("uuid"));
                let row = row.and_then(uuid_of).ok_or_else(malformed)?;
                // Whatever was in a row that was there before is gone.
                let cleared = Some(self.epoch.clone());
                Ok(Taken::Held(self.held(row, cleared, Vec::new())))
            }
            Step::Replacing { row } => {
                let Some([found]) = rows(results.get(1)) else {
                    return Err(malformed());
                };
                let pairs = pairs(found, &self.guard.column).ok_or_else(malformed)?;
                let cleared = value(&pairs, CLEARED).map(str::to_owned);
                Ok(Taken::Held(self.held(row, cleared, pairs)))
            }
        }
    }

    fn held(self, row: Uuid, cleared: Option<String>, pairs: Vec<(String, String)>) -> HeldGuard {
        let mut head = request_head("transact");
        head.push(b'[');
        Json::string(&self.database).write(&mut head);
        let is_mark = |(key, _): &(String, String)| Uuid::try_parse(key).is_ok();
        let marks = pairs.into_iter().filter(is_mark);
        let (own, foreign): (Vec<_>, Vec<_>) =
            marks.partition(|(_, client)| **client == *self.client);
        let keys = |marks: Vec<(String, String)>| marks.into_iter().map(|(mark, _)| mark);
        let own: BTreeSet<String> = keys(own).collect();
        HeldGuard {
            guard: self.guard,
            head,
            row,
            client: self.client,
            hold: Arc::new(Hold {
                epoch: self.epoch,
                cleared,
            }),
            settled: own.iter().cloned().collect(),
            made: own,
            foreign: keys(foreign).collect(),
            foreign_until: Instant::now() + FOREIGN_MARKS_KEPT,
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
        let row = map([
            (NAME, self.guard.name.as_str()),
            (EPOCH, &self.epoch),
            (CLEARED, &self.epoch),
        ]);
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

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let (_, value) = pairs.iter().find(|(have, _)| have == key)?;
    Some(value)
}
