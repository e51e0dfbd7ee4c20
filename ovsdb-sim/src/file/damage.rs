//! Damage of a record.

use std::fmt::Display;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::JsonError;

/// Damage of a record in a database file, or of its first record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file has no record.
    #[error("the file is empty")]
    Empty,
    /// The header is not `OVSDB JSON <length> <sha1>`.
    #[error("bad header line {line:?}")]
    Header {
        /// The line in its place.
        line: String,
    },
    /// The file ends inside the text.
    #[error("the file ends after {read} of {len} bytes of the record")]
    Cut {
        /// Offset of the text in the file, in bytes.
        offset: u64,
        /// Length of the text according to the header, in bytes.
        len: u64,
        /// Length of the text in the file, in bytes.
        read: u64,
    },
    /// The hash of the text differs from that in the header.
    #[error("{len} bytes have SHA-1 hash {found} but should have hash {expected}")]
    Hash {
        /// Offset of the text in the file, in bytes.
        offset: u64,
        /// Length of the text, in bytes.
        len: u64,
        /// SHA-1 hash of the text.
        found: String,
        /// SHA-1 hash in the header.
        expected: String,
    },
    /// The text is not valid JSON.
    #[error("{error}")]
    Json {
        /// Offset of the text in the file, in bytes.
        offset: u64,
        /// Length of the text, in bytes.
        len: u64,
        /// The error of the parser.
        error: JsonError,
    },
    /// The text is JSON, but not an object.
    #[error("not a JSON object")]
    NotAnObject {
        /// Offset of the text in the file, in bytes.
        offset: u64,
        /// Length of the text, in bytes.
        len: u64,
    },
    /// The first record is not a schema.
    #[error(transparent)]
    Schema(#[from] OvsdbError),
}

impl Damage {
    /// ovsdb-server's text for the damage of a file's first record.
    #[cfg(feature = "unixctl")]
    pub(crate) fn of_first_record(&self, path: &std::path::Path) -> String {
        let path = path.display();
        match self {
            Self::Empty => format!("ovsdb error: {path}: cannot identify file type"),
            Self::Header { .. } => format!("ovsdb error: {path}: unexpected file format"),
            _ => self.of_record(&path, 0),
        }
    }

    /// ovsdb-server's text for the damage of the record at `record_offset`, in bytes.
    pub(super) fn of_record(&self, path: &dyn Display, record_offset: u64) -> String {
        match self {
            Self::Empty => format!("I/O error: {path}: the file is empty"),
            Self::Header { line } => format!(
                "syntax error: {path}: parse error at offset {record_offset} in header line \"{line}\""
            ),
            Self::Cut { offset, len, .. } => format!(
                "I/O error: {path}: error reading {len} bytes starting at offset {offset} (End of file)"
            ),
            Self::Hash { offset, len, found, expected } => format!(
                "syntax error: {path}: {len} bytes starting at offset {offset} have SHA-1 hash \
                 {found} but should have hash {expected}"
            ),
            Self::Json { offset, len, error } => format!(
                "syntax error: {path}: {len} bytes starting at offset {offset} are not valid JSON ({error})"
            ),
            Self::NotAnObject { offset, len } => format!(
                "syntax error: {path}: {len} bytes starting at offset {offset} are not a JSON object"
            ),
            Self::Schema(error) => error.with_syntax_first(),
        }
    }
}
