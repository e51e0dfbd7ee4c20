//! The copy of the database that a client keeps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Reader;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::streaming::StreamedRows;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{MonitorRequests, MonitorVersion, UpdateError, UpdateReader};
use uuid::Uuid;

use crate::db::{ChangeSet, IndexSpec, RowChange, Snapshot};
use crate::txn::Transaction;

use super::outcome::Committed;
use super::subscription::News;

/// A database that follows the updates of a server. An update that fails leaves it as it was.
#[derive(Debug)]
pub(super) struct Replica {
    snapshot: Snapshot,
    strings: StringCache,
    /// Whether it has held the database at some time.
    filled: bool,
    /// What nobody has been told yet.
    news: Vec<News>,
}

/// What a server reports of a database.
pub(super) struct Updates<'a> {
    pub(super) version: MonitorVersion,
    /// Reader at the `<table-updates>`, without the streamed rows.
    pub(super) text: Reader<'a>,
    /// Rows that were decoded while the text was being received.
    pub(super) streamed: StreamedRows,
}

impl<'a> Updates<'a> {
    /// Returns updates without streamed rows.
    pub(super) fn whole(text: Reader<'a>, version: MonitorVersion) -> Self {
        Self {
            version,
            text,
            streamed: StreamedRows::default(),
        }
    }

    fn read(self, schema: &'a DatabaseSchema, strings: &'a mut StringCache) -> UpdateReader<'a> {
        UpdateReader::new(self.text, schema, self.version, strings).with_streamed(self.streamed)
    }
}

impl Replica {
    pub(super) fn new(schema: Arc<DatabaseSchema>, indexes: &[IndexSpec]) -> Self {
        let empty = Snapshot::empty(schema);
        Self {
            snapshot: indexes
                .iter()
                .fold(empty, |snapshot, index| snapshot.with_index(index.clone())),
            strings: StringCache::default(),
            filled: false,
            news: Vec::new(),
        }
    }

    /// The same, which shares strings with rows that were decoded before.
    pub(super) fn with_strings(self, strings: StringCache) -> Self {
        Self { strings, ..self }
    }

    /// Returns the cache through which the rows share strings.
    pub(super) fn strings(&mut self) -> &mut StringCache {
        &mut self.strings
    }

    /// What has happened since this was called last, after the first contents.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Keeps of several pieces of news only that there are some: a connection that cannot be used may have brought the
    /// replica up to date, and so may any number after it, before anybody is told.
    pub(super) fn condense_news(&mut self) {
        if self.news.len() > 1 {
            self.news = vec![News::Replaced];
        }
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Makes the replica what a monitor's first reply says: the whole contents of the database.
    ///
    /// What is as it was before, is shared with former snapshots.
    pub(super) fn replace(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        contents: Updates<'_>,
    ) -> Result<ChangeSet, UpdateError> {
        let same_schema = schema.to_json() == self.snapshot.schema().to_json();
        let other = (!same_schema).then(|| self.snapshot.empty_like(schema.clone()));
        let snapshot = other.as_ref().unwrap_or(&self.snapshot);
        let is_new = snapshot.row_count() == 0;
        let mut there: HashSet<(TableId, Uuid), RandomState> = HashSet::default();
        let mut changes = ChangeSet::default();
        let mut updates = contents.read(schema, &mut self.strings);
        for update in &mut updates {
            let (table, uuid, update) = update?;
            let row = update.apply(schema.table(table), uuid, None)?;
            let old = snapshot.row(table, uuid);
            if !is_new && !there.insert((table, uuid)) {
                return Err(repeated(schema, table, uuid));
            }
            changes
                .rows
                .extend(row.and_then(|row| replacement(table, old, row)));
        }
        note_unknown_columns(&updates);
        for table in schema.table_ids() {
            let gone = snapshot
                .table(table)
                .iter()
                .filter(|row| !there.contains(&(table, row.uuid)));
            let deleted = |old: &Arc<Row>| RowChange {
                table,
                old: Some(old.clone()),
                new: None,
            };
            changes.rows.extend(gone.map(deleted));
        }
        let shared_before = shared_keys(&self.snapshot);
        let before = is_new.then(|| self.snapshot.clone());
        if let Some(other) = other {
            self.snapshot = other;
        }
        // In place: a snapshot that nobody holds keeps no copy of what has changed since.
        self.snapshot.apply(&changes);
        // Millions of rows that come for the first time are counted, which costs nothing, and not looked up.
        if let Some(before) = before
            && self.snapshot.row_count() != changes.rows.len()
            && let Err(error) = each_row_once(schema, &changes)
        {
            self.snapshot = before;
            return Err(error);
        }
        warn_of_shared_keys(shared_before, &self.snapshot);
        if std::mem::replace(&mut self.filled, true) {
            self.news.push(if same_schema {
                News::Resynced(changes.clone())
            } else {
                News::Replaced
            });
        }
        Ok(changes)
    }

    /// Applies what the server says has changed since the last connection.
    pub(super) fn catch_up(&mut self, updates: Updates<'_>) -> Result<ChangeSet, UpdateError> {
        let changes = self.update(updates)?;
        self.news.push(News::Resynced(changes.clone()));
        Ok(changes)
    }

    /// Applies the changes of one transaction.
    pub(super) fn apply(&mut self, updates: Updates<'_>) -> Result<ChangeSet, UpdateError> {
        let changes = self.update(updates)?;
        self.news.push(News::Committed(changes.clone()));
        Ok(changes)
    }

    /// Shows what a transaction of this client has done, of which the server reports nothing; its operations are taken.
    /// False when that cannot be told from them; then nothing has changed.
    pub(super) fn expect(
        &mut self,
        transaction: &mut Transaction,
        committed: &Committed,
        asked: &MonitorRequests,
    ) -> bool {
        if !Arc::ptr_eq(transaction.schema(), self.snapshot.schema()) {
            return false;
        }
        let operations = transaction.take_executed(|row| committed.inserted.get(&row).copied());
        let Some(mut changes) = self.snapshot.expected(operations) else {
            return false;
        };
        as_reported(&mut changes, self.snapshot.schema(), asked);
        self.snapshot.apply(&changes);
        self.news.push(News::Committed(changes));
        true
    }

    fn update(&mut self, updates: Updates<'_>) -> Result<ChangeSet, UpdateError> {
        let schema = self.snapshot.schema().clone();
        let mut changes = ChangeSet::default();
        let mut updates = updates.read(&schema, &mut self.strings);
        for update in &mut updates {
            let (table, uuid, update) = update?;
            let old = self.snapshot.row(table, uuid);
            let new = update.apply(schema.table(table), uuid, old)?;
            let same = matches!((old, &new), (Some(old), Some(new)) if Arc::ptr_eq(old, new));
            if !same {
                changes.rows.push(RowChange {
                    table,
                    old: old.cloned(),
                    new,
                });
            }
        }
        note_unknown_columns(&updates);
        each_row_once(&schema, &changes)?;
        let shared_before = shared_keys(&self.snapshot);
        self.snapshot.apply(&changes);
        warn_of_shared_keys(shared_before, &self.snapshot);
        Ok(changes)
    }
}

/// Leaves of changes what a monitor would report of them.
fn as_reported(changes: &mut ChangeSet, schema: &DatabaseSchema, asked: &MonitorRequests) {
    let unreported: HashMap<TableId, Vec<(ColumnId, Datum)>, RandomState> = asked
        .tables
        .iter()
        .map(|(id, monitored)| {
            let table = schema.table(*id);
            let is_reported = |column| monitored.columns.iter().any(|(id, _)| *id == column);
            let others = table.column_ids().filter(|column| !is_reported(*column));
            let default = |column| (column, table.column_type(column).default_datum());
            (*id, others.map(default).collect())
        })
        .collect();
    changes.rows.retain_mut(|change| {
        let (Some(unreported), Some(new)) = (unreported.get(&change.table), &mut change.new) else {
            return false;
        };
        let new = Arc::make_mut(new);
        // Monitors are not asked for versions.
        new.version = Uuid::nil();
        for (column, default) in unreported {
            if new.values.get(*column) != Some(default) {
                new.set(*column, default.clone());
            }
        }
        change
            .old
            .as_ref()
            .is_none_or(|old| old.values != new.values)
    });
}

/// The change from a version of a row to the same or another one; what is equal in both stays shared.
fn replacement(table: TableId, old: Option<&Arc<Row>>, mut new: Arc<Row>) -> Option<RowChange> {
    if let Some(old) = old {
        if **old == *new {
            return None;
        }
        Arc::make_mut(&mut new).values.share_equal(&old.values);
    }
    Some(RowChange {
        table,
        old: old.cloned(),
        new: Some(new),
    })
}

/// Refuses two changes of one row: both would be from the same old version, of which indexes forget only one successor.
fn each_row_once(schema: &DatabaseSchema, changes: &ChangeSet) -> Result<(), UpdateError> {
    if changes.rows.len() < 2 {
        return Ok(());
    }
    let mut seen: HashSet<(TableId, Uuid), RandomState> = HashSet::default();
    seen.reserve(changes.rows.len());
    for change in &changes.rows {
        if !seen.insert((change.table, change.uuid())) {
            return Err(repeated(schema, change.table, change.uuid()));
        }
    }
    Ok(())
}

fn repeated(schema: &DatabaseSchema, table: TableId, row: Uuid) -> UpdateError {
    UpdateError::Contradiction {
        table: schema.table(table).name.clone(),
        row,
        problem: "the row is there twice",
    }
}

/// For each unique index, how many keys several rows have.
fn shared_keys(snapshot: &Snapshot) -> Vec<usize> {
    let unique = snapshot.indexes().filter(|index| index.is_unique());
    let count = |index| {
        let view = snapshot.index(index);
        view.map_or(0, |view| view.shared_key_count())
    };
    unique.map(count).collect()
}

/// A replica has no say in what rows there are; that an index is not unique is for people to know.
fn warn_of_shared_keys(before: Vec<usize>, now: &Snapshot) {
    let unique = now.indexes().filter(|index| index.is_unique());
    for ((index, before), now) in unique.zip(before).zip(shared_keys(now)) {
        if now > before {
            tracing::warn!(%index, keys = now, "several rows have a key that was said to be unique");
        }
    }
}

fn note_unknown_columns(updates: &UpdateReader<'_>) {
    for column in updates.unknown_columns() {
        tracing::warn!(column, "the server reports a column that its schema lacks");
    }
}

#[cfg(test)]
mod tests;
