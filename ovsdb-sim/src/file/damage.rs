//! What can be wrong with a record.

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::JsonError;

/// Why something is not a record of a database file, or not its first one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// There is not even a first record.
    #[error("the file is empty")]
    Empty,
    /// It does not begin with `OVSDB JSON <length> <sha1>`.
    #[error("bad header line {line:?}")]
    Header {
        /// What it begins with.
        line: String,
    },
    /// The file ends within the text.
    #[error("the file ends after {read} of {len} bytes of the record")]
    Cut {
        /// Where the text begins in the file.
        offset: u64,
        /// How long it should be.
        len: u64,
        /// How much of it is there.
        read: u64,
    },
    /// The text is another than the header says.
    #[error("{len} bytes have SHA-1 hash {found} but should have hash {expected}")]
    Hash {
        /// Where the text begins in the file.
        offset: u64,
        /// How long it is.
        len: u64,
        /// Its hash.
        found: String,
        /// The header's.
        expected: String,
    },
    /// The text is malformed.
    #[error("{error}")]
    Json {
        /// Where the text begins in the file.
        offset: u64,
        /// How long it is.
        len: u64,
        /// What is wrong.
        error: JsonError,
    },
    /// The text is something else.
    #[error("not a JSON object")]
    NotAnObject {
        /// Where the text begins in the file.
        offset: u64,
        /// How long it is.
        len: u64,
    },
    /// The first record is no schema.
    #[error(transparent)]
    Schema(#[from] OvsdbError),
}
