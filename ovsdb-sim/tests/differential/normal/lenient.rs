//! Allowed differences in replies to random requests.

use patchbay_schemas::json::Json;

use super::{Scope, is_reply};

/// Removes the parts of a log that ovsdb-server chooses arbitrarily.
pub(super) fn forget_what_may_differ(log: &mut Vec<(char, Json)>, requests: &[Json], scope: Scope) {
    for (_, message) in log.iter_mut() {
        replace_invalid_utf8(message);
        if scope == Scope::Broken {
            forget_unknown_table(message);
        }
        if let Some(request) = requests.iter().find(|request| is_reply(message, request)) {
            forget_rows_of_errors(message, request, scope);
        }
    }
    log.retain_mut(|(_, message)| !is_update(message) || has_changes(message));
}

/// Replaces invalid UTF-8, which an error's `details` may quote, as the simulator does.
fn replace_invalid_utf8(message: &mut Json) {
    match message {
        Json::String(bytes) => *bytes = String::from_utf8_lossy(bytes).into_owned().into_bytes(),
        Json::Array(elements) => elements.iter_mut().for_each(replace_invalid_utf8),
        Json::Object(members) => members.values_mut().for_each(replace_invalid_utf8),
        _ => {}
    }
}

/// Removes the name of a table that a broken request to monitor names, which may be any of several.
fn forget_unknown_table(reply: &mut Json) {
    if let Json::Object(members) = reply
        && let Some(Json::Object(error)) = members.get_mut(&b"error"[..])
        && let Some(details) = error.get_mut(&b"details"[..])
        && details.as_str().is_some_and(|text| text.starts_with("no table named "))
    {
        *details = Json::string("no table of this name");
    }
}

/// Removes row versions. A member of a cluster executes a transaction once more when it is
/// committed. So new rows get other versions than in the transaction's own results, and references
/// that dangle from the beginning change no version.
pub(crate) fn forget_versions(message: &mut Json) {
    match message {
        Json::Array(elements) => elements.iter_mut().for_each(forget_versions),
        Json::Object(members) => {
            members.remove(&b"_version"[..]);
            members.values_mut().for_each(forget_versions);
        }
        _ => {}
    }
}

/// Removes the rows that errors name, which may be any of several.
fn forget_rows_of_errors(reply: &mut Json, request: &Json, scope: Scope) {
    let (Json::Object(members), Some(Json::Array(params))) = (reply, request.get("params")) else {
        return;
    };
    if request.get("method").and_then(Json::as_str) == Some("convert") && scope == Scope::Broken {
        if let Some(error @ Json::Object(_)) = members.get_mut(&b"error"[..]) {
            *error = Json::string("some error");
        }
        return;
    }
    let Some(Json::Array(results)) = members.get_mut(&b"result"[..]) else {
        return;
    };
    let operations = params.iter().skip(1).map(Some).chain([None]);
    for (result, operation) in results.iter_mut().zip(operations) {
        let Json::Object(members) = result else {
            continue;
        };
        let Some(details) = members.get(&b"details"[..]).and_then(Json::as_str) else {
            continue;
        };
        let kind = match operation {
            None => Some(step_of_commit(details)),
            Some(operation) if scope == Scope::Broken && has_values(operation) => {
                members.remove(&b"syntax"[..]);
                Some("of a value".to_owned())
            }
            Some(operation) => run_time_error(members.get(&b"error"[..]), operation),
        };
        if let Some(kind) = kind {
            members.insert(b"error".to_vec(), Json::string("some error"));
            members.insert(b"details".to_vec(), Json::string(kind));
        }
    }
}

/// The step of the commit that failed. Within a step, the row, and so the text, may differ.
fn step_of_commit(details: &str) -> String {
    match details.split_whitespace().next() {
        Some("Weak" | "Deletion") => "weak reference".to_owned(),
        word => word.unwrap_or_default().to_owned(),
    }
}

/// The normal form of a mutation's error if several rows may have caused it.
fn run_time_error(tag: Option<&Json>, operation: &Json) -> Option<String> {
    let run_time = ["constraint violation", "range error", "domain error"];
    let mutate = operation.get("op").and_then(Json::as_str) == Some("mutate");
    (mutate && run_time.contains(&tag?.as_str()?)).then(|| "of a row".to_owned())
}

fn has_values(operation: &Json) -> bool {
    ["row", "rows"].iter().any(|member| operation.get(member).is_some())
}

fn is_update(message: &Json) -> bool {
    let method = message.get("method").and_then(Json::as_str);
    method.is_some_and(|method| method.starts_with("update"))
}

/// Removes changes without content, which the real server sends if monitors share its records.
fn has_changes(update: &mut Json) -> bool {
    let Json::Object(message) = update else {
        return true;
    };
    let Some(Json::Array(params)) = message.get_mut(&b"params"[..]) else {
        return true;
    };
    let Some(Json::Object(tables)) = params.last_mut() else {
        return true;
    };
    let empty = Json::Object(std::collections::BTreeMap::new());
    tables.retain(|_, rows| {
        let Json::Object(rows) = rows else {
            return true;
        };
        rows.retain(|_, row| {
            let unchanged = row.get("new").is_some() && row.get("old") == Some(&empty);
            row.get("modify") != Some(&empty) && !unchanged
        });
        !rows.is_empty()
    });
    !tables.is_empty()
}
