//! What must be as it was seen for a transaction to be made.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::{ColumnId, TableId};
use patchbay_schemas::wire::{ColumnValues, Condition, Operation};
use uuid::Uuid;

use super::{BuildError, TxnBuilder};

impl TxnBuilder {
    /// From here on, each column that is changed from what it is in the snapshot must still be that when the transaction
    /// is executed. Otherwise the whole transaction is refused, see [`OpError::is_conflict`], and nobody's change is
    /// lost: compute it anew from a newer snapshot.
    ///
    /// Elements that are added and removed need no guard: such changes do not overwrite each other.
    ///
    /// [`OpError::is_conflict`]: crate::client::OpError::is_conflict
    ///
    /// ```
    /// # use patchbay_engine::db::Database;
    /// # use patchbay_engine::txn::TxnBuilder;
    /// # use patchbay_schemas::nb::{self, LogicalRouter};
    /// # let mut database = Database::new(nb::schema());
    /// # let mut txn = TxnBuilder::new(&database.snapshot());
    /// # let router = txn.insert(&LogicalRouter { name: "lr0".into(), ..Default::default() })?;
    /// # database.transact(txn.finish().operations())?;
    /// let seen = database.snapshot();
    /// let mut ours = TxnBuilder::new(&seen);
    /// ours.guard_changes();
    /// ours.set(router, LogicalRouter::ENABLED, Some(false))?;
    /// let mut others = TxnBuilder::new(&seen);
    /// others.set(router, LogicalRouter::ENABLED, Some(true))?;
    ///
    /// database.transact(others.finish().operations())?;
    /// assert!(database.transact(ours.finish().operations()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guard_changes(&mut self) {
        self.guarding = true;
    }

    /// Makes the whole transaction fail unless columns of a row hold these values when it comes to this point.
    ///
    /// # Errors
    /// The database's schema cannot express a value.
    pub fn expect_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let mut expected = ColumnValues::new();
        for (name, datum) in values {
            expected.extend(self.value(table, self.name(row), name, datum)?);
        }
        if !expected.is_empty() {
            let wait = wait(table, Condition::uuid(row), Some(expected));
            self.operations.push_read(table, row, wait);
        }
        Ok(())
    }

    /// Makes the whole transaction fail if a row satisfies a condition when it comes to this point: to insert a row only
    /// if there is none like it, whatever others do meanwhile.
    ///
    /// # Errors
    /// The database's schema has no such table.
    pub fn expect_no_row(&mut self, table: &str, condition: Condition) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let wait = wait(table, condition, None);
        // Which rows it reads is not known before: what changes them afterwards must come after it.
        let operations = &mut self.operations;
        operations.seal();
        operations.push(wait);
        Ok(())
    }

    /// Makes the whole transaction fail unless a column of a row still holds what the snapshot shows.
    pub(super) fn expect_unchanged(
        &mut self,
        table: TableId,
        row: Uuid,
        column: ColumnId,
    ) -> Result<(), BuildError> {
        let missing = || BuildError::NoRow {
            table: self.snapshot.schema().table(table).name.to_string(),
            row,
        };
        if self.operations.is_deleted(table, row) {
            return Err(missing());
        }
        let existing = self.snapshot.row(table, row).ok_or_else(missing)?;
        let current = existing.get(column).into_owned();
        if self.operations.first_change(table, row, column).is_some() {
            // It is not that any more by now.
            self.wait_before_change(table, row, column, current);
        } else {
            let wait = wait(table, Condition::uuid(row), Some(vec![(column, current)]));
            self.operations.push_read(table, row, wait);
        }
        Ok(())
    }

    /// Lets the transaction fail unless a column still holds what it is changed from.
    pub(super) fn guard(&mut self, table: TableId, row: Uuid, column: ColumnId, current: Datum) {
        // Nobody else changes a row that is new, and a change to one that is gone does nothing.
        let is_own = self.placeholders.contains(&row)
            || self.operations.is_new(table, row)
            || self.operations.is_deleted(table, row);
        if self.guarding && !is_own {
            self.wait_before_change(table, row, column, current);
        }
    }

    /// Waits for the value of a column where the transaction changes it first, now (from `current`) or before (from what
    /// it is in the snapshot): later it holds what the transaction itself has put there.
    fn wait_before_change(&mut self, table: TableId, row: Uuid, column: ColumnId, current: Datum) {
        if !self.guarded.insert((table, row, column)) {
            return;
        }
        let (section, expected) = match self.operations.first_change(table, row, column) {
            None => (self.sections.last_mut(), Some(current)),
            Some(place) => {
                let later = self
                    .sections
                    .partition_point(|section| section.start <= place);
                let existing = self.snapshot.row(table, row);
                let expected = existing.map(|row| row.get(column).into_owned());
                (self.sections.get_mut(later.saturating_sub(1)), expected)
            }
        };
        if let (Some(section), Some(expected)) = (section, expected) {
            let expected = Some(vec![(column, expected)]);
            section
                .guards
                .push(wait(table, Condition::uuid(row), expected));
        }
    }
}

/// Waits not at all, until a row is as expected; without a row, until there is none.
fn wait(table: TableId, condition: Condition, expected: Option<ColumnValues>) -> Operation {
    let columns = expected.iter().flatten().map(|(column, _)| *column);
    Operation::Wait {
        table,
        timeout: Some(0),
        condition,
        columns: columns.collect(),
        equal: true,
        rows: expected.into_iter().collect(),
    }
}
