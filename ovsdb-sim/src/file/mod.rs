//! OVSDB's standalone database file (ovsdb(5)), in and out.
//!
//! A file is a log of records, each a header line with the length and the SHA-1 of the JSON text that follows:
//!
//! ```text
//! OVSDB JSON <length> <sha1>
//! {"name":"D","tables":{...}}
//! OVSDB JSON <length> <sha1>
//! {"_date":<ms>,"_comment":<text>,"_is_diff":true,"T":{"<uuid>":{"<column>":<value>}|null}}
//! ```
//!
//! The first record is the schema, every other a transaction: rows that are deleted are `null`, inserted ones have the
//! columns that differ from their defaults, and changed ones the columns that changed, as differences ([`Delta`])
//! where `_is_diff` says so, else whole. Ephemeral columns are left out.
//!
//! [`DatabaseFile`] replays such a file, [`Journal`] appends to one, [`Given`] matches the files and schemas that a
//! server is started with.
//!
//! [`Delta`]: patchbay_schemas::delta::Delta

mod damage;
mod given;
mod journal;
mod lock_file;
mod reader;
mod record;
mod writer;

pub use damage::Damage;
pub(crate) use given::{Given, Source};
pub(crate) use journal::{Journal, inverse};
pub(crate) use reader::DatabaseFile;

use std::io;
use std::path::{Path, PathBuf};

use patchbay_schemas::error::OvsdbError;

/// Why a database file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It does not begin with an intact record that holds a schema.
    #[error("{}: not a database file: {problem}", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first record.
        problem: Damage,
    },
    /// It is one server's part of a clustered database.
    #[error(
        "{0}: belongs to a clustered database; make a standalone file of it first: \
         ovsdb-tool cluster-to-standalone NEW-FILE {0}",
        path.display()
    )]
    Clustered {
        /// The file.
        path: PathBuf,
    },
    /// An intact record is not a transaction on a database of the file's schema.
    #[error("{}: record {record} at byte {offset}: {error}", path.display())]
    Transaction {
        /// The file.
        path: PathBuf,
        /// Number of the record; the schema is 0.
        record: u64,
        /// Where its header begins.
        offset: u64,
        /// What is wrong.
        error: OvsdbError,
    },
    /// Another program writes it, or another journal of this one.
    #[error("{}: another program has it open for writing", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file that is locked beside it cannot be.
    #[error("{}: cannot lock {}: {source}", path.display(), lock_path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What is locked in its place.
        lock_path: PathBuf,
        /// The system's answer.
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
