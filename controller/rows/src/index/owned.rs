//! Rows by the part that owns them.

use std::collections::BTreeSet;

use smallvec::SmallVec;
use uuid::Uuid;

use crate::index::OwnedRow;
use crate::parts::PartId;
use crate::table::TablePlace;

/// Rows of a part in a list at most. More are in a tree, so that each change costs little.
const FEW_ROWS: usize = 64;
/// Rows of a part in a list without an allocation of its own: those of a link.
const INLINE_ROWS: usize = 2;

/// Rows of each part, by the number of the part.
#[derive(Debug, Default)]
pub(super) struct OwnedRows {
    parts: Vec<Rows>,
    len: usize,
}

/// Rows of a part, in order.
#[derive(Debug)]
enum Rows {
    Few(SmallVec<[(TablePlace, Uuid); INLINE_ROWS]>),
    Many(BTreeSet<(TablePlace, Uuid)>),
}

impl Default for Rows {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Rows {
    fn iter(&self) -> impl Iterator<Item = &(TablePlace, Uuid)> {
        let (few, many) = match self {
            Self::Few(rows) => (Some(rows), None),
            Self::Many(rows) => (None, Some(rows)),
        };
        let few = few.into_iter().flatten();
        few.chain(many.into_iter().flatten())
    }

    /// Adds a row. Returns `false` if it is there already.
    fn add(&mut self, row: (TablePlace, Uuid)) -> bool {
        match self {
            Self::Many(rows) => rows.insert(row),
            Self::Few(rows) => {
                let Err(place) = rows.binary_search(&row) else {
                    return false;
                };
                rows.insert(place, row);
                if rows.len() > FEW_ROWS {
                    *self = Self::Many(std::mem::take(rows).into_iter().collect());
                }
                true
            }
        }
    }

    /// Removes a row. Returns `false` if it is not there.
    fn remove(&mut self, row: (TablePlace, Uuid)) -> bool {
        let (is_removed, is_empty) = match self {
            Self::Many(rows) => (rows.remove(&row), rows.is_empty()),
            Self::Few(rows) => {
                let place = rows.binary_search(&row);
                if let Ok(place) = place {
                    rows.remove(place);
                }
                (place.is_ok(), rows.is_empty())
            }
        };
        if is_empty {
            *self = Self::default();
        }
        is_removed
    }
}

impl OwnedRows {
    /// Rows of a part, sorted.
    pub(super) fn of(&self, part: PartId) -> impl Iterator<Item = OwnedRow> {
        let rows = self.parts.get(part.0 as usize).into_iter();
        rows.flat_map(Rows::iter)
            .map(move |(table, uuid)| OwnedRow {
                part,
                table: *table,
                uuid: *uuid,
            })
    }

    pub(super) fn add(&mut self, row: OwnedRow) {
        let part = row.part.0 as usize;
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, Rows::default);
        }
        self.len += usize::from(self.parts[part].add((row.table, row.uuid)));
    }

    pub(super) fn remove(&mut self, row: OwnedRow) {
        if let Some(rows) = self.parts.get_mut(row.part.0 as usize) {
            self.len -= usize::from(rows.remove((row.table, row.uuid)));
        }
    }

    /// Number of rows of all parts.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_rows_in_order() {
        let row = |part, table, uuid| OwnedRow {
            part: PartId(part),
            table: TablePlace(table),
            uuid: Uuid::from_u128(uuid),
        };
        let mut owned = OwnedRows::default();
        for row in [
            row(3, 1, 5),
            row(3, 0, 9),
            row(1, 0, 1),
            row(3, 1, 2),
            row(3, 1, 5),
        ] {
            owned.add(row);
        }
        let of = |owned: &OwnedRows, part| owned.of(PartId(part)).collect::<Vec<_>>();
        assert_eq!(of(&owned, 3), [row(3, 0, 9), row(3, 1, 2), row(3, 1, 5)]);
        assert_eq!((owned.len(), of(&owned, 2)), (4, vec![]));
        owned.remove(row(3, 1, 2));
        owned.remove(row(3, 1, 2));
        owned.remove(row(7, 1, 2));
        assert_eq!(of(&owned, 3), [row(3, 0, 9), row(3, 1, 5)]);
        assert_eq!(owned.len(), 3);
    }
    #[test]
    fn many_rows_of_a_part_are_in_order_too() {
        let row = |uuid| OwnedRow {
            part: PartId(0),
            table: TablePlace(0),
            uuid: Uuid::from_u128(uuid),
        };
        let mut owned = OwnedRows::default();
        let count = 3 * FEW_ROWS as u128;
        (0..count).rev().for_each(|uuid| owned.add(row(uuid)));
        owned.add(row(7));
        assert!(owned.of(PartId(0)).eq((0..count).map(row)));
        (1..count).for_each(|uuid| owned.remove(row(uuid)));
        assert!(owned.of(PartId(0)).eq([row(0)]));
        assert_eq!(owned.len(), 1);
    }
}
