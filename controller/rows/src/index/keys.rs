//! Rows by the key of their identity.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::sources::Source;
use crate::table::TablePlace;

/// Identity of a row in short: its table and a hash. Lookups of existing rows compare the identity
/// itself as well.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RowKey {
    pub(crate) table: TablePlace,
    pub(crate) hash: u64,
}

impl RowKey {
    /// The identity as a source that parts read.
    pub(crate) fn source(self) -> Source {
        let table = (u64::from(self.table.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Source::new(self.hash ^ table)
    }
}

/// Maps keys to rows. Two keys of one source have their rows in common.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<Source, Rows, RandomState>);

#[derive(Debug)]
enum Rows {
    One(Arc<Row>),
    #[expect(clippy::box_collection, reason = "few of many: the others are shorter for it")]
    Many(Box<BTreeMap<Uuid, Arc<Row>>>),
}

impl Keys {
    pub(super) fn reserve(&mut self, rows: usize) {
        self.0.reserve(rows);
    }

    /// Rows of a key, by UUID.
    pub(super) fn get(&self, key: RowKey) -> impl Iterator<Item = &Arc<Row>> {
        let (one, many) = match self.0.get(&key.source()) {
            None => (None, None),
            Some(Rows::One(row)) => (Some(row), None),
            Some(Rows::Many(rows)) => (None, Some(rows.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Adds a row, or replaces its earlier version.
    pub(super) fn put(&mut self, key: RowKey, row: &Arc<Row>) {
        match self.0.entry(key.source()) {
            Entry::Vacant(entry) => {
                entry.insert(Rows::One(row.clone()));
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Rows::One(have) if have.uuid == row.uuid => *have = row.clone(),
                Rows::One(have) => {
                    let both = [have.clone(), row.clone()].map(|row| (row.uuid, row));
                    entry.insert(Rows::Many(Box::new(both.into())));
                }
                Rows::Many(have) => {
                    have.insert(row.uuid, row.clone());
                }
            },
        }
    }

    pub(super) fn remove(&mut self, key: RowKey, row: Uuid) {
        let is_empty = match self.0.get_mut(&key.source()) {
            None => false,
            Some(Rows::One(have)) => have.uuid == row,
            Some(Rows::Many(rows)) => {
                rows.remove(&row);
                rows.is_empty()
            }
        };
        if is_empty {
            self.0.remove(&key.source());
        }
    }
}
