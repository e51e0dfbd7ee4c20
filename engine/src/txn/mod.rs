//! Collects changes to typed rows into one transaction.
//!
//! Rows that the transaction inserts are referred to by placeholders: [`TxnBuilder::insert`] returns a
//! [`Ref`](patchbay_schemas::typed::Ref) that other rows of the same transaction may hold. On the wire they are named-uuids.

mod builder;
mod error;

pub use builder::TxnBuilder;
pub use error::BuildError;

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::wire::{Operation, OperationWriter};
use uuid::Uuid;

/// A complete transaction, for a [`Database`](crate::db::Database) or for a server.
#[derive(Clone, Debug)]
pub struct Transaction {
    schema: Arc<DatabaseSchema>,
    operations: Vec<Operation>,
    placeholders: HashSet<Uuid, RandomState>,
}

impl Transaction {
    /// The operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The schema that the operations' tables and columns are of.
    pub fn schema(&self) -> &Arc<DatabaseSchema> {
        &self.schema
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Appends the parameters of a `transact` request.
    pub fn write_params(&self, out: &mut Vec<u8>) {
        let is_placeholder = |uuid: Uuid| self.placeholders.contains(&uuid);
        OperationWriter::new(&self.schema, &is_placeholder).params(&self.operations, out);
    }
}
