//! ovsdb-server's texts of errors when a database is added or removed.

use std::io;
use std::path::Path;

use crate::file::{FileError, system_text};
use crate::server::{AddDatabaseError, RemoveDatabaseError};

use super::vlog::ReopenLogError;

/// The text of an error of `ovsdb-server/add-db`.
pub(crate) fn add_error(error: &AddDatabaseError) -> String {
    match error {
        AddDatabaseError::File(error) => file_error(error),
        AddDatabaseError::Refused(error) => error.with_syntax_first(),
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

/// The text of an error of a database file.
pub(crate) fn file_error(error: &FileError) -> String {
    let failed = |path: &Path, what: &str, source: &io::Error| {
        format!("I/O error: {}: {what} ({})", path.display(), system_text(source))
    };
    let lock_failed = "failed to lock lockfile";
    match error {
        FileError::Io { path, source } => failed(path, "open failed", source),
        FileError::Lock { path, source, .. } => failed(path, lock_failed, source),
        FileError::InUse { path } => failed(path, lock_failed, &nix::errno::Errno::EAGAIN.into()),
        FileError::NotADatabase { path, problem } => problem.of_first_record(path),
        _ => format!("ovsdb error: {error}"),
    }
}
