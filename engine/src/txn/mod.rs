//! Collects changes to rows into one transaction.
//!
//! Rows that the transaction inserts are referred to by placeholders: [`TxnBuilder::insert`] returns a
//! [`Ref`](patchbay_schemas::typed::Ref) that other rows of the same transaction may hold. On the wire they are named-uuids.
//!
//! | to | typed | of any table |
//! |---|---|---|
//! | insert a row | [`insert`](TxnBuilder::insert), [`insert_as`](TxnBuilder::insert_as) | [`insert_row`](TxnBuilder::insert_row), [`insert_row_as`](TxnBuilder::insert_row_as) |
//! | change what differs | [`update`](TxnBuilder::update), [`modify`](TxnBuilder::modify) | [`update_row`](TxnBuilder::update_row) |
//! | insert a row or change the one that is there | [`upsert`](TxnBuilder::upsert) | |
//! | give a column a value | [`set`](TxnBuilder::set) | [`set_row`](TxnBuilder::set_row) |
//! | change a set, a map or a counter relative to what it holds | [`add`](TxnBuilder::add), [`remove`](TxnBuilder::remove), [`put`](TxnBuilder::put), [`remove_keys`](TxnBuilder::remove_keys), [`increase`](TxnBuilder::increase) | [`mutate_row`](TxnBuilder::mutate_row) |
//! | delete a row | [`delete`](TxnBuilder::delete) | [`delete_row`](TxnBuilder::delete_row) |
//! | lose no update of others | [`guard_changes`](TxnBuilder::guard_changes), [`verify`](TxnBuilder::verify), [`expect`](TxnBuilder::expect), [`expect_none`](TxnBuilder::expect_none) | [`expect_row`](TxnBuilder::expect_row), [`expect_no_row`](TxnBuilder::expect_no_row) |
//! | do it only as the owner of a lock | [`assert_lock`](TxnBuilder::assert_lock) | |
//! | split what is too large | [`allow_split`](TxnBuilder::allow_split), [`finish_split`](TxnBuilder::finish_split) | |

mod builder;
mod checks;
mod error;
mod expect;
mod merge;
mod so_far;
mod split;
mod typed;
mod upsert;
mod value;

pub use builder::TxnBuilder;
pub use error::{BuildError, RowName, SplitError};
pub use upsert::Upsert;

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
    placeholders: Arc<HashSet<Uuid, RandomState>>,
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

    /// Whether a row is one that the transaction inserts and the server names.
    pub(crate) fn is_placeholder(&self, row: Uuid) -> bool {
        self.placeholders.contains(&row)
    }

    /// Adds that the client must own a lock.
    pub(crate) fn assert_lock(&mut self, lock: &str) {
        let lock = lock.to_owned();
        self.operations.push(Operation::Assert { lock });
    }

    /// Makes the placeholders of inserted rows their UUIDs.
    pub(crate) fn choose_uuids(&mut self) {
        for operation in &mut self.operations {
            if let Operation::Insert { uuid, given, .. } = operation
                && self.placeholders.contains(uuid)
            {
                given.get_or_insert_with(|| uuid.to_string());
            }
        }
        self.placeholders = Arc::default();
    }

    /// Appends the parameters of a `transact` request.
    pub fn write_params(&self, out: &mut Vec<u8>) {
        self.write(|writer| writer.write_params(&self.operations, out));
    }

    /// Appends how the parameters of a `transact` request begin; operations follow, each behind a comma.
    pub(crate) fn write_database(&self, out: &mut Vec<u8>) {
        self.write(|writer| writer.write_database(out));
    }

    /// Appends operations from that of this number on, until `out` is of so many bytes or more; returns how many.
    pub(crate) fn write_operations(&self, from: usize, len: usize, out: &mut Vec<u8>) -> usize {
        self.write(|writer| writer.write_operations(&self.operations[from..], len, out))
    }

    fn write<T>(&self, with: impl FnOnce(OperationWriter<'_>) -> T) -> T {
        let is_placeholder = |uuid: Uuid| self.placeholders.contains(&uuid);
        with(OperationWriter::new(&self.schema, &is_placeholder))
    }
}
