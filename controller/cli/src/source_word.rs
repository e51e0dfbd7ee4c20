//! Sources that one word names.

use std::path::{Path, PathBuf};

use patchbay_sources::{Moment, SourceKind, kind_of};

use super::databases::DatabaseFlags;
use super::failure::Failure;

/// Beginnings of remotes (`ovsdb(7)`, "Connection Methods").
const REMOTES: [&str; 3] = ["unix:", "tcp:", "ssl:"];

/// Source that a word names.
#[derive(Clone, Debug)]
pub(super) enum SourceWord {
    /// Remote, database file or archive.
    Databases(DatabaseFlags),
    Manifests(PathBuf),
}

impl SourceWord {
    /// The source of a word: a remote, a database file or an archive with `@MOMENT` or without, or
    /// manifests.
    ///
    /// # Errors
    /// The file cannot be read, or the moment is none.
    pub(super) fn of(word: &str) -> Result<Self, Failure> {
        if REMOTES.iter().any(|scheme| word.starts_with(scheme)) {
            let nb = vec![word.to_owned()];
            return Ok(Self::Databases(DatabaseFlags { nb, ..DatabaseFlags::default() }));
        }
        let path = Path::new(word);
        if let Some((file, moment)) = word.rsplit_once('@').filter(|_| !path.exists()) {
            let moment = moment.parse();
            let at = moment.map_err(|error| Failure::Arguments(format!("{word}: {error}")))?;
            let kind = kind_of(Path::new(file));
            if kind.is_ok_and(|kind| kind == SourceKind::Archive) {
                let must_gather = Some(PathBuf::from(file));
                let flags = DatabaseFlags { must_gather, at: Some(at), ..DatabaseFlags::default() };
                return Ok(Self::Databases(flags));
            }
            return Ok(Self::of_file(file, Some(at)));
        }
        let kind = kind_of(path).map_err(|error| Failure::Arguments(format!("{word}: {error}")))?;
        Ok(match kind {
            SourceKind::Database => Self::of_file(word, None),
            SourceKind::Archive => {
                let must_gather = Some(PathBuf::from(word));
                Self::Databases(DatabaseFlags { must_gather, ..DatabaseFlags::default() })
            }
            SourceKind::Other => Self::Manifests(PathBuf::from(word)),
        })
    }

    /// A database file, at a moment or at its end.
    fn of_file(path: &str, at: Option<Moment>) -> Self {
        let file = vec![file_flag(path)];
        Self::Databases(DatabaseFlags { file, at, ..DatabaseFlags::default() })
    }
}

/// A path as `--file` takes it: what stands before `=` is no zone.
fn file_flag(path: &str) -> String {
    if Path::new(path).is_absolute() { path.to_owned() } else { format!("./{path}") }
}
