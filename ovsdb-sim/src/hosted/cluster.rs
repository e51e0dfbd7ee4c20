//! A hosted database as a member of a cluster.

use std::sync::Arc;

use crate::history::History;
use crate::model::Role;
use crate::server_database::{Listing, Status};

use super::{Hosted, State};

/// The database is standalone: it has neither a cluster nor a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("database {database} is not clustered")]
pub struct NotClustered {
    /// Its name.
    pub database: String,
}

impl Hosted {
    pub(crate) fn is_clustered(&self) -> bool {
        self.state().history.is_some()
    }

    /// Changes what the server is in the database's cluster. Transactions that waited for a leader are tried again.
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
            history.elect();
        }
        state.role = role;
        if role.is_connected() && !before.is_connected() {
            let tables = state.database.schema().table_ids().collect();
            self.retry_blocked(&mut state, tables);
        }
        drop(state);
        self.update_listing();
        Ok(())
    }

    /// Forgets all but the last transaction.
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

    /// Writes into `_Server` what has changed by a commit, if that is to be seen there. The database's state must not
    /// be locked.
    pub(super) fn update_listing_of_member(&self) {
        if self.listing.as_ref().is_some_and(Listing::shows_commits) {
            self.update_listing();
        }
    }

    /// Writes into `_Server` what has changed. The database's state must not be locked.
    pub(super) fn update_listing(&self) {
        if let Some(listing) = &self.listing {
            listing.update(&self.name, || self.state().status());
        }
    }

    fn not_clustered(&self) -> NotClustered {
        NotClustered {
            database: self.name.clone(),
        }
    }
}

impl State {
    fn status(&self) -> Status {
        Status {
            schema: self.database.schema().clone(),
            role: self.role,
            index: self.history.as_ref().map(History::index),
        }
    }
}
