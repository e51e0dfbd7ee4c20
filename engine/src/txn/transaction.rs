//! Complete transactions.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Operation, OperationWriter};
use uuid::Uuid;

/// Complete transaction for a [`Database`](crate::db::Database) or a server, from
/// [`TxnBuilder::finish`](super::TxnBuilder::finish).
#[derive(Clone, Debug)]
pub struct Transaction {
    pub(super) schema: Arc<DatabaseSchema>,
    pub(super) operations: Vec<Operation>,
    /// UUIDs that stand for inserted rows until the server has chosen theirs.
    pub(super) placeholders: Arc<HashSet<Uuid, RandomState>>,
}

impl Transaction {
    /// Operations in the order of their execution.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Schema of the tables and columns in the operations.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// `true` if the transaction has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Appends the parameters of a `transact` request.
    pub fn write_params(&self, out: &mut Vec<u8>) {
        self.write(|writer| writer.write_params(&self.operations, out));
    }

    pub(super) fn write<T>(&self, with: impl FnOnce(OperationWriter<'_>) -> T) -> T {
        let is_placeholder = |uuid: Uuid| self.placeholders.contains(&uuid);
        with(OperationWriter::new(&self.schema, &is_placeholder))
    }

    /// Length of the parameters of a `transact` request in bytes.
    pub(super) fn request_bytes(&self) -> usize {
        let mut request = Vec::new();
        self.write_params(&mut request);
        request.len()
    }
}
