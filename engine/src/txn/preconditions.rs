//! Preconditions: `wait` operations that make a transaction fail if the database has changed.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::{ColumnId, TableId};
use patchbay_schemas::wire::{ColumnValues, Condition, Operation};
use uuid::Uuid;

use super::builder::TxnBuilder;
use super::error::BuildError;

impl TxnBuilder {
    /// Guards all later changes, so that the transaction overwrites no change of another client.
    ///
    /// Each column that the transaction sets must still have its value of the snapshot when the
    /// transaction is executed. Otherwise the transaction fails, see [`OpError::is_conflict`].
    /// Build it again from a newer snapshot then.
    ///
    /// Additions and removals of elements need no guard, because they do not overwrite each other.
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
    /// let mut guarded = TxnBuilder::new(&seen);
    /// guarded.guard_changes();
    /// guarded.set(router, LogicalRouter::ENABLED, Some(false))?;
    /// let mut other = TxnBuilder::new(&seen);
    /// other.set(router, LogicalRouter::ENABLED, Some(true))?;
    ///
    /// database.transact(other.finish().operations())?;
    /// assert!(database.transact(guarded.finish().operations()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guard_changes(&mut self) {
        self.guards_changes = true;
    }

    /// Makes the transaction fail unless columns of a row have these values at this point.
    ///
    /// # Errors
    /// The schema lacks the table or a column with a value, or its type does not allow a value.
    pub fn expect_row<'a>(
        &mut self,
        table: &str,
        row: Uuid,
        values: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let expected = self.column_values(table, row, values)?;
        if !expected.is_empty() {
            let wait = wait_operation(table, Condition::uuid(row), Some(expected));
            self.operations.push_read(table, row, wait);
        }
        Ok(())
    }

    /// Makes the transaction fail if a row of a table matches a condition at this point.
    ///
    /// Use it to insert a row only if no other client has inserted one like it.
    ///
    /// # Errors
    /// The schema lacks the table.
    pub fn expect_no_row(&mut self, table: &str, condition: Condition) -> Result<(), BuildError> {
        let table = self.table(table)?;
        let wait = wait_operation(table, condition, None);
        // The condition may read any row, so later changes of all rows must come after it.
        let operations = &mut self.operations;
        operations.seal();
        operations.push(wait);
        Ok(())
    }

    /// Makes the transaction fail unless a column of a row still has its value of the snapshot.
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
            // At this point the transaction itself has changed the column.
            self.wait_before_change(table, row, column, current);
        } else {
            let wait = wait_operation(table, Condition::uuid(row), Some(vec![(column, current)]));
            self.operations.push_read(table, row, wait);
        }
        Ok(())
    }

    /// Guards a change: makes the transaction fail unless the column still has the value `current`.
    pub(super) fn guard(&mut self, table: TableId, row: Uuid, column: ColumnId, current: Datum) {
        // Other clients cannot change a new row, and a change to a deleted row has no effect.
        let needs_no_guard = self.placeholders.contains(&row)
            || self.operations.is_new(table, row)
            || self.operations.is_deleted(table, row);
        if self.guards_changes && !needs_no_guard {
            self.wait_before_change(table, row, column, current);
        }
    }

    /// Adds a guard to the section in which the transaction changes the column first, because later
    /// the column has a value from the transaction itself.
    ///
    /// If the column is changed now for the first time, the guard expects `current`. Otherwise it
    /// expects the value of the snapshot.
    fn wait_before_change(&mut self, table: TableId, row: Uuid, column: ColumnId, current: Datum) {
        if !self.guarded_columns.insert((table, row, column)) {
            return;
        }
        let (section, expected) = match self.operations.first_change(table, row, column) {
            None => (self.sections.last_mut(), Some(current)),
            Some(place) => {
                let later = self.sections.partition_point(|section| section.start <= place);
                let existing = self.snapshot.row(table, row);
                let expected = existing.map(|row| row.get(column).into_owned());
                (self.sections.get_mut(later.saturating_sub(1)), expected)
            }
        };
        if let (Some(section), Some(expected)) = (section, expected) {
            let expected = Some(vec![(column, expected)]);
            section.guards.push(wait_operation(table, Condition::uuid(row), expected));
        }
    }
}

/// A `wait` operation without time-out: the matching row must have the expected values. `None`: no
/// row may match.
fn wait_operation(
    table: TableId,
    condition: Condition,
    expected: Option<ColumnValues>,
) -> Operation {
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
