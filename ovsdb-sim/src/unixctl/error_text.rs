//! ovsdb-server's texts of errors when a database is added or removed.

use std::io;
use std::path::Path;

use patchbay_schemas::error::OvsdbError;

use crate::file::{Damage, FileError};
use crate::server::{AddDatabaseError, RemoveDatabaseError};

use super::vlog::ReopenLogError;

/// The text of an error of `ovsdb-server/add-db`.
pub(super) fn add_error(error: &AddDatabaseError) -> String {
    match error {
        AddDatabaseError::File(error) => file_error(error),
        AddDatabaseError::Refused(error) => with_syntax_first(error),
        _ => format!("ovsdb error: {error}"),
    }
}

/// The text of an error of `ovsdb-server/remove-db`.
pub(super) fn remove_error(error: &RemoveDatabaseError) -> &'static str {
    match error {
        RemoveDatabaseError::Unknown(_) => "Failed to find the database.",
        RemoveDatabaseError::Reserved(_) => "Cannot remove reserved database.",
    }
}

/// The text of an error of `vlog/reopen`.
pub(super) fn reopen_error(error: &ReopenLogError) -> String {
    match error {
        ReopenLogError::Io(error) => system_text(error),
        ReopenLogError::NoFile => error.to_string(),
    }
}

fn file_error(error: &FileError) -> String {
    let failed = |path: &Path, what: &str, source: &io::Error| {
        format!(
            "I/O error: {}: {what} ({})",
            path.display(),
            system_text(source)
        )
    };
    let lock_failed = "failed to lock lockfile";
    match error {
        FileError::Io { path, source } => failed(path, "open failed", source),
        FileError::Lock { path, source, .. } => failed(path, lock_failed, source),
        FileError::InUse { path } => failed(path, lock_failed, &nix::errno::Errno::EAGAIN.into()),
        FileError::NotADatabase { path, problem } => damage_error(path, problem),
        _ => format!("ovsdb error: {error}"),
    }
}

fn damage_error(path: &Path, problem: &Damage) -> String {
    let path = path.display();
    match problem {
        Damage::Empty => format!("ovsdb error: {path}: cannot identify file type"),
        Damage::Header { .. } => format!("ovsdb error: {path}: unexpected file format"),
        Damage::Cut { offset, len, .. } => format!(
            "I/O error: {path}: error reading {len} bytes starting at offset {offset} (End of file)"
        ),
        Damage::Hash {
            offset,
            len,
            found,
            expected,
        } => format!(
            "syntax error: {path}: {len} bytes starting at offset {offset} have SHA-1 hash {found} \
             but should have hash {expected}"
        ),
        Damage::Json { offset, len, error } => format!(
            "syntax error: {path}: {len} bytes starting at offset {offset} are not valid JSON ({error})"
        ),
        Damage::NotAnObject { offset, len } => format!(
            "syntax error: {path}: {len} bytes starting at offset {offset} are not a JSON object"
        ),
        Damage::Schema(error) => with_syntax_first(error),
    }
}

fn with_syntax_first(error: &OvsdbError) -> String {
    let syntax = error
        .syntax
        .as_ref()
        .map(|syntax| format!("syntax \"{syntax}\": "));
    let details = error.details.as_ref().map(|details| format!(": {details}"));
    [syntax.as_deref().unwrap_or_default(), &error.tag]
        .into_iter()
        .chain(details.as_deref())
        .collect()
}

/// The system's text of an error, without the number that Rust adds.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ")
        .map_or(&*text, |(words, _)| words)
        .to_owned()
}
