//! Standalone database files (ovsdb(5)): reading, and appending.
//!
//! A file is a log of records, each a header line with the length and the SHA-1 of the JSON text
//! that follows:
//!
//! ```text
//! OVSDB JSON <length> <sha1>
//! {"name":"D","tables":{...}}
//! OVSDB JSON <length> <sha1>
//! {"_date":<ms>,"_comment":<text>,"_is_diff":true,"T":{"<uuid>":{"<column>":<value>}|null}}
//! ```
//!
//! The first record is the schema, every other one a transaction. Deleted rows are `null`. Inserted
//! rows have the columns that differ from their defaults. Modified rows have the columns that
//! changed: as differences ([`Delta`]) if `_is_diff` is true, otherwise as whole values. Ephemeral
//! columns are left out.
//!
//! [`DatabaseFile`] replays such a file, [`Journal`] appends to one, [`InitialDatabases`] assigns
//! the files and schemas that a server is started with to databases.
//!
//! [`Delta`]: patchbay_schemas::delta::Delta

mod damage;
mod journal;
mod lock_file;
mod reader;
mod record;
mod sources;
mod writer;

pub use damage::Damage;
pub(crate) use journal::Journal;
pub(crate) use reader::DatabaseFile;
pub use sources::InitialDatabasesError;
pub(crate) use sources::{DatabaseSource, InitialDatabases};

use std::io;
use std::path::{Path, PathBuf};

/// Error: a database file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused an operation on the file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not begin with an intact record that has a schema.
    #[error("{}: not a database file: {problem}", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// Damage of its first record.
        problem: Damage,
    },
    /// The file is one server's log of a clustered database.
    #[error(
        "{0}: belongs to a clustered database; make a standalone file of it first: \
         ovsdb-tool cluster-to-standalone NEW-FILE {0}",
        path.display()
    )]
    Clustered {
        /// The file.
        path: PathBuf,
    },
    /// Another program, or another journal of this program, has the file open for writing.
    #[error("{}: another program has it open for writing", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The lock file beside the file cannot be locked.
    #[error("{}: cannot lock {}: {source}", path.display(), lock_path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The lock file.
        lock_path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl FileError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
