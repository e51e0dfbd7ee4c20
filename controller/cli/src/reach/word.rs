//! Sources that one word names.

use std::path::{Path, PathBuf};

use patchbay_sources::{SourceKind, kind_of};

use super::args::SourceFlags;
use crate::failure::Failure;

/// Beginnings of remotes (`ovsdb(7)`, "Connection Methods").
const REMOTES: [&str; 3] = ["unix:", "tcp:", "ssl:"];

/// The flags of a command whose source is that of a word: a remote, a database file with `@MOMENT` or
/// without, an archive, or manifests.
pub(super) fn flags_of(flags: &SourceFlags, word: &str) -> Result<SourceFlags, Failure> {
    let mut own = flags.clone();
    if REMOTES.iter().any(|scheme| word.starts_with(scheme)) {
        own.nb = vec![word.to_owned()];
        return Ok(own);
    }
    let path = Path::new(word);
    if let Some((file, moment)) = word.rsplit_once('@').filter(|_| !path.exists()) {
        let moment = moment.parse();
        own.at = Some(moment.map_err(|error| Failure::Arguments(format!("{word}: {error}")))?);
        own.file = vec![file_flag(file)];
        return Ok(own);
    }
    let kind = kind_of(path).map_err(|error| Failure::Arguments(format!("{word}: {error}")))?;
    match kind {
        SourceKind::Database => own.file = vec![file_flag(word)],
        SourceKind::Archive => own.must_gather = Some(PathBuf::from(word)),
        SourceKind::Other => own.paths = vec![PathBuf::from(word)],
    }
    Ok(own)
}

/// A path as `--file` takes it: what stands before `=` is no zone.
fn file_flag(path: &str) -> String {
    if Path::new(path).is_absolute() { path.to_owned() } else { format!("./{path}") }
}
