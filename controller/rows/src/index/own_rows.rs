//! Rows of the part that is evaluated.

use std::hash::Hash;

use patchbay_schemas::row::Row;
use smallvec::SmallVec;
use uuid::Uuid;

use super::{Index, OwnedRow, RowKey};
use crate::parts::PartId;
use crate::table::TablePlace;

/// Rows of a part at most that are found by identity without an index.
const FOUND_ROWS: usize = 4;
/// Rows of a part without an allocation of their own: those of a link.
const INLINE_ROWS: usize = 2;

/// A row of a part in the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRow<'a> {
    pub(crate) owned: OwnedRow,
    pub(crate) row: &'a Row,
    /// Key of an identity that no other row can have.
    unique_key: Option<RowKey>,
}

/// All rows of a part in the database, sorted by table and UUID.
///
/// A part reads its rows, compares and keeps them: they are looked for once.
#[derive(Debug, Default)]
pub(crate) struct OwnRows<'a>(SmallVec<[OwnRow<'a>; INLINE_ROWS]>);

impl<'a> OwnRows<'a> {
    pub(crate) fn new<P: Clone + Eq + Hash>(part: PartId, index: &'a Index<P>) -> Self {
        let layout = &index.layout;
        let unique_key = |place: usize, table: TablePlace, row: &Row| {
            let identity = &layout.table(table).identity;
            identity.unique_index.filter(|_| place < FOUND_ROWS)?;
            let hash = layout.row_key(table, row)?;
            Some(RowKey { table, hash })
        };
        let rows = index.owned(part).enumerate().map(|(place, (table, row))| {
            let owned = OwnedRow { part, table, uuid: row.uuid };
            OwnRow { owned, row, unique_key: unique_key(place, table, row) }
        });
        Self(rows.collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = OwnRow<'a>> {
        self.0.iter().copied()
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = OwnRow<'a>> {
        self.0.into_iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The row with an identity that no other row can have. `None`: there is none, the identity is
    /// not unique, or the part has many rows.
    pub(crate) fn find(&self, key: RowKey) -> Option<&'a Row> {
        let mut rows = self.0.iter();
        let found = rows.find(|row| row.unique_key == Some(key));
        found.map(|row| row.row)
    }

    pub(crate) fn contains(&self, row: (TablePlace, Uuid)) -> bool {
        let place = |own: &OwnRow<'_>| (own.owned.table, own.owned.uuid);
        self.0.binary_search_by_key(&row, place).is_ok()
    }
}
