//! Changes that are collected for a slow reader.

use std::sync::Arc;

use patchbay_engine::db::RowChange;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Json;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::DatabaseSchema;
use uuid::Uuid;

use crate::chunk::Chunk;
use crate::reply;
use crate::update::{MonitorSpec, NetChanges, encode_changes};

/// Bytes of the entry of a row, without the row's values.
const ENTRY_BYTES: usize = 128;

/// Net changes that wait until a slow reader has read what was sent before. Each monitor of the
/// session then gets one update. Memory is bounded by the number of rows that differ, not by the
/// number of transactions.
#[derive(Debug, Default)]
pub(crate) struct CollectedChanges {
    databases: Vec<CollectedDatabase>,
    /// Bytes of former versions of rows, each of which the changes may be the last to hold.
    old_bytes: usize,
}

#[derive(Debug)]
struct CollectedDatabase {
    /// Identifies the database, too.
    schema: Arc<DatabaseSchema>,
    /// The session's monitors of the database: ids and requests.
    monitors: Vec<(Arc<Json>, Arc<MonitorSpec>)>,
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
        monitors: Vec<(Arc<Json>, Arc<MonitorSpec>)>,
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
            if database.changes.add(change) {
                self.old_bytes += change.old.as_ref().map_or(0, shared_bytes);
            }
        }
    }

    /// The number of rows that differ, in all databases.
    pub(crate) fn row_count(&self) -> usize {
        self.databases.iter().map(|database| database.changes.len()).sum()
    }

    /// The memory that the changes hold, in bytes. The database holds the new versions of the rows.
    pub(crate) fn held_bytes(&self) -> usize {
        self.row_count() * ENTRY_BYTES + self.old_bytes
    }

    /// The memory that the changes hold when later versions may replace those of the database.
    pub(crate) fn sealed_bytes(&self) -> usize {
        let databases = self.databases.iter();
        let changes = databases.flat_map(|database| database.changes.iter());
        let new = changes.filter_map(|change| change.new.as_ref());
        self.held_bytes() + new.map(shared_bytes).sum::<usize>()
    }

    /// Encodes one update for each monitor that reports any of the changes, one after the other: a
    /// session may have many monitors, and the text for all of them would need much memory.
    pub(crate) fn updates(&self) -> impl Iterator<Item = [Chunk; 3]> {
        self.databases.iter().flat_map(|database| {
            let changes = database.changes.by_table();
            database.monitors.iter().filter_map(move |(id, spec)| {
                let body = encode_changes(spec, &database.schema, &changes)?;
                let update = reply::update(id, spec.version, database.last_id, Arc::new(body));
                Some(update)
            })
        })
    }
}

/// The bytes of a row, divided among the slow readers that hold this version of it. One holder is
/// the commit or the database.
fn shared_bytes(row: &Arc<Row>) -> usize {
    row_bytes(row) / Arc::strong_count(row).saturating_sub(1).max(1)
}

/// The bytes of a row's values.
fn row_bytes(row: &Row) -> usize {
    let atoms = row.values.iter().flat_map(Datum::atoms);
    let bytes = |atom: &Atom| size_of::<Atom>() + atom.as_str().map_or(0, str::len);
    atoms.map(bytes).sum()
}
