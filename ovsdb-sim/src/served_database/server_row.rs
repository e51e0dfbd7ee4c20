//! The database's row in `_Server`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Operation};

use crate::server::server_database::{self, DatabaseRow, DatabaseStatus};

use super::ServedDatabase;

/// Writer of a database's row in `_Server`.
#[derive(Debug)]
pub(super) struct ServerRow {
    server_database: Arc<ServedDatabase>,
    /// Content of the row. `None`: the row is removed, and the writer must not touch that of
    /// another database with the same name.
    written: Mutex<Option<DatabaseStatus>>,
}

impl ServerRow {
    /// Makes a writer for a row that [`insert`](Self::insert) will add, with this status.
    pub(super) fn new(server_database: Arc<ServedDatabase>, status: DatabaseStatus) -> Self {
        Self { server_database, written: Mutex::new(Some(status)) }
    }

    fn insert(&self, row: &DatabaseRow, uuids: UuidSource) {
        let mut txn = TxnBuilder::with_uuids(&self.server_database.snapshot(), uuids);
        match txn.insert(row) {
            Ok(_) => self.execute(&row.name, txn.finish().operations().to_vec()),
            Err(error) => log_failure(&row.name, &error),
        }
    }

    /// `true` if commits change the row: the database is clustered.
    fn has_raft_index(&self) -> bool {
        self.written().as_ref().is_some_and(|written| written.index.is_some())
    }

    /// Writes the columns that have changed in the row of the database `name`.
    fn update(&self, name: &str, current: impl FnOnce() -> DatabaseStatus) {
        let mut written = self.written();
        let Some(written) = &mut *written else {
            return;
        };
        // Read under this lock, so that updates are written in their order.
        let current = current();
        let changes = current.changes_since(written);
        *written = current;
        if !changes.is_empty() {
            let schema = self.server_database.schema();
            self.execute(name, server_database::update_row(&schema, name, changes));
        }
    }

    /// Deletes the row of the database `name`.
    fn delete(&self, name: &str) {
        if self.written().take().is_some() {
            let schema = self.server_database.schema();
            self.execute(name, server_database::delete_row(&schema, name));
        }
    }

    fn execute(&self, name: &str, operations: Vec<Operation>) {
        let transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        let schema = self.server_database.schema();
        if let Err(error) = self.server_database.execute(transaction, &schema) {
            log_failure(name, &error);
        }
    }

    fn written(&self) -> MutexGuard<'_, Option<DatabaseStatus>> {
        // Each change is one assignment.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_failure(name: &str, error: &dyn std::error::Error) {
    tracing::error!(database = name, %error, "cannot write the row of a database in _Server");
}

impl ServedDatabase {
    /// Adds the database's row to `_Server`.
    pub(crate) fn insert_server_row(&self, row: &DatabaseRow, uuids: UuidSource) {
        if let Some(server_row) = &self.server_row {
            server_row.insert(row, uuids);
        }
    }

    /// Deletes the database's row in `_Server`.
    pub(crate) fn remove_server_row(&self) {
        if let Some(server_row) = &self.server_row {
            server_row.delete(&self.name);
        }
    }

    /// Writes the column `index` of a clustered database's row in `_Server`, after a commit. The
    /// database's state must not be locked.
    pub(super) fn update_raft_index(&self) {
        if self.server_row.as_ref().is_some_and(ServerRow::has_raft_index) {
            self.update_server_row();
        }
    }

    /// Writes the changed columns of the database's row in `_Server`. The database's state must not
    /// be locked.
    pub(super) fn update_server_row(&self) {
        if let Some(server_row) = &self.server_row {
            server_row.update(&self.name, || self.state().status(self.is_available()));
        }
    }
}
