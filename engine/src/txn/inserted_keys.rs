//! Index keys of the rows that a transaction inserts.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use uuid::Uuid;

use crate::db::IndexKey;

/// Rows that a transaction inserts, by their keys in one index.
#[derive(Debug, Default)]
pub(super) struct InsertedKeys {
    /// Position up to which the operations of the transaction have been read.
    pub(super) read_until: usize,
    pub(super) rows: HashMap<IndexKey, Uuid, RandomState>,
}
