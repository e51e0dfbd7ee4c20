//! Database files (ovsdb(5)): reading, and appending.
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
//! [`DatabaseFile`] replays such a file, [`Journal`] appends to one, [`DatabaseLog`] steps through the
//! history of either kind. The files of clustered
//! databases (`cluster_record.rs`) have transactions of the same form;
//! [`ClusterLog`](cluster_log::ClusterLog) and [`ClusterJournal`] are for them. A [`Storage`] is
//! where the commits of a database are kept, whatever its model. [`InitialDatabases`] assigns the
//! files and schemas that a server is started with to databases.
//!
//! [`Delta`]: patchbay_schemas::delta::Delta

mod cluster_journal;
mod cluster_log;
mod cluster_record;
mod damage;
mod growth;
mod journal;
mod lock_file;
mod log;
mod reader;
mod record;
mod record_log;
mod sources;
mod storage;
mod transaction;
mod unread;
mod writer;

pub use cluster_log::ClusterLogError;
pub use damage::Damage;
pub use log::{DatabaseLog, LogEnd, LoggedTransaction};
pub use record::database_file;
pub use sources::InitialDatabasesError;
pub(crate) use sources::{DatabaseSource, InitialDatabases, OpenedDatabase};
pub(crate) use storage::Storage;

use cluster_journal::ClusterJournal;
use journal::Journal;
use reader::DatabaseFile;

use std::io;
use std::path::{Path, PathBuf};

use patchbay_schemas::error::OvsdbError;

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
    /// The file is one server's log of a clustered database, and cannot be loaded.
    #[error(
        "{0}: belongs to a clustered database; serve it as a database file, or make a standalone \
         file of it first: ovsdb-tool cluster-to-standalone NEW-FILE {0}",
        path.display()
    )]
    Clustered {
        /// The file.
        path: PathBuf,
    },
    /// The file of a clustered database cannot be served.
    #[error("{}: {problem}", path.display())]
    Cluster {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: ClusterLogError,
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
        Self::Io { path: path.to_owned(), source }
    }

    fn not_a_database(path: &Path, problem: Damage) -> Self {
        Self::NotADatabase { path: path.to_owned(), problem }
    }

    /// Logs that a transaction cannot be appended to a file, and makes its error.
    fn write(path: &Path, error: &io::Error) -> OvsdbError {
        let path = path.display();
        tracing::error!(%path, %error, "cannot write a transaction, which fails");
        OvsdbError {
            io_error: Some(system_text(error).into()),
            ..OvsdbError::new("I/O error", format!("{path}: write failed"))
        }
    }

    /// Makes the error of a file that cannot be replaced.
    fn replace(path: &Path, source: io::Error) -> OvsdbError {
        OvsdbError::new("I/O error", Self::io(path, source).to_string())
    }
}

/// The system's text of an error, without the number that Rust adds.
pub(crate) fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(&*text, |(words, _)| words).to_owned()
}
