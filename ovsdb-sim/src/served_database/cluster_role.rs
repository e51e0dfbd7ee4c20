//! Role of the server in the database's cluster.

use std::sync::Arc;

use crate::history::History;
use crate::model::Role;
use crate::server_database::DatabaseStatus;

use super::{DatabaseState, ServedDatabase};

/// Error: the database is standalone, with neither a cluster nor a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("database {database} is not clustered")]
pub struct NotClustered {
    /// Name of the database.
    pub database: String,
}

impl ServedDatabase {
    pub(crate) fn is_clustered(&self) -> bool {
        self.state().history.is_some()
    }

    /// Changes the server's role in the database's cluster. With a new leader, the transactions
    /// that wait for one are executed again.
    ///
    /// # Errors
    /// The database is standalone.
    pub(crate) fn set_role(self: &Arc<Self>, role: Role) -> Result<(), NotClustered> {
        let mut state = self.state();
        let before = state.role;
        let Some(history) = &mut state.history else {
            return Err(self.not_clustered());
        };
        if role.is_leader() && !before.is_leader() {
            history.record_election();
        }
        state.role = role;
        if role.is_connected() && !before.is_connected() {
            let tables = state.database.schema().table_ids().collect();
            self.retry_waiting(&mut state, tables);
        }
        drop(state);
        self.update_server_row();
        Ok(())
    }

    /// Removes all transactions but the last from the history.
    ///
    /// # Errors
    /// The database is standalone.
    pub(crate) fn truncate_history(&self) -> Result<(), NotClustered> {
        match &mut self.state().history {
            Some(history) => history.truncate(),
            None => return Err(self.not_clustered()),
        }
        Ok(())
    }

    fn not_clustered(&self) -> NotClustered {
        NotClustered {
            database: self.name.clone(),
        }
    }
}

impl DatabaseState {
    /// The content of the database's row in `_Server`.
    pub(super) fn status(&self) -> DatabaseStatus {
        DatabaseStatus {
            schema: self.database.schema().clone(),
            role: self.role,
            index: self.history.as_ref().map(History::index),
        }
    }
}
