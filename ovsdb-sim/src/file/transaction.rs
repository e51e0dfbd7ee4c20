//! A transaction as a database file has it.

use patchbay_engine::db::ChangeSet;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Operation, Operations};

use super::writer;

/// Transaction that is to be appended to a file.
#[derive(Debug)]
pub(super) struct FileTransaction {
    /// JSON object with the changes.
    pub(super) text: Vec<u8>,
    /// `true`: it is synced to the disk before its reply is sent.
    pub(super) durable: bool,
}

impl FileTransaction {
    /// The transaction of rows of which only the versions changed.
    pub(super) fn without_changes() -> Self {
        Self { text: b"{}".to_vec(), durable: false }
    }

    /// Encodes the changes that operations made. `None`: only ephemeral columns or versions
    /// changed.
    pub(super) fn new(
        schema: &DatabaseSchema,
        operations: &Operations,
        changes: &ChangeSet,
    ) -> Option<Self> {
        let mut comment = String::new();
        let mut durable = false;
        for operation in operations {
            match operation {
                Operation::Comment(text) => {
                    if !comment.is_empty() {
                        comment.push('\n');
                    }
                    comment.push_str(text);
                }
                Operation::Commit { durable: this } => durable |= this,
                _ => {}
            }
        }
        let text = writer::transaction(schema, changes, &comment)?;
        Some(Self { text, durable })
    }
}
