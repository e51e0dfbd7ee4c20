//! Damage of a record.

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
