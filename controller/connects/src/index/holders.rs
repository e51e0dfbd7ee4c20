//! Reverse index of references from routers and switches to rows.

use patchbay_rows::Holders;
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::reconcile::ReferenceColumn;

/// Rows that refer to a row (its holders) by one column of one table, with that column.
#[derive(Debug)]
pub(crate) struct ColumnHolders {
    pub(crate) column: ReferenceColumn,
    holders: Holders,
}

impl ColumnHolders {
    pub(super) fn new(column: ReferenceColumn) -> Self {
        Self {
            holders: Holders::new(column.id()),
            column,
        }
    }

    /// Holders of a row.
    pub(crate) fn of(&self, held: Uuid) -> impl Iterator<Item = Uuid> {
        self.holders.of(held)
    }

    /// True if `holder` refers to `held`.
    pub(crate) fn has(&self, holder: Uuid, held: Uuid) -> bool {
        self.holders.has(holder, held)
    }

    /// Applies a change of a holder. Returns the rows to which it gained or lost a reference.
    pub(super) fn update(&mut self, old: Option<&Row>, new: Option<&Row>) -> Vec<Uuid> {
        let (mut moved, gained) = self.holders.follow(old, new);
        moved.extend(gained);
        moved
    }
}
