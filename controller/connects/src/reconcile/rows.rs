//! Row changes of one transaction, with counts.

use std::collections::HashSet;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::{Change, Counts, PlanError};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::{Ref, TableRow};
use uuid::Uuid;

use super::columns::Columns;
use super::holders::HolderChanges;

/// UUID of a written row: an existing row, or the placeholder of a new row.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenRow {
    pub(super) uuid: Uuid,
}

/// Transaction builder with counts of changed rows.
pub(super) struct RowChanges {
    txn: TxnBuilder,
    inserted: usize,
    changed: HashSet<Uuid>,
    deleted: HashSet<Uuid>,
}

impl RowChanges {
    pub(super) fn new(txn: TxnBuilder) -> Self {
        Self {
            txn,
            inserted: 0,
            changed: HashSet::new(),
            deleted: HashSet::new(),
        }
    }

    /// Updates the existing row, or inserts the wanted row.
    pub(super) fn upsert<T: TableRow>(
        &mut self,
        columns: &Columns<T>,
        existing: Option<&Row>,
        wanted: &T,
    ) -> Result<WrittenRow, PlanError> {
        let Some(existing) = existing else {
            return self.insert(wanted);
        };
        if columns.update(&mut self.txn, existing, &wanted.to_data())? {
            self.changed.insert(existing.uuid);
        }
        Ok(WrittenRow {
            uuid: existing.uuid,
        })
    }

    pub(super) fn insert<T: TableRow>(&mut self, row: &T) -> Result<WrittenRow, PlanError> {
        let uuid = self.txn.insert(row)?.uuid;
        self.inserted += 1;
        Ok(WrittenRow { uuid })
    }

    /// Deletes a row of a root table.
    pub(super) fn delete<T: TableRow>(&mut self, row: Uuid) -> Result<(), PlanError> {
        self.txn.delete(Ref::<T>::new(row))?;
        self.deleted.insert(row);
        Ok(())
    }

    /// Counts a row that OVSDB deletes because its last reference is removed.
    pub(super) fn count_deleted(&mut self, row: Uuid) {
        self.deleted.insert(row);
    }

    pub(super) fn hold<T: TableRow>(
        &mut self,
        holders: HolderChanges<'_, T>,
    ) -> Result<(), PlanError> {
        self.changed.extend(holders.uuids());
        holders.build(&mut self.txn)
    }

    /// Returns the transaction with a comment for the server's log, or an empty change.
    pub(super) fn finish(mut self, comment: impl Into<String>) -> Change {
        if self.txn.is_empty() {
            return Change::default();
        }
        self.txn.comment(comment);
        Change {
            transaction: Some(self.txn.finish()),
            counts: Counts {
                inserted: self.inserted,
                changed: self.changed.len(),
                deleted: self.deleted.len(),
            },
            more: false,
        }
    }
}
