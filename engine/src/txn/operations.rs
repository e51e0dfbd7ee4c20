//! Collected operations: repeated changes to one row are merged.
//!
//! A row has at most one `insert`, or one `update` and one `mutate`, which never change the same
//! column. A change may be merged into an operation on the same row that was collected long before.
//! Operations on different rows do not see each other, and constraints are checked at commit.
//!
//! A sealed operation takes no more changes. Operations are sealed where a later change must come
//! after an operation that reads the row, and where a section of the transaction ends.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId, TableSchema};
use patchbay_schemas::wire::{ColumnValues, Condition, InsertRow, Mutation, Mutator, Operation};
use uuid::Uuid;

use super::pending_row::{PendingRow, SealedChanges, changed_columns};

/// Operations in order, and for each row the operations that take further changes.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// `None`: the operation turned out to be unnecessary.
    list: Vec<Option<Operation>>,
    rows: HashMap<(TableId, Uuid), RowOperations, RandomState>,
    /// Position of the last insertion into each table.
    last_inserts: HashMap<TableId, usize, RandomState>,
    /// Number of calls of [`seal`](Self::seal).
    seals: u32,
}

/// Operations of the transaction on one row.
#[derive(Debug, Default)]
struct RowOperations {
    /// Last operations on the row. They take further changes unless [`Operations::seal`] was called
    /// since.
    open: OperationPlaces,
    /// Value of [`Operations::seals`] when the first of them was collected.
    seals: u32,
    /// `true` if the transaction inserts the row.
    inserted: bool,
    /// `true` if the transaction deletes the row and has not inserted it.
    deleted: bool,
    /// Operations before `open`. Few rows have them.
    sealed: Option<Box<SealedChanges>>,
}

/// Positions of operations on one row in [`Operations::list`].
#[derive(Clone, Copy, Debug, Default)]
struct OperationPlaces {
    insert: Option<usize>,
    update: Option<usize>,
    mutate: Option<usize>,
}

impl OperationPlaces {
    fn iter(self) -> impl Iterator<Item = usize> {
        let places = [self.insert, self.update, self.mutate];
        places.into_iter().flatten()
    }
}

impl RowOperations {
    /// Seals the open operations.
    fn seal(&mut self) {
        let mut open = std::mem::take(&mut self.open).iter().peekable();
        if open.peek().is_some() {
            let sealed = self.sealed.get_or_insert_default();
            sealed.places.extend(open);
        }
    }
}

impl Operations {
    /// Number of operations.
    pub(super) fn len(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// Position of the next operation.
    pub(super) fn end(&self) -> usize {
        self.list.len()
    }

    /// `true` if there are no operations at `place` and after it.
    pub(super) fn is_empty_from(&self, place: usize) -> bool {
        self.list.iter().skip(place).all(Option::is_none)
    }

    /// Operations by position. `None`: the operation turned out to be unnecessary.
    pub(super) fn into_places(self) -> impl Iterator<Item = Option<Operation>> {
        self.list.into_iter()
    }

    /// Open operations of a row; `None` if they were sealed or the row has none.
    fn open_operations(&self, table: TableId, row: Uuid) -> Option<OperationPlaces> {
        let touched = self.rows.get(&(table, row))?;
        (touched.seals == self.seals).then_some(touched.open)
    }

    /// Appends an operation into which no change is merged.
    pub(super) fn push(&mut self, operation: Operation) {
        self.list.push(Some(operation));
    }

    /// Appends an operation that reads a row, and seals the operations on the row before it.
    pub(super) fn push_read(&mut self, table: TableId, row: Uuid, operation: Operation) {
        if let Some(touched) = self.rows.get_mut(&(table, row)) {
            touched.seal();
        }
        self.push(operation);
    }

    /// Row that was inserted last into a table. The next one probably has the same columns.
    pub(super) fn last_insert(&self, table: TableId) -> Option<&InsertRow> {
        match self.list.get(*self.last_inserts.get(&table)?)? {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => None,
        }
    }

    /// Makes room for a number of new rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.rows.reserve(rows);
        self.list.reserve(rows);
    }

    pub(super) fn insert(
        &mut self,
        table: TableId,
        uuid: Uuid,
        given: Option<String>,
        row: InsertRow,
    ) {
        let place = self.list.len();
        self.last_inserts.insert(table, place);
        let touched = RowOperations {
            open: OperationPlaces { insert: Some(place), ..OperationPlaces::default() },
            seals: self.seals,
            inserted: true,
            ..RowOperations::default()
        };
        self.rows.insert((table, uuid), touched);
        self.push(Operation::Insert { table, uuid, given, row });
    }

    /// Row of the open `insert` operation on a row.
    fn open_insert(&self, table: TableId, row: Uuid) -> Option<&InsertRow> {
        match self.list.get(self.open_operations(table, row)?.insert?)? {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => None,
        }
    }

    /// `true` if the row has an open `insert` operation.
    pub(super) fn has_open_insert(&self, table: TableId, row: Uuid) -> bool {
        self.open_insert(table, row).is_some()
    }

    /// Rows that the operations at `place` and after it insert into a table.
    pub(super) fn inserted_from(
        &self,
        table: TableId,
        place: usize,
    ) -> impl Iterator<Item = (Uuid, &InsertRow)> {
        let operations = self.list.iter().skip(place).flatten();
        operations.filter_map(move |operation| match operation {
            Operation::Insert { table: into, uuid, row, .. } if *into == table => {
                Some((*uuid, row))
            }
            _ => None,
        })
    }

    /// Value that an open `insert` or `update` operation gives to a column.
    fn open_value(&self, table: TableId, row: Uuid, column: ColumnId) -> Option<&Datum> {
        let places = self.open_operations(table, row)?;
        let place = places.insert.or(places.update)?;
        match self.list.get(place)? {
            Some(Operation::Insert { row, .. }) => row.get(column),
            Some(Operation::Update { row, .. }) => {
                let (_, value) = row.iter().find(|(have, _)| *have == column)?;
                Some(value)
            }
            _ => None,
        }
    }

    /// Sets columns of a row.
    pub(super) fn set(&mut self, table: TableId, row: Uuid, values: ColumnValues) {
        if values.is_empty() {
            return;
        }
        let places = &mut touch(&mut self.rows, self.seals, (table, row)).open;
        if let Some(place) = places.mutate
            && let Some(Some(Operation::Mutate { mutations, .. })) = self.list.get_mut(place)
        {
            mutations
                .retain(|mutation| values.iter().all(|(column, _)| *column != mutation.column));
            if mutations.is_empty() {
                self.list[place] = None;
                places.mutate = None;
            }
        }
        let place = places.insert.or(places.update);
        match place.and_then(|place| self.list.get_mut(place)?.as_mut()) {
            Some(Operation::Insert { row, .. }) => return row.set(values),
            Some(Operation::Update { row, .. }) => {
                for (column, value) in values {
                    match row.iter_mut().find(|(have, _)| *have == column) {
                        Some((_, have)) => *have = value,
                        None => row.push((column, value)),
                    }
                }
                return;
            }
            _ => {}
        }
        places.update = Some(self.list.len());
        self.push(Operation::Update { table, condition: Condition::uuid(row), row: values });
    }

    /// Changes columns of a row relative to their values.
    ///
    /// # Errors
    /// A mutation of a known value failed; the error comes with its column.
    pub(super) fn mutate(
        &mut self,
        schema: &DatabaseSchema,
        table: TableId,
        row: Uuid,
        mutations: Vec<Mutation>,
    ) -> Result<(), (ColumnId, OvsdbError)> {
        for mutation in mutations {
            self.mutate_one(schema, table, row, mutation)?;
        }
        Ok(())
    }

    fn mutate_one(
        &mut self,
        schema: &DatabaseSchema,
        table: TableId,
        row: Uuid,
        mutation: Mutation,
    ) -> Result<(), (ColumnId, OvsdbError)> {
        let column = mutation.column;
        let ty = schema.table(table).column_type(column);
        let is_new = self.has_open_insert(table, row);
        let known = self.open_value(table, row, column).cloned();
        if let Some(mut value) = known.or_else(|| is_new.then(|| ty.default_datum())) {
            mutation.apply(&mut value, ty).map_err(|error| (column, error))?;
            self.set(table, row, vec![(column, value)]);
            return Ok(());
        }
        let places = &mut touch(&mut self.rows, self.seals, (table, row)).open;
        if let Some(place) = places.mutate
            && let Some(Some(Operation::Mutate { mutations, .. })) = self.list.get_mut(place)
        {
            merge_mutation(mutations, mutation);
            return Ok(());
        }
        places.mutate = Some(self.list.len());
        self.push(Operation::Mutate {
            table,
            condition: Condition::uuid(row),
            mutations: vec![mutation],
        });
        Ok(())
    }

    /// Deletes a row and removes its open operations. Returns `true` if the open operations
    /// included the insertion of the row, so that no `delete` operation is necessary.
    pub(super) fn delete(&mut self, table: TableId, row: Uuid) -> bool {
        let places = self.open_operations(table, row).unwrap_or_default();
        for place in places.iter() {
            self.list[place] = None;
        }
        if places.insert.is_some() {
            self.rows.remove(&(table, row));
            return true;
        }
        let deleted = RowOperations { deleted: true, ..RowOperations::default() };
        self.rows.insert((table, row), deleted);
        self.push(Operation::Delete { table, condition: Condition::uuid(row) });
        false
    }

    /// Seals all operations.
    pub(super) fn seal(&mut self) {
        self.seals += 1;
    }

    /// A row as the operations leave it. `base` is the row of the snapshot. Returns `None` if the
    /// row does not exist.
    ///
    /// # Errors
    /// A mutation failed; the error comes with its column.
    pub(super) fn pending_row<'a>(
        &'a mut self,
        schema: &TableSchema,
        (table, row): (TableId, Uuid),
        base: Option<&'a Row>,
    ) -> Result<Option<PendingRow<'a>>, (ColumnId, OvsdbError)> {
        let Some(touched) = self.rows.get_mut(&(table, row)) else {
            return Ok(base.map(|base| PendingRow::new(Some(base))));
        };
        if touched.deleted || !touched.inserted && base.is_none() {
            return Ok(None);
        }
        let base = base.filter(|_| !touched.inserted);
        if let Some(sealed) = &mut touched.sealed {
            sealed.update_values(schema, &self.list, base)?;
        }
        let operation = |place: Option<usize>| self.list.get(place?)?.as_ref();
        let mut pending = PendingRow::new(base);
        if let Some(sealed) = &touched.sealed {
            pending.sealed = sealed.values();
        }
        if let Some(Operation::Insert { row, .. }) = operation(touched.open.insert) {
            pending.inserted = Some(row);
        }
        if let Some(Operation::Update { row, .. }) = operation(touched.open.update) {
            pending.updated = Some(row);
        }
        if let Some(Operation::Mutate { mutations, .. }) = operation(touched.open.mutate) {
            pending.mutated = pending.mutate(schema, mutations)?;
        }
        Ok(Some(pending))
    }

    /// `true` if the transaction inserts a row.
    pub(super) fn is_new(&self, table: TableId, row: Uuid) -> bool {
        let touched = self.rows.get(&(table, row));
        touched.is_some_and(|touched| touched.inserted)
    }

    /// `true` if the transaction deletes an existing row.
    pub(super) fn is_deleted(&self, table: TableId, row: Uuid) -> bool {
        let touched = self.rows.get(&(table, row));
        touched.is_some_and(|touched| touched.deleted)
    }

    /// Position of the first operation that changes a column of an existing row.
    pub(super) fn first_change(
        &mut self,
        table: TableId,
        row: Uuid,
        column: ColumnId,
    ) -> Option<usize> {
        let touched = self.rows.get_mut(&(table, row))?;
        if let Some(sealed) = &mut touched.sealed
            && let Some(place) = sealed.first_change(&self.list, column)
        {
            return Some(place);
        }
        let mut places = touched.open.iter();
        places.find(|place| changed_columns(&self.list, *place).any(|changed| changed == column))
    }
}

/// Entry of a row whose open operations may take a change.
fn touch(
    rows: &mut HashMap<(TableId, Uuid), RowOperations, RandomState>,
    seals: u32,
    row: (TableId, Uuid),
) -> &mut RowOperations {
    let touched = rows.entry(row).or_default();
    if touched.seals != seals {
        touched.seal();
        touched.seals = seals;
    }
    touched
}

/// Adds a mutation to those of the same row. Consecutive insertions into one column, or deletions
/// from it, are merged.
fn merge_mutation(mutations: &mut Vec<Mutation>, mutation: Mutation) {
    let last = mutations.iter_mut().rev().find(|have| have.column == mutation.column);
    match last {
        Some(last) if last.mutator == mutation.mutator => {
            match (&mut last.argument, &mutation.argument) {
                (Datum::Set(have), Datum::Set(more))
                    if matches!(mutation.mutator, Mutator::Insert | Mutator::Delete) =>
                {
                    have.extend(more);
                }
                // `insert` keeps the values of existing keys, so the first insertion of a key wins.
                (Datum::Map(have), Datum::Map(more)) if mutation.mutator == Mutator::Insert => {
                    for (key, value) in more {
                        if have.get(key).is_none() {
                            have.insert(key.clone(), value.clone());
                        }
                    }
                }
                _ => mutations.push(mutation),
            }
        }
        _ => mutations.push(mutation),
    }
}
