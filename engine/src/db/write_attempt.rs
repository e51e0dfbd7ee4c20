//! Writes that a client attempts, for rules that refuse some of them.

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::wire::Condition;
use uuid::Uuid;

use super::execute::Executor;
use super::overlay::Overlay;

/// Rules that limit the writes of a client.
pub trait WriteRules {
    /// Returns the error of a write that the client may not execute. `None`: it may.
    fn refusal(&self, attempt: &WriteAttempt<'_>) -> Option<OvsdbError>;
}

/// `insert`, `update`, `mutate` or `delete` that is about to be executed, with the state of the
/// database that the transaction sees.
#[derive(Debug)]
pub struct WriteAttempt<'a> {
    kind: WriteKind,
    table: TableId,
    rows: Vec<&'a Row>,
    columns: Vec<ColumnId>,
    schema: &'a DatabaseSchema,
    overlay: &'a Overlay<'a>,
}

/// Kind of a [`WriteAttempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Operation `insert`.
    Insert,
    /// Operation `update`.
    Update,
    /// Operation `mutate`.
    Mutate,
    /// Operation `delete`.
    Delete,
}

impl<'a> WriteAttempt<'a> {
    /// Kind of the operation.
    pub fn kind(&self) -> WriteKind {
        self.kind
    }

    /// Table of the operation.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The rows that the operation would change, as they are before it. The row itself if the
    /// operation is an `insert`.
    pub fn rows(&self) -> &[&'a Row] {
        &self.rows
    }

    /// The columns that an `update` or a `mutate` names. Empty: it names none, or the operation is
    /// another one.
    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// Schema of the database.
    pub fn schema(&self) -> &'a DatabaseSchema {
        self.schema
    }

    /// The present rows of a table, with the changes of the operations before this one.
    pub fn present_rows(&self, table: TableId) -> impl Iterator<Item = &'a Row> {
        self.overlay.rows(table).map(Arc::as_ref)
    }

    /// A present row. `None`: the table has no such row, or an operation has deleted it.
    pub fn present_row(&self, table: TableId, uuid: Uuid) -> Option<&'a Row> {
        self.overlay.get(table, uuid).map(Arc::as_ref)
    }
}

impl Executor<'_, '_> {
    /// The UUIDs of the rows that a write changes.
    ///
    /// # Errors
    /// The client may not execute it.
    pub(super) fn writable_uuids(
        &self,
        kind: WriteKind,
        table: TableId,
        condition: &Condition,
        columns: impl IntoIterator<Item = ColumnId>,
    ) -> Result<Vec<Uuid>, OvsdbError> {
        let matching = self.matching_rows(table, condition);
        let rows = || matching.iter().map(|row| &***row).collect();
        self.check_permitted(kind, table, rows, columns)?;
        Ok(matching.into_iter().map(|row| row.uuid).collect())
    }

    /// Checks that the client may execute a write. `rows` are those that it changes.
    pub(super) fn check_permitted<'r>(
        &'r self,
        kind: WriteKind,
        table: TableId,
        rows: impl FnOnce() -> Vec<&'r Row>,
        columns: impl IntoIterator<Item = ColumnId>,
    ) -> Result<(), OvsdbError> {
        let Some(rules) = self.access.rules else {
            return Ok(());
        };
        let attempt = WriteAttempt {
            kind,
            table,
            rows: rows(),
            columns: columns.into_iter().collect(),
            schema: self.schema,
            overlay: self.overlay,
        };
        rules.refusal(&attempt).map_or(Ok(()), Err)
    }
}
