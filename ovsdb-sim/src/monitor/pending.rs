//! What a slow reader has not been told.

use std::sync::Arc;

use patchbay_engine::db::RowChange;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use uuid::Uuid;

use crate::outbox::Chunk;

use super::{NetChanges, Spec, encode, update};

/// The changes that wait for a session until it has read what came before, and become one update for each of its
/// monitors then. They are as many as the rows that differ, however many transactions made them.
#[derive(Debug, Default)]
pub(crate) struct PendingUpdates {
    databases: Vec<PendingDatabase>,
}

#[derive(Debug)]
struct PendingDatabase {
    /// Tells databases apart, too.
    schema: Arc<DatabaseSchema>,
    monitors: Monitored,
    changes: NetChanges,
    /// The id of the last transaction among them.
    last_id: Uuid,
}

/// The monitors that a session has of a database.
pub(super) type Monitored = Vec<(Json, Arc<Spec>)>;

impl PendingUpdates {
    /// Adds what a transaction changed in a database that the session has these monitors of. They are the same for as
    /// long as changes are added.
    pub(super) fn add(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        monitors: Monitored,
        changes: &[&RowChange],
        id: Uuid,
    ) {
        let mut databases = self.databases.iter();
        let place = databases.position(|database| Arc::ptr_eq(&database.schema, schema));
        let place = place.unwrap_or_else(|| {
            self.databases.push(PendingDatabase {
                schema: schema.clone(),
                monitors,
                changes: NetChanges::default(),
                last_id: id,
            });
            self.databases.len() - 1
        });
        let database = &mut self.databases[place];
        database.last_id = id;
        for change in changes {
            database.changes.add(change);
        }
    }

    /// How many rows differ.
    pub(crate) fn rows(&self) -> usize {
        let databases = self.databases.iter();
        databases.map(|database| database.changes.len()).sum()
    }

    /// The updates.
    pub(crate) fn encode(&self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for database in &self.databases {
            let changes = database.changes.by_table();
            for (id, spec) in &database.monitors {
                if let Some(body) = encode::changes(spec, &database.schema, &changes) {
                    let body = Arc::new(body);
                    chunks.extend(update(id, spec.version, database.last_id, body));
                }
            }
        }
        chunks
    }
}

/// The changes that monitors may have to report.
pub(super) fn seen_by<'a>(monitors: &Monitored, changes: &[&'a RowChange]) -> Vec<&'a RowChange> {
    let is_seen = |change: &RowChange| {
        monitors
            .iter()
            .any(|(_, spec)| spec.event(change).is_some())
    };
    let seen = changes.iter().copied();
    seen.filter(|change| is_seen(change)).collect()
}
