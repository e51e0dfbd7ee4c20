//! JSON of requests about the guard row and of their replies.

use patchbay_schemas::atom::parse_uuid;
use patchbay_schemas::json::{Json, TextBuf};
use patchbay_schemas::wire::{Message, Reply};
use uuid::Uuid;

use crate::client::error::{SessionError, reply_error, unexpected};

use super::{Guard, NAME_KEY};

impl Guard {
    /// The clause that selects the row by the guard's name.
    pub(super) fn named(&self) -> Json {
        clause(&self.column, "includes", map([(NAME_KEY, self.name.as_str())]))
    }

    /// A `wait` that fails unless at least one row (`!=`) or no row (`==`) satisfies the clauses.
    pub(super) fn wait(&self, until: &str, clauses: Vec<Json>) -> Json {
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

    pub(super) fn mutate(&self, row: Uuid, mutations: Vec<Json>) -> Json {
        Json::object([
            ("op", Json::string("mutate")),
            ("table", Json::string(&self.table)),
            ("where", Json::Array(vec![is_row(row)])),
            ("mutations", Json::Array(mutations)),
        ])
    }
}

pub(super) fn is_row(row: Uuid) -> Json {
    let row = Json::Array(vec![Json::string("uuid"), Json::string(row.to_string())]);
    clause("_uuid", "==", row)
}

/// A clause or a mutation.
pub(super) fn clause(column: &str, function: &str, argument: Json) -> Json {
    Json::Array(vec![Json::string(column), Json::string(function), argument])
}

pub(super) fn map<const N: usize>(pairs: [(&str, &str); N]) -> Json {
    let pair = |(key, value)| Json::Array(vec![Json::string(key), Json::string(value)]);
    let pairs = pairs.into_iter().map(pair).collect();
    Json::Array(vec![Json::string("map"), Json::Array(pairs)])
}

pub(super) fn set<'a>(keys: impl IntoIterator<Item = &'a str>) -> Json {
    let keys = keys.into_iter().map(Json::string).collect();
    Json::Array(vec![Json::string("set"), Json::Array(keys)])
}

pub(super) fn results(reply: &TextBuf) -> Result<Vec<Json>, SessionError> {
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

pub(super) fn rows(result: Option<&Json>) -> Option<&[Json]> {
    match result?.get("rows")? {
        Json::Array(rows) => Some(rows),
        _ => None,
    }
}

/// `["uuid", UUID]`
pub(super) fn parse_uuid_json(json: &Json) -> Option<Uuid> {
    match json {
        Json::Array(parts) => match &parts[..] {
            [tag, uuid] if tag.as_str() == Some("uuid") => parse_uuid(uuid.as_str()?.as_bytes()),
            _ => None,
        },
        _ => None,
    }
}

/// `["map", [[KEY, VALUE], ...]]`
pub(super) fn pairs(row: &Json, column: &str) -> Option<Vec<(String, String)>> {
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

pub(super) fn malformed() -> SessionError {
    unexpected("guard", "its row or a reply about it is malformed")
}
