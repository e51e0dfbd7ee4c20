//! Backup of another server's database, which clients can only read (ovsdb(7), "Active-Backup
//! Service Model").

use std::sync::Arc;

use super::ServedDatabase;

impl ServedDatabase {
    /// `true` while the database is a backup.
    pub(crate) fn is_backup(&self) -> bool {
        self.state().is_backup
    }

    /// Makes the database a backup, or active. Waiting transactions are executed again.
    pub(crate) fn set_backup(self: &Arc<Self>, is_backup: bool) {
        let mut state = self.state();
        state.is_backup = is_backup;
        let tables = state.database.schema().table_ids().collect();
        self.retry_waiting(&mut state, tables);
        drop(state);
        self.update_raft_index();
    }
}
