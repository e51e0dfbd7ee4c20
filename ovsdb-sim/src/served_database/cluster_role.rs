//! Role of the server in the database's cluster.

use std::sync::Arc;

#[cfg(feature = "unixctl")]
use patchbay_schemas::error::OvsdbError;

#[cfg(feature = "unixctl")]
use crate::model::Model;
use crate::model::Role;
use crate::server::server_database::DatabaseStatus;

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
        self.state().cluster().is_some()
    }

    #[cfg(feature = "unixctl")]
    pub(crate) fn model(&self) -> Model {
        if self.is_clustered() { Model::Clustered } else { Model::Standalone }
    }

    /// Changes the server's role in the database's cluster. With a new leader, the transactions
    /// that wait for one are executed again.
    ///
    /// # Errors
    /// The database is standalone.
    pub(crate) fn set_role(self: &Arc<Self>, role: Role) -> Result<(), NotClustered> {
        if self.is_relay {
            return Err(self.not_clustered());
        }
        let mut state = self.state();
        let before = state.role;
        if state.cluster().is_none() {
            return Err(self.not_clustered());
        }
        if role.is_leader()
            && !before.is_leader()
            && let Err(error) = state.storage.elect()
        {
            let database = &self.name;
            tracing::error!(database, %error, "cannot write an election: the term stays");
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

    /// Changes the election timer of the database's cluster.
    ///
    /// # Errors
    /// The file could not be written. The timer stays.
    #[cfg(feature = "unixctl")]
    pub(crate) fn change_election_timer(&self, milliseconds: u64) -> Result<(), OvsdbError> {
        let changed = self.state().storage.change_election_timer(milliseconds);
        self.update_server_row();
        changed
    }

    /// Removes all transactions but the last from the history.
    ///
    /// # Errors
    /// The database is standalone.
    pub(crate) fn truncate_history(&self) -> Result<(), NotClustered> {
        let mut state = self.state();
        let cluster = state.storage.cluster_mut();
        cluster.ok_or_else(|| self.not_clustered())?.truncate_history();
        Ok(())
    }

    fn not_clustered(&self) -> NotClustered {
        NotClustered { database: self.name.clone() }
    }
}

impl DatabaseState {
    /// The content of the database's row in `_Server`. `is_available`: it has a schema.
    pub(super) fn status(&self, is_available: bool) -> DatabaseStatus {
        DatabaseStatus {
            schema: is_available.then(|| self.database.schema().clone()),
            role: self.role,
            index: self.storage.cluster().map(|cluster| cluster.position().index),
        }
    }
}
