//! Rows of a connect, ordered by part.

use std::collections::{BTreeSet, btree_set};
use std::iter::Peekable;

use uuid::Uuid;

use super::TableKind;
use crate::part::Part;

/// Row of a connect.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Owned {
    pub(crate) part: Part,
    pub(crate) kind: TableKind,
    pub(crate) uuid: Uuid,
}

impl Owned {
    /// Lowest possible row of a part.
    pub(super) fn first(part: Part) -> Self {
        Self {
            part,
            kind: TableKind::Router,
            uuid: Uuid::nil(),
        }
    }

    /// Highest possible row of a part.
    pub(super) fn last(part: Part) -> Self {
        Self {
            part,
            kind: TableKind::Copp,
            uuid: Uuid::max(),
        }
    }
}

/// Cursor over the parts of a connect.
pub(crate) struct OwnedParts<'a> {
    owned: &'a BTreeSet<Owned>,
    /// Rows of later parts.
    rest: Peekable<btree_set::Range<'a, Owned>>,
    part: Vec<Owned>,
}

impl<'a> OwnedParts<'a> {
    pub(super) fn new(owned: Option<&'a BTreeSet<Owned>>) -> Self {
        static NONE: BTreeSet<Owned> = BTreeSet::new();
        let owned = owned.unwrap_or(&NONE);
        Self {
            owned,
            rest: owned.range(..).peekable(),
            part: Vec::new(),
        }
    }

    /// Returns the rows of a part.
    ///
    /// Parts must be requested in order. A search is needed only after a part with rows was
    /// skipped.
    pub(crate) fn part(&mut self, part: Part) -> &[Owned] {
        if self.rest.peek().is_some_and(|row| row.part < part) {
            self.rest = self.owned.range(Owned::first(part)..).peekable();
        }
        self.part.clear();
        while let Some(row) = self.rest.next_if(|row| row.part == part) {
            self.part.push(*row);
        }
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::LinkId;
    use patchbay_model::NetworkId;

    fn link(index: u16) -> Part {
        Part::Link(LinkId {
            network: NetworkId::DEFAULT,
            index,
        })
    }

    #[test]
    fn all_rows_of_a_part_are_between_its_first_and_its_last() {
        for kind in TableKind::ALL {
            for uuid in [Uuid::nil(), Uuid::max()] {
                let part = link(3);
                let row = Owned { part, kind, uuid };
                assert!((Owned::first(part)..=Owned::last(part)).contains(&row));
            }
        }
    }

    #[test]
    fn parts_are_found_with_and_without_skipped_parts() {
        let row = |index, kind| Owned {
            part: link(index),
            kind,
            uuid: Uuid::from_u128(index.into()),
        };
        let owned: BTreeSet<Owned> = [1, 2, 4, 7]
            .into_iter()
            .flat_map(|index| [row(index, TableKind::Port), row(index, TableKind::Route)])
            .collect();
        for asked in [&[1, 2, 3, 4, 7, 8][..], &[2, 7], &[0, 4, 5], &[8]] {
            let mut parts = OwnedParts::new(Some(&owned));
            for index in asked {
                let expected: Vec<Owned> = owned
                    .iter()
                    .filter(|row| row.part == link(*index))
                    .copied()
                    .collect();
                assert_eq!(parts.part(link(*index)), expected);
            }
        }
        assert!(OwnedParts::new(None).part(link(1)).is_empty());
    }
}
