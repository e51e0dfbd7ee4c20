//! Repeated changes to one row become one.
//!
//! A row has at most one `insert`, or one `update` and one `mutate`; those two never touch the same column. Operations on
//! different rows do not see each other, constraints are checked at commit: so a change may join an operation on the
//! same row that was collected long before.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema, TableId};
use patchbay_schemas::wire::{ColumnValues, Condition, InsertRow, Mutation, Operation};
use uuid::Uuid;

use patchbay_schemas::error::OvsdbError;

use super::so_far::Earlier;

/// Operations in order, and which of them further changes to a row can join.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// None where an operation turned out to be needless.
    pub(super) list: Vec<Option<Operation>>,
    pub(super) rows: HashMap<(TableId, Uuid), Touched, RandomState>,
    /// Where each table's last insertion is.
    last_inserts: HashMap<TableId, usize, RandomState>,
    /// How often all that was there has been sealed.
    seals: u32,
}

/// A row that operations are about.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// The last operations on the row. Further changes can join them unless they were sealed.
    pub(super) last: Places,
    /// How often all had been sealed before those.
    seals: u32,
    /// Whether the transaction inserts the row.
    pub(super) inserted: bool,
    /// Whether it deletes the row, which it has not inserted.
    pub(super) deleted: bool,
    /// What was before the last operations. Few rows have it.
    pub(super) earlier: Option<Box<Earlier>>,
}

/// The places of a row's operations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) insert: Option<usize>,
    pub(super) update: Option<usize>,
    pub(super) mutate: Option<usize>,
}

impl Places {
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let places = [self.insert, self.update, self.mutate];
        places.into_iter().flatten()
    }
}

impl Touched {
    /// Nothing can join the last operations any more, but what they have made of the row is remembered.
    fn seal(&mut self) {
        let mut last = std::mem::take(&mut self.last).iter().peekable();
        if last.peek().is_some() {
            let earlier = self.earlier.get_or_insert_default();
            earlier.places.extend(last);
        }
    }
}

impl Operations {
    /// How many operations there are.
    pub(super) fn len(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// The place of the next operation.
    pub(super) fn end(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none from a place on.
    pub(super) fn is_empty_from(&self, place: usize) -> bool {
        self.list.iter().skip(place).all(Option::is_none)
    }

    /// The operations by place; none where one turned out to be needless.
    pub(super) fn into_places(self) -> impl Iterator<Item = Option<Operation>> {
        self.list.into_iter()
    }

    /// The row's last operations, if changes can join them.
    fn joinable(&self, table: TableId, row: Uuid) -> Option<Places> {
        let touched = self.rows.get(&(table, row))?;
        (touched.seals == self.seals).then_some(touched.last)
    }

    /// Adds an operation that is about no row in particular, or must stay where it is.
    pub(super) fn push(&mut self, operation: Operation) {
        self.list.push(Some(operation));
    }

    /// Adds an operation that reads a row: what changes the row after it must come after it.
    pub(super) fn push_read(&mut self, table: TableId, row: Uuid, operation: Operation) {
        if let Some(touched) = self.rows.get_mut(&(table, row)) {
            touched.seal();
        }
        self.push(operation);
    }

    /// The row that was inserted last into a table: the next one is probably like it.
    pub(super) fn last_insert(&self, table: TableId) -> Option<&InsertRow> {
        match self.list.get(*self.last_inserts.get(&table)?)? {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => None,
        }
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
        let touched = Touched {
            last: Places {
                insert: Some(place),
                ..Places::default()
            },
            seals: self.seals,
            inserted: true,
            ..Touched::default()
        };
        self.rows.insert((table, uuid), touched);
        self.push(Operation::Insert {
            table,
            uuid,
            given,
            row,
        });
    }

    /// What the transaction inserts a row with, if a change can join that.
    fn inserted(&self, table: TableId, row: Uuid) -> Option<&InsertRow> {
        match self.list.get(self.joinable(table, row)?.insert?)? {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => None,
        }
    }

    /// Whether a change can join the insertion of its row.
    pub(super) fn is_inserted(&self, table: TableId, row: Uuid) -> bool {
        self.inserted(table, row).is_some()
    }

    /// The rows that are inserted into a table from a place on.
    pub(super) fn inserted_from(
        &self,
        table: TableId,
        place: usize,
    ) -> impl Iterator<Item = (Uuid, &InsertRow)> {
        let operations = self.list.iter().skip(place).flatten();
        operations.filter_map(move |operation| match operation {
            Operation::Insert {
                table: into,
                uuid,
                row,
                ..
            } if *into == table => Some((*uuid, row)),
            _ => None,
        })
    }

    /// The value that an operation gives to a column, if a change can join that.
    fn value(&self, table: TableId, row: Uuid, column: ColumnId) -> Option<&Datum> {
        let places = self.joinable(table, row)?;
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

    /// Gives columns of a row these values.
    pub(super) fn set(&mut self, table: TableId, row: Uuid, values: ColumnValues) {
        if values.is_empty() {
            return;
        }
        let places = &mut touch(&mut self.rows, self.seals, (table, row)).last;
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
        self.push(Operation::Update {
            table,
            condition: Condition::uuid(row),
            row: values,
        });
    }

    /// Changes columns of a row relative to what they hold.
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
        let inserted = self.is_inserted(table, row);
        let known = self.value(table, row, column).cloned();
        if let Some(mut value) = known.or_else(|| inserted.then(|| ty.default_datum())) {
            mutation
                .apply(&mut value, ty)
                .map_err(|error| (column, error))?;
            self.set(table, row, vec![(column, value)]);
            return Ok(());
        }
        let places = &mut touch(&mut self.rows, self.seals, (table, row)).last;
        if let Some(place) = places.mutate
            && let Some(Some(Operation::Mutate { mutations, .. })) = self.list.get_mut(place)
        {
            join(mutations, mutation);
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

    /// Deletes a row; what was to change about it is needless. Returns whether the transaction had inserted it: then
    /// there is nothing left to do.
    pub(super) fn delete(&mut self, table: TableId, row: Uuid) -> bool {
        let places = self.joinable(table, row).unwrap_or_default();
        for place in places.iter() {
            self.list[place] = None;
        }
        if places.insert.is_some() {
            self.rows.remove(&(table, row));
            return true;
        }
        let deleted = Touched {
            deleted: true,
            ..Touched::default()
        };
        self.rows.insert((table, row), deleted);
        self.push(Operation::Delete {
            table,
            condition: Condition::uuid(row),
        });
        false
    }

    /// Nothing that comes can join what is there.
    pub(super) fn seal(&mut self) {
        self.seals += 1;
    }
}

/// A row, to change it by operations that join its last ones or come after all.
fn touch(
    rows: &mut HashMap<(TableId, Uuid), Touched, RandomState>,
    seals: u32,
    row: (TableId, Uuid),
) -> &mut Touched {
    let touched = rows.entry(row).or_default();
    if touched.seals != seals {
        touched.seal();
        touched.seals = seals;
    }
    touched
}

/// Adds a mutation to those of the same row. Two that add to, or remove from, one column in a row are one.
fn join(mutations: &mut Vec<Mutation>, mutation: Mutation) {
    use patchbay_schemas::wire::Mutator;
    let last = mutations
        .iter_mut()
        .rev()
        .find(|have| have.column == mutation.column);
    match last {
        Some(last) if last.mutator == mutation.mutator => {
            match (&mut last.argument, &mutation.argument) {
                (Datum::Set(have), Datum::Set(more))
                    if matches!(mutation.mutator, Mutator::Insert | Mutator::Delete) =>
                {
                    have.extend(more);
                }
                // Keys that are there keep their values: so do those that were to be added first.
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
