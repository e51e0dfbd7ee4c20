//! The copy of the database that a client keeps.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::json::Reader;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableId};
use patchbay_schemas::strings::Strings;
use patchbay_schemas::wire::{ArrivedRows, MonitorVersion, UpdateError, UpdateReader};
use uuid::Uuid;

use crate::db::{ChangeSet, IndexSpec, RowChange, Snapshot};

use super::subscription::News;

/// A database that follows the updates of a server. An update that fails leaves it as it was.
#[derive(Debug)]
pub(super) struct Replica {
    snapshot: Snapshot,
    strings: Strings,
    /// Whether it has held the database at some time.
    filled: bool,
    /// What nobody has been told yet.
    news: Vec<News>,
}

/// What a server reports of a database.
pub(super) struct Updates<'a> {
    pub(super) version: MonitorVersion,
    /// At the `<table-updates>`, or what is left of them.
    pub(super) text: Reader<'a>,
    /// What was taken out of the text while it arrived.
    pub(super) arrived: ArrivedRows,
}

impl<'a> Updates<'a> {
    /// That of which nothing was taken out.
    pub(super) fn whole(text: Reader<'a>, version: MonitorVersion) -> Self {
        Self {
            version,
            text,
            arrived: ArrivedRows::default(),
        }
    }

    fn read(self, schema: &'a DatabaseSchema, strings: &'a mut Strings) -> UpdateReader<'a> {
        UpdateReader::new(self.text, schema, self.version, strings).with_arrived(self.arrived)
    }
}

impl Replica {
    pub(super) fn new(schema: Arc<DatabaseSchema>, indexes: &[IndexSpec]) -> Self {
        let empty = Snapshot::empty(schema);
        Self {
            snapshot: indexes
                .iter()
                .fold(empty, |snapshot, index| snapshot.with_index(index.clone())),
            strings: Strings::default(),
            filled: false,
            news: Vec::new(),
        }
    }

    /// The same, which shares strings with rows that were decoded before.
    pub(super) fn with_strings(self, strings: Strings) -> Self {
        Self { strings, ..self }
    }

    /// Strings that come again and again.
    pub(super) fn strings(&mut self) -> &mut Strings {
        &mut self.strings
    }

    /// What has happened since this was called last, after the first contents.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
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
            if !is_new {
                there.insert((table, uuid));
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
        if let Some(other) = other {
            self.snapshot = other;
        }
        // In place: a snapshot that nobody holds keeps no copy of what has changed since.
        self.snapshot.apply(&changes);
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
        let shared_before = shared_keys(&self.snapshot);
        self.snapshot.apply(&changes);
        warn_of_shared_keys(shared_before, &self.snapshot);
        Ok(changes)
    }
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
