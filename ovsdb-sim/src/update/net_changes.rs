//! Net effect of several transactions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::RandomState;

use patchbay_engine::db::RowChange;
use patchbay_schemas::schema::TableId;
use uuid::Uuid;

/// Net effect of consecutive transactions: each changed row once, as it was before the first
/// transaction and as it is after the last. Rows that were inserted and deleted again are left out.
#[derive(Debug, Default)]
pub(crate) struct NetChanges {
    rows: HashMap<(TableId, Uuid), RowChange, RandomState>,
}

impl NetChanges {
    /// Adds the next change of a row. Returns `true` if it is the row's first one.
    pub(crate) fn add(&mut self, change: &RowChange) -> bool {
        match self.rows.entry((change.table, change.uuid())) {
            Entry::Vacant(entry) => {
                entry.insert(change.clone());
                return true;
            }
            Entry::Occupied(mut entry) if entry.get().old.is_some() || change.new.is_some() => {
                entry.get_mut().new.clone_from(&change.new);
            }
            Entry::Occupied(entry) => {
                entry.remove();
            }
        }
        false
    }

    /// The number of rows in the net effect. A row that was changed back counts.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The changes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RowChange> {
        self.rows.values()
    }

    /// The changes, sorted by table.
    pub(crate) fn by_table(&self) -> Vec<&RowChange> {
        let mut rows: Vec<_> = self.rows.values().collect();
        rows.sort_by_key(|change| change.table);
        rows
    }
}
