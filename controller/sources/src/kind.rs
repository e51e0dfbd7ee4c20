//! What a file or folder is, by its content.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use crate::dump::is_dump;
use crate::unpack::{Budget, peek, unpack};

/// Length of the beginning of a file that shows what it is, in bytes: a header of a tar member.
pub(crate) const BEGIN_BYTES: usize = 512;
/// Place of the word `ustar` in a tar header, in bytes.
const TAR_MAGIC_OFFSET: usize = 257;
/// Maximum number of files of a folder that are looked at.
const MAX_FILES: usize = 100_000;

/// Content of a file or folder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SourceKind {
    /// Database file or dump of a database, packed or not.
    Database,
    /// Tar archive, or folder with a database file, an archive, or the objects that a collector keeps.
    Archive,
    /// Other content: manifests, perhaps.
    Other,
}

/// Looks at the first bytes of a file, or of the files of a folder.
///
/// # Errors
/// The path cannot be read. Files of a folder that cannot be read are passed over.
pub fn kind_of(path: &Path) -> io::Result<SourceKind> {
    if !fs::metadata(path)?.is_dir() {
        let input = Box::new(BufReader::new(File::open(path)?));
        let (begin, _) = peek::<BEGIN_BYTES>(unpack(input, &Budget::default())?)?;
        return Ok(kind_of_bytes(&begin));
    }
    let mut folders = vec![path.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)?.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if is_of_collector(&entry.path()) {
                    return Ok(SourceKind::Archive);
                }
                folders.push(entry.path());
                continue;
            }
            files += 1;
            let is_packed = kind.is_file() && files <= MAX_FILES;
            if is_packed && kind_of(&entry.path()).is_ok_and(|kind| kind != SourceKind::Other) {
                return Ok(SourceKind::Archive);
            }
        }
    }
    Ok(SourceKind::Other)
}

/// `true` for the folders of collectors `cluster-scoped-resources` and `namespaces/NAMESPACE/core`.
fn is_of_collector(folder: &Path) -> bool {
    let is_core = folder.ends_with("core")
        && folder.ancestors().nth(2).is_some_and(|above| above.ends_with("namespaces"));
    is_core || folder.ends_with("cluster-scoped-resources")
}

/// What begins with these unpacked bytes.
pub(crate) fn kind_of_bytes(begin: &[u8]) -> SourceKind {
    let tar = begin.get(TAR_MAGIC_OFFSET..);
    if begin.starts_with(b"OVSDB ") || is_dump(begin) {
        SourceKind::Database
    } else if tar.is_some_and(|rest| rest.starts_with(b"ustar")) {
        SourceKind::Archive
    } else {
        SourceKind::Other
    }
}
