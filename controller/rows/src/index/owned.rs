//! Rows by the part that owns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::row::Row;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::parts::PartId;
use crate::table::TablePlace;

/// Rows of a part in a list at most. More are in a tree, so that each change costs little.
const FEW_ROWS: usize = 64;
/// Rows of a part in a list without an allocation of its own: those of a link.
const INLINE_ROWS: usize = 2;

/// Rows of each part, by the number of the part.
///
/// The rows themselves are here, because looking for each in its table would take longer than all
/// else that is done with most of them.
#[derive(Debug, Default)]
pub(super) struct OwnedRows {
    parts: Vec<Rows>,
    len: usize,
}

/// Table and UUID: the order of a part's rows.
type Place = (TablePlace, Uuid);

/// Rows of a part, in order.
#[derive(Debug)]
enum Rows {
    Few(SmallVec<[(TablePlace, Arc<Row>); INLINE_ROWS]>),
    Many(BTreeMap<Place, Arc<Row>>),
}

impl Default for Rows {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

fn place((table, row): &(TablePlace, Arc<Row>)) -> Place {
    (*table, row.uuid)
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = (TablePlace, &Arc<Row>)> + Clone {
        let (few, many) = match self {
            Self::Few(rows) => (Some(rows), None),
            Self::Many(rows) => (None, Some(rows)),
        };
        let few = few.into_iter().flatten().map(|(table, row)| (*table, row));
        let many = many.into_iter().flatten();
        few.chain(many.map(|((table, _), row)| (*table, row)))
    }

    /// Adds a row, or replaces its earlier version. Returns `true` if there was none.
    fn put(&mut self, row: (TablePlace, Arc<Row>)) -> bool {
        match self {
            Self::Many(rows) => rows.insert(place(&row), row.1).is_none(),
            Self::Few(rows) => {
                let found = rows.binary_search_by_key(&place(&row), place);
                match found {
                    Ok(at) => rows[at] = row,
                    Err(at) => rows.insert(at, row),
                }
                if rows.len() > FEW_ROWS {
                    let rows = std::mem::take(rows).into_iter();
                    *self = Self::Many(rows.map(|row| (place(&row), row.1)).collect());
                }
                found.is_err()
            }
        }
    }

    /// Removes a row. Returns `false` if it is not there.
    fn remove(&mut self, row: Place) -> bool {
        let (is_removed, is_empty) = match self {
            Self::Many(rows) => (rows.remove(&row).is_some(), rows.is_empty()),
            Self::Few(rows) => {
                let found = rows.binary_search_by_key(&row, place);
                if let Ok(at) = found {
                    rows.remove(at);
                }
                (found.is_ok(), rows.is_empty())
            }
        };
        if is_empty {
            *self = Self::default();
        }
        is_removed
    }
}

impl OwnedRows {
    /// Rows of a part, sorted by table and UUID.
    pub(super) fn of(&self, part: PartId) -> impl Iterator<Item = (TablePlace, &Arc<Row>)> + Clone {
        let rows = self.parts.get(part.0 as usize).into_iter();
        rows.flat_map(Rows::iter)
    }

    /// Makes room for parts up to a number.
    pub(super) fn reserve(&mut self, parts: usize) {
        if self.parts.len() < parts {
            self.parts.resize_with(parts, Rows::default);
        }
    }

    /// Adds a row to a part, or replaces its earlier version.
    pub(super) fn put(&mut self, part: PartId, row: (TablePlace, Arc<Row>)) {
        let part = part.0 as usize;
        self.reserve(part + 1);
        self.len += usize::from(self.parts[part].put(row));
    }

    pub(super) fn remove(&mut self, part: PartId, row: Place) {
        if let Some(rows) = self.parts.get_mut(part.0 as usize) {
            self.len -= usize::from(rows.remove(row));
        }
    }

    /// Number of rows of all parts.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use patchbay_schemas::row::Values;

    use super::*;

    fn row(table: u16, uuid: u128) -> (TablePlace, Arc<Row>) {
        let row =
            Row { uuid: Uuid::from_u128(uuid), version: Uuid::nil(), values: Values::default() };
        (TablePlace(table), Arc::new(row))
    }

    fn places(owned: &OwnedRows, part: u32) -> Vec<(u16, u128)> {
        let rows = owned.of(PartId(part));
        rows.map(|(table, row)| (table.0, row.uuid.as_u128())).collect()
    }

    #[test]
    fn a_part_has_its_rows_in_order() {
        let mut owned = OwnedRows::default();
        for (part, of_part) in
            [(3, row(1, 5)), (3, row(0, 9)), (1, row(0, 1)), (3, row(1, 2)), (3, row(1, 5))]
        {
            owned.put(PartId(part), of_part);
        }
        assert_eq!(places(&owned, 3), [(0, 9), (1, 2), (1, 5)]);
        assert_eq!((owned.len(), places(&owned, 2)), (4, vec![]));
        for part in [3, 3, 7] {
            owned.remove(PartId(part), place(&row(1, 2)));
        }
        assert_eq!(places(&owned, 3), [(0, 9), (1, 5)]);
        assert_eq!(owned.len(), 3);
    }

    #[test]
    fn a_row_replaces_its_earlier_version() {
        let mut owned = OwnedRows::default();
        let count = 2 * FEW_ROWS as u128;
        for rows in [1, count] {
            (0..rows).for_each(|uuid| owned.put(PartId(0), row(0, uuid)));
            let later = row(0, 0);
            owned.put(PartId(0), later.clone());
            let (_, first) = owned.of(PartId(0)).next().unwrap();
            assert!(Arc::ptr_eq(first, &later.1));
            assert_eq!(owned.len() as u128, rows);
        }
    }

    #[test]
    fn many_rows_of_a_part_are_in_order_too() {
        let mut owned = OwnedRows::default();
        let count = 3 * FEW_ROWS as u128;
        (0..count).rev().for_each(|uuid| owned.put(PartId(0), row(0, uuid)));
        owned.put(PartId(0), row(0, 7));
        let all: Vec<(u16, u128)> = (0..count).map(|uuid| (0, uuid)).collect();
        assert_eq!(places(&owned, 0), all);
        (1..count).for_each(|uuid| owned.remove(PartId(0), place(&row(0, uuid))));
        assert_eq!(places(&owned, 0), [(0, 0)]);
    }
}
