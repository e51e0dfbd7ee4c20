//! Return to an earlier content, in one transaction.

use std::sync::Arc;

use patchbay_engine::db::{DatabaseError, Snapshot};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::wire::DecodedTransaction;

use crate::following::content_operations;

use super::ServedDatabase;

impl ServedDatabase {
    /// Gives the database the content of a snapshot with the same schema. Monitors report the
    /// rows that differ, as for any transaction.
    ///
    /// # Errors
    /// The schema is another one, or the content violates a constraint or cannot be written.
    /// Nothing changed.
    pub(crate) fn restore(self: &Arc<Self>, wanted: &Snapshot) -> Result<(), DatabaseError> {
        let mut state = self.state();
        let schema = wanted.schema();
        let operations = content_operations(wanted, &state.database.snapshot())
            .map_err(|text| DatabaseError::Commit(OvsdbError::new("unknown schema", text)))?;
        if operations.is_empty() {
            return Ok(());
        }
        let mut transaction = DecodedTransaction {
            total: operations.len(),
            operations: operations.into(),
            failure: None,
        };
        let executed = self.execute_locked(&mut state, &mut transaction, schema, None);
        state.compact_if_due();
        drop(state);
        self.update_raft_index();
        executed.map(drop)
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// As of [`restore`](Self::restore).
    pub(crate) fn clear(self: &Arc<Self>) -> Result<(), DatabaseError> {
        self.restore(&Snapshot::empty(self.schema()))
    }
}
