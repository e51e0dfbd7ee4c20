//! The replica: a client's copy of the database.

mod unknown_columns;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::Reader;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::streaming::StreamedRows;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::wire::{
    Condition, MonitorRequests, MonitorVersion, UpdateError, UpdateReader,
};
use uuid::Uuid;

use crate::db::{ChangeSet, IndexSpec, RowChange, Snapshot};
use crate::txn::Transaction;

use super::outcome::Committed;
use super::subscription::ReplicaEvent;
use unknown_columns::UnknownColumns;

/// A database that follows the updates of a server. A failed update leaves it unchanged.
#[derive(Debug)]
pub(super) struct Replica {
    snapshot: Snapshot,
    strings: StringCache,
    unknown_columns: UnknownColumns,
    /// `true` once the replica has held the database.
    filled: bool,
    /// Events that are not published yet.
    events: Vec<ReplicaEvent>,
    /// Id of the last transaction that the snapshot shows. `None`: the server keeps no history.
    transaction: Option<Uuid>,
}

/// The contents of a monitor reply or update.
pub(super) struct TableUpdates<'a> {
    pub(super) version: MonitorVersion,
    /// At the `<table-updates>`, without the rows that were decoded while it was received.
    pub(super) text: Reader<'a>,
    /// Rows that were decoded while the message was received.
    pub(super) streamed: StreamedRows,
}

impl<'a> TableUpdates<'a> {
    /// Contents of which no row was decoded yet.
    pub(super) fn whole(text: Reader<'a>, version: MonitorVersion) -> Self {
        Self { version, text, streamed: StreamedRows::default() }
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
            unknown_columns: UnknownColumns::default(),
            filled: false,
            events: Vec::new(),
            transaction: None,
        }
    }

    /// Replaces the string pool by one that rows decoded before already share.
    pub(super) fn with_strings(self, strings: StringCache) -> Self {
        Self { strings, ..self }
    }

    /// The pool of repeated strings.
    pub(super) fn strings(&mut self) -> &mut StringCache {
        &mut self.strings
    }

    /// Takes the events since the last call. The first contents are no event.
    pub(super) fn take_events(&mut self) -> Vec<ReplicaEvent> {
        std::mem::take(&mut self.events)
    }

    /// Names the transaction up to which the next update goes. `None`: the server keeps no history.
    pub(super) fn at(&mut self, transaction: Option<Uuid>) -> &mut Self {
        self.transaction = transaction;
        self
    }

    /// Id of the last transaction that the snapshot shows.
    pub(super) fn last_transaction(&self) -> Option<Uuid> {
        self.transaction
    }

    /// Replaces several events by [`ReplicaEvent::Replaced`]. Bounds the memory of connections that
    /// update the replica but fail before their events are published.
    pub(super) fn condense_events(&mut self) {
        if self.events.len() > 1 {
            self.events = vec![ReplicaEvent::Replaced];
        }
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Replaces the contents by those of a monitor's first reply.
    ///
    /// Unchanged rows stay shared with former snapshots.
    pub(super) fn replace(
        &mut self,
        schema: &Arc<DatabaseSchema>,
        contents: TableUpdates<'_>,
    ) -> Result<ChangeSet, UpdateError> {
        self.unknown_columns.begin_connection();
        let same_schema = schema.to_json() == self.snapshot.schema().to_json();
        let other = (!same_schema).then(|| self.snapshot.empty_like(schema.clone()));
        let snapshot = other.as_ref().unwrap_or(&self.snapshot);
        let is_new = snapshot.row_count() == 0;
        let mut present: HashSet<(TableId, Uuid), RandomState> = HashSet::default();
        let mut changes = ChangeSet::default();
        let mut updates = contents.read(schema, &mut self.strings);
        for update in &mut updates {
            let (table, uuid, update) = update?;
            let row = update.apply(schema.table(table), uuid, None)?;
            let old = snapshot.row(table, uuid);
            if !is_new && !present.insert((table, uuid)) {
                return Err(duplicate_row(schema, table, uuid));
            }
            changes.rows.extend(row.and_then(|row| replacement(table, old, row)));
        }
        self.unknown_columns.warn(updates.unknown_columns());
        for table in schema.table_ids() {
            let gone =
                snapshot.table(table).iter().filter(|row| !present.contains(&(table, row.uuid)));
            let deleted = |old: &Arc<Row>| RowChange { table, old: Some(old.clone()), new: None };
            changes.rows.extend(gone.map(deleted));
        }
        let duplicates_before = duplicate_key_counts(&self.snapshot);
        let before = is_new.then(|| self.snapshot.clone());
        if let Some(other) = other {
            self.snapshot = other;
        }
        // Applied in place, so that a snapshot without other owners is not copied.
        self.snapshot.apply(&changes);
        // Counting the rows of the first contents replaces a lookup for each of them.
        if let Some(before) = before
            && self.snapshot.row_count() != changes.rows.len()
            && let Err(error) = check_rows_unique(schema, &changes)
        {
            self.snapshot = before;
            return Err(error);
        }
        warn_about_duplicate_keys(duplicates_before, &self.snapshot);
        if std::mem::replace(&mut self.filled, true) {
            self.events.push(if same_schema {
                ReplicaEvent::Resynced(changes.clone(), self.transaction)
            } else {
                ReplicaEvent::Replaced
            });
        }
        Ok(changes)
    }

    /// Applies the changes since the last connection.
    pub(super) fn catch_up(&mut self, updates: TableUpdates<'_>) -> Result<ChangeSet, UpdateError> {
        self.unknown_columns.begin_connection();
        let changes = self.update(updates)?;
        let event = ReplicaEvent::Resynced(changes.clone(), self.transaction);
        self.events.push(event);
        Ok(changes)
    }

    /// Applies the changes of one transaction.
    pub(super) fn apply(&mut self, updates: TableUpdates<'_>) -> Result<ChangeSet, UpdateError> {
        let changes = self.update(updates)?;
        let event = ReplicaEvent::Committed(changes.clone(), self.transaction);
        self.events.push(event);
        Ok(changes)
    }

    /// Applies a transaction of this client that the server does not report. Takes its operations.
    ///
    /// Returns `false`, without any change, if its effects cannot be computed.
    pub(super) fn apply_own_transaction(
        &mut self,
        transaction: &mut Transaction,
        committed: &Committed,
        monitored: &MonitorRequests,
    ) -> bool {
        if !Arc::ptr_eq(transaction.schema(), self.snapshot.schema()) {
            return false;
        }
        let operations = transaction.take_executed(|row| committed.inserted.get(&row).copied());
        let Some(mut changes) = self.snapshot.predict_changes(operations) else {
            return false;
        };
        restrict_to_monitor(&mut changes, self.snapshot.schema(), monitored);
        self.snapshot.apply(&changes);
        // The server reports no id of it.
        self.events.push(ReplicaEvent::Committed(changes, None));
        true
    }

    fn update(&mut self, updates: TableUpdates<'_>) -> Result<ChangeSet, UpdateError> {
        let schema = self.snapshot.schema().clone();
        let mut changes = ChangeSet::default();
        let mut updates = updates.read(&schema, &mut self.strings);
        for update in &mut updates {
            let (table, uuid, update) = update?;
            let old = self.snapshot.row(table, uuid);
            let new = update.apply(schema.table(table), uuid, old)?;
            let same = matches!((old, &new), (Some(old), Some(new)) if Arc::ptr_eq(old, new));
            if !same {
                changes.rows.push(RowChange { table, old: old.cloned(), new });
            }
        }
        self.unknown_columns.warn(updates.unknown_columns());
        check_rows_unique(&schema, &changes)?;
        let duplicates_before = duplicate_key_counts(&self.snapshot);
        self.snapshot.apply(&changes);
        warn_about_duplicate_keys(duplicates_before, &self.snapshot);
        Ok(changes)
    }
}

/// Removes from changes what a monitor would not report.
fn restrict_to_monitor(
    changes: &mut ChangeSet,
    schema: &DatabaseSchema,
    monitored: &MonitorRequests,
) {
    type Unreported<'m> = (&'m Condition, Vec<(ColumnId, Datum)>);
    let unreported: HashMap<TableId, Unreported<'_>, RandomState> = monitored
        .tables
        .iter()
        .map(|(id, monitored)| {
            let table = schema.table(*id);
            let is_reported = |column| monitored.columns.iter().any(|(id, _)| *id == column);
            let others = table.column_ids().filter(|column| !is_reported(*column));
            let default = |column| (column, table.column_type(column).default_datum());
            (*id, (&monitored.condition, others.map(default).collect()))
        })
        .collect();
    changes.rows.retain_mut(|change| {
        let (Some((condition, unreported)), Some(new)) =
            (unreported.get(&change.table), &mut change.new)
        else {
            return false;
        };
        if !condition.matches_any(new) {
            change.new = None;
            return change.old.is_some();
        }
        let new = Arc::make_mut(new);
        // Row versions are not monitored.
        new.version = Uuid::nil();
        for (column, default) in unreported {
            if new.values.get(*column) != Some(default) {
                new.set(*column, default.clone());
            }
        }
        change.old.as_ref().is_none_or(|old| old.values != new.values)
    });
}

/// The change from one version of a row to another. `None`: the versions are equal. Equal values
/// stay shared.
fn replacement(table: TableId, old: Option<&Arc<Row>>, mut new: Arc<Row>) -> Option<RowChange> {
    if let Some(old) = old {
        if **old == *new {
            return None;
        }
        Arc::make_mut(&mut new).values.share_equal(&old.values);
    }
    Some(RowChange { table, old: old.cloned(), new: Some(new) })
}

/// Fails if a row changes twice. Both changes would start from the same old version, and indexes
/// would keep one of the new ones.
fn check_rows_unique(schema: &DatabaseSchema, changes: &ChangeSet) -> Result<(), UpdateError> {
    if changes.rows.len() < 2 {
        return Ok(());
    }
    let mut seen: HashSet<(TableId, Uuid), RandomState> = HashSet::default();
    seen.reserve(changes.rows.len());
    for change in &changes.rows {
        if !seen.insert((change.table, change.uuid())) {
            return Err(duplicate_row(schema, change.table, change.uuid()));
        }
    }
    Ok(())
}

fn duplicate_row(schema: &DatabaseSchema, table: TableId, row: Uuid) -> UpdateError {
    UpdateError::Contradiction {
        table: schema.table(table).name.clone(),
        row,
        problem: "the row occurs twice",
    }
}

/// Number of duplicate keys of each unique index.
fn duplicate_key_counts(snapshot: &Snapshot) -> Vec<usize> {
    let unique = snapshot.indexes().filter(|index| index.is_unique());
    let count = |index| {
        let view = snapshot.index(index);
        view.map_or(0, |view| view.shared_key_count())
    };
    unique.map(count).collect()
}

/// Warns about new duplicate keys. The replica cannot reject them.
fn warn_about_duplicate_keys(before: Vec<usize>, now: &Snapshot) {
    let unique = now.indexes().filter(|index| index.is_unique());
    for ((index, before), now) in unique.zip(before).zip(duplicate_key_counts(now)) {
        if now > before {
            tracing::warn!(%index, keys = now, "several rows share a key of a unique index");
        }
    }
}

#[cfg(test)]
mod tests;
