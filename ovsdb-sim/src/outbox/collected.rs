//! Changes that are collected for a slow reader.

use std::sync::Arc;

use patchbay_engine::db::RowChange;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::DatabaseSchema;
use uuid::Uuid;

use crate::chunk::Chunk;
use crate::reply;
use crate::update::{MonitorSpec, NetChanges, encode_changes};

/// Net changes that wait until a slow reader has read what was sent before. Each monitor of the
/// session then gets one update. Memory is bounded by the number of rows that differ, not by the
/// number of transactions.
#[derive(Debug, Default)]
pub(crate) struct CollectedChanges {
    databases: Vec<CollectedDatabase>,
}

#[derive(Debug)]
struct CollectedDatabase {
    /// Identifies the database, too.
    schema: Arc<DatabaseSchema>,
    /// The session's monitors of the database: ids and requests.
    monitors: Vec<(Json, Arc<MonitorSpec>)>,
    changes: NetChanges,
    /// Id of the last collected transaction.
    last_id: Uuid,
}

impl CollectedChanges {
    /// Adds the changes of the transaction `id`. `monitors` are the session's monitors of the
    /// database, which stay the same while changes are added.
    pub(crate) fn add(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        monitors: Vec<(Json, Arc<MonitorSpec>)>,
        changes: &[&RowChange],
        id: Uuid,
    ) {
        let index = self
            .databases
            .iter()
            .position(|database| Arc::ptr_eq(&database.schema, schema))
            .unwrap_or_else(|| {
                self.databases.push(CollectedDatabase {
                    schema: schema.clone(),
                    monitors,
                    changes: NetChanges::default(),
                    last_id: id,
                });
                self.databases.len() - 1
            });
        let database = &mut self.databases[index];
        database.last_id = id;
        for change in changes {
            database.changes.add(change);
        }
    }

    /// The number of rows that differ, in all databases.
    pub(crate) fn row_count(&self) -> usize {
        self.databases
            .iter()
            .map(|database| database.changes.len())
            .sum()
    }

    /// Encodes one update for each monitor that reports any of the changes.
    pub(crate) fn encode(&self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for database in &self.databases {
            let changes = database.changes.by_table();
            for (id, spec) in &database.monitors {
                if let Some(body) = encode_changes(spec, &database.schema, &changes) {
                    let body = Arc::new(body);
                    chunks.extend(reply::update(id, spec.version, database.last_id, body));
                }
            }
        }
        chunks
    }
}
