//! State that a client keeps across connections.

use std::sync::Arc;

use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::MonitorRequests;
use uuid::Uuid;

use super::config::Config;
use super::filter::Filters;
use super::lock::LockRequests;
use super::replica::Replica;
use super::server_database::LogPosition;

/// State that a client keeps across connections.
#[derive(Debug)]
pub(super) struct RetainedState {
    /// `None` until a server has sent its database.
    pub(super) replica: Option<Replica>,
    /// String pool for the first rows, while there is no replica.
    pub(super) strings: StringCache,
    /// Position of the replica in the server's transaction history. `None`: the server must send
    /// the whole database.
    pub(super) position: Option<HistoryPosition>,
    /// Highest position in the cluster's log that a server has reported.
    pub(super) log_position: Option<LogPosition>,
    pub(super) filters: Filters,
    pub(super) locks: Arc<LockRequests>,
    /// Identity of the client in the guard row.
    pub(super) client: Arc<str>,
}

/// A position in a database's transaction history, and what was monitored up to it.
#[derive(Clone, Debug)]
pub(super) struct HistoryPosition {
    /// Id of the last transaction that the replica shows.
    pub(super) last: Uuid,
    /// Tables, columns and conditions that the replica shows.
    pub(super) monitored: MonitorRequests,
}

impl RetainedState {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            replica: None,
            strings: StringCache::default(),
            position: None,
            log_position: None,
            filters: Filters::new(config.selection.filters().clone()),
            locks: Arc::default(),
            client: Uuid::new_v4().to_string().into(),
        }
    }

    /// Id of the transaction after which the server can continue. `None` unless the replica has
    /// this schema and these monitor requests.
    pub(super) fn last_transaction(
        &self,
        schema: &DatabaseSchema,
        monitored: &MonitorRequests,
    ) -> Option<Uuid> {
        let (replica, position) = self.replica.as_ref().zip(self.position.as_ref())?;
        let is_same = position.monitored == *monitored
            && schema.to_json() == replica.snapshot().schema().to_json();
        is_same.then_some(position.last)
    }
}
