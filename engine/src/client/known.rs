//! What a client keeps from one connection to the next.

use std::sync::Arc;

use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::MonitorRequests;
use uuid::Uuid;

use super::condition::Filters;
use super::config::Config;
use super::lock::Locks;
use super::replica::Replica;
use super::server_database::Seen;

/// What a client keeps from one connection to the next.
#[derive(Debug)]
pub(super) struct Known {
    /// None until a server has sent its database.
    pub(super) replica: Option<Replica>,
    /// Those of the first rows, while there is no replica.
    pub(super) strings: StringCache,
    /// Where the replica stands in the history that servers keep; none when they must send the whole database.
    pub(super) position: Option<Position>,
    /// How far into the cluster's log we have seen.
    pub(super) seen: Option<Seen>,
    pub(super) filters: Filters,
    pub(super) locks: Arc<Locks>,
    /// By which the client knows what it has left in the guard row.
    pub(super) client: Arc<str>,
}

/// A place in a database's history.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// The last transaction that the replica shows.
    pub(super) last: Uuid,
    /// What of the database it shows.
    pub(super) asked: MonitorRequests,
}

impl Known {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            replica: None,
            strings: StringCache::default(),
            position: None,
            seen: None,
            filters: Filters::new(config.selection.filters().clone()),
            locks: Arc::default(),
            client: Uuid::new_v4().to_string().into(),
        }
    }

    /// The transaction after which a server need not repeat anything, if it is asked this of a database with this schema.
    pub(super) fn last_transaction(
        &self,
        schema: &DatabaseSchema,
        asked: &MonitorRequests,
    ) -> Option<Uuid> {
        let (replica, position) = self.replica.as_ref().zip(self.position.as_ref())?;
        let same =
            position.asked == *asked && schema.to_json() == replica.snapshot().schema().to_json();
        same.then_some(position.last)
    }
}
