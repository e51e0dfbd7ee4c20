//! What answers to random requests may differ in.

use patchbay_schemas::json::Json;

use super::{Scope, is_reply};

/// Removes from a log what ovsdb-server chooses arbitrarily.
pub(super) fn forget_what_may_differ(log: &mut Vec<(char, Json)>, requests: &[Json], scope: Scope) {
    for (_, message) in log.iter_mut() {
        replace_what_is_no_text(message);
        if let Some(request) = requests.iter().find(|request| is_reply(message, request)) {
            forget_rows_of_errors(message, request, scope);
        }
    }
    log.retain_mut(|(_, message)| !is_update(message) || has_changes(message));
}

/// An error's `details` may quote bytes that are no UTF-8, which the simulator replaces as is usual.
fn replace_what_is_no_text(message: &mut Json) {
    match message {
        Json::String(bytes) => *bytes = String::from_utf8_lossy(bytes).into_owned().into_bytes(),
        Json::Array(elements) => elements.iter_mut().for_each(replace_what_is_no_text),
        Json::Object(members) => members.values_mut().for_each(replace_what_is_no_text),
        _ => {}
    }
}

/// A member of a cluster executes a transaction once more when it is committed. So new rows get other versions than those
/// that the transaction itself saw, and rows none for references that are dangling from the beginning.
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

/// An error may be about any of several rows.
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

/// Which step of the commit failed; the row, and so the words, may differ within a step.
fn step_of_commit(details: &str) -> String {
    match details.split_whitespace().next() {
        Some("Weak" | "Deletion") => "weak reference".to_owned(),
        word => word.unwrap_or_default().to_owned(),
    }
}

/// What an error of a mutation becomes if several rows may have caused it.
fn run_time_error(tag: Option<&Json>, operation: &Json) -> Option<String> {
    let run_time = ["constraint violation", "range error", "domain error"];
    let mutate = operation.get("op").and_then(Json::as_str) == Some("mutate");
    (mutate && run_time.contains(&tag?.as_str()?)).then(|| "of a row".to_owned())
}

fn has_values(operation: &Json) -> bool {
    ["row", "rows"]
        .iter()
        .any(|member| operation.get(member).is_some())
}

fn is_update(message: &Json) -> bool {
    let method = message.get("method").and_then(Json::as_str);
    method.is_some_and(|method| method.starts_with("update"))
}

/// Removes changes without content, which the real server makes when it shares its records between monitors.
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
