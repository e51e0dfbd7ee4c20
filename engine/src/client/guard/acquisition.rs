//! Acquisition of the guard row by a new connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::{Json, TextBuf};
use uuid::Uuid;

use crate::client::error::{SessionError, unexpected};
use crate::client::outgoing::request_head;

use super::json::{clause, is_row, malformed, map, pairs, parse_uuid_json, results, rows, set};
use super::{
    CLEARED_KEY, EPOCH_KEY, FOREIGN_MARK_RETENTION, Guard, GuardEpoch, HeldGuard, NAME_KEY,
};

/// The protocol by which a connection acquires the guard row.
#[derive(Debug)]
pub(in crate::client) struct GuardAcquisition {
    guard: Guard,
    database: String,
    client: Arc<str>,
    epoch: String,
    step: AcquisitionStep,
}

#[derive(Debug)]
enum AcquisitionStep {
    /// Selects the row.
    Selecting,
    /// Inserts the row.
    Inserting,
    /// Replaces the epoch in the row.
    ReplacingEpoch { row: Uuid },
}

/// Result of a reply.
#[derive(Debug)]
pub(in crate::client) enum AcquisitionProgress {
    /// Another request, complete but for its id.
    Request(GuardAcquisition, Vec<u8>),
    /// This connection holds the row.
    Acquired(HeldGuard),
}

impl GuardAcquisition {
    /// Starts the acquisition. Returns the first request, complete but for its id.
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
            step: AcquisitionStep::Selecting,
        };
        let look = this.select_request();
        (this, look)
    }

    /// Handles the reply to the last request.
    pub(in crate::client) fn handle_reply(
        mut self,
        reply: &TextBuf,
    ) -> Result<AcquisitionProgress, SessionError> {
        let results = results(reply)?;
        let conflict = results.iter().find_map(OvsdbError::from_json);
        if let Some(error) = conflict {
            // Another client of this name changed the row first, or an older request was executed
            // late.
            if error.tag != "timed out" || matches!(self.step, AcquisitionStep::Selecting) {
                return Err(SessionError::Refused {
                    method: "transact",
                    error: format!("{error} (the guard in table {})", self.guard.table),
                });
            }
            self.step = AcquisitionStep::Selecting;
            let look = self.select_request();
            return Ok(AcquisitionProgress::Request(self, look));
        }
        match self.step {
            AcquisitionStep::Selecting => {
                let rows = rows(results.first()).ok_or_else(malformed)?;
                let request = match rows {
                    [] => {
                        self.step = AcquisitionStep::Inserting;
                        self.insert_request()
                    }
                    [row] => {
                        let uuid =
                            row.get("_uuid").and_then(parse_uuid_json).ok_or_else(malformed)?;
                        let pairs = pairs(row, &self.guard.column).ok_or_else(malformed)?;
                        let epoch = value(&pairs, EPOCH_KEY).ok_or_else(malformed)?;
                        self.step = AcquisitionStep::ReplacingEpoch { row: uuid };
                        self.replace_request(uuid, epoch)
                    }
                    _ => return Err(unexpected("guard", "several rows have this name")),
                };
                Ok(AcquisitionProgress::Request(self, request))
            }
            AcquisitionStep::Inserting => {
                let row = results
                    .get(1)
                    .and_then(|made| made.get("uuid"))
                    .and_then(parse_uuid_json)
                    .ok_or_else(malformed)?;
                // Marks in an earlier row of this name are lost.
                let cleared = Some(self.epoch.clone());
                Ok(AcquisitionProgress::Acquired(self.into_held_guard(row, cleared, Vec::new())))
            }
            AcquisitionStep::ReplacingEpoch { row } => {
                let Some([found]) = rows(results.get(1)) else {
                    return Err(malformed());
                };
                let pairs = pairs(found, &self.guard.column).ok_or_else(malformed)?;
                let cleared = value(&pairs, CLEARED_KEY).map(str::to_owned);
                Ok(AcquisitionProgress::Acquired(self.into_held_guard(row, cleared, pairs)))
            }
        }
    }

    fn into_held_guard(
        self,
        row: Uuid,
        cleared: Option<String>,
        pairs: Vec<(String, String)>,
    ) -> HeldGuard {
        let mut head = request_head("transact");
        head.push(b'[');
        Json::string(&self.database).write(&mut head);
        let is_mark = |(key, _): &(String, String)| Uuid::try_parse(key).is_ok();
        let marks = pairs.into_iter().filter(is_mark);
        let (own, foreign_marks): (Vec<_>, Vec<_>) =
            marks.partition(|(_, client)| **client == *self.client);
        let keys = |marks: Vec<(String, String)>| marks.into_iter().map(|(mark, _)| mark);
        let own: BTreeSet<String> = keys(own).collect();
        HeldGuard {
            guard: self.guard,
            head,
            row,
            client: self.client,
            epoch: Arc::new(GuardEpoch { id: self.epoch, cleared }),
            obsolete_marks: own.iter().cloned().collect(),
            executed: own,
            foreign_marks: keys(foreign_marks).collect(),
            foreign_marks_expiry: Instant::now() + FOREIGN_MARK_RETENTION,
        }
    }

    fn select_request(&self) -> Vec<u8> {
        self.request([Json::object([
            ("op", Json::string("select")),
            ("table", Json::string(&self.guard.table)),
            ("where", Json::Array(vec![self.guard.named()])),
            ("columns", Json::Array(vec![Json::string("_uuid"), Json::string(&self.guard.column)])),
        ])])
    }

    fn insert_request(&self) -> Vec<u8> {
        let row = map([
            (NAME_KEY, self.guard.name.as_str()),
            (EPOCH_KEY, &self.epoch),
            (CLEARED_KEY, &self.epoch),
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

    fn replace_request(&self, row: Uuid, epoch: &str) -> Vec<u8> {
        let column = self.guard.column.as_str();
        let (old, new) = (set([EPOCH_KEY]), map([(EPOCH_KEY, self.epoch.as_str())]));
        self.request([
            // Fails if the epoch has changed since the `select`.
            self.guard.wait(
                "!=",
                vec![is_row(row), clause(column, "includes", map([(EPOCH_KEY, epoch)]))],
            ),
            Json::object([
                ("op", Json::string("select")),
                ("table", Json::string(&self.guard.table)),
                ("where", Json::Array(vec![is_row(row)])),
                ("columns", Json::Array(vec![Json::string(column)])),
            ]),
            self.guard
                .mutate(row, vec![clause(column, "delete", old), clause(column, "insert", new)]),
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
