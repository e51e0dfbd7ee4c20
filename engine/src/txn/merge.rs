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

/// Operations in order, and which of them further changes to a row can join.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// None where an operation turned out to be needless.
    list: Vec<Option<Operation>>,
    rows: HashMap<(TableId, Uuid), Places, RandomState>,
    /// Where each table's last insertion is.
    last_inserts: HashMap<TableId, usize, RandomState>,
}

/// The places of a row's operations.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    insert: Option<usize>,
    update: Option<usize>,
    mutate: Option<usize>,
}

impl Operations {
    /// How many operations there are.
    pub(super) fn len(&self) -> usize {
        self.list.iter().flatten().count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }

    pub(super) fn into_list(self) -> impl Iterator<Item = Operation> {
        self.list.into_iter().flatten()
    }

    /// Adds an operation that is about no row in particular, or must stay where it is.
    pub(super) fn push(&mut self, operation: Operation) {
        self.list.push(Some(operation));
    }

    /// Adds an operation that reads a row: what changes the row after it must come after it.
    pub(super) fn push_read(&mut self, table: TableId, row: Uuid, operation: Operation) {
        self.rows.remove(&(table, row));
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
        let insert = Some(place);
        self.rows.insert(
            (table, uuid),
            Places {
                insert,
                ..Places::default()
            },
        );
        self.push(Operation::Insert {
            table,
            uuid,
            given,
            row,
        });
    }

    /// What the transaction inserts a row with, if it does and nothing but that has happened to the row.
    pub(super) fn inserted(&self, table: TableId, row: Uuid) -> Option<&InsertRow> {
        let place = self.rows.get(&(table, row))?.insert?;
        match self.list.get(place)? {
            Some(Operation::Insert { row, .. }) => Some(row),
            _ => None,
        }
    }

    /// Whether a change can join the insertion of its row.
    pub(super) fn is_inserted(&self, table: TableId, row: Uuid) -> bool {
        self.inserted(table, row).is_some()
    }

    /// The value that the transaction has given to a column so far, where that is known.
    pub(super) fn value(&self, table: TableId, row: Uuid, column: ColumnId) -> Option<&Datum> {
        let places = self.rows.get(&(table, row))?;
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
        let places = self.rows.entry((table, row)).or_default();
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
        let places = self.rows.entry((table, row)).or_default();
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
        let places = self.rows.remove(&(table, row)).unwrap_or_default();
        for place in [places.insert, places.update, places.mutate]
            .into_iter()
            .flatten()
        {
            self.list[place] = None;
        }
        if places.insert.is_some() {
            return true;
        }
        self.push(Operation::Delete {
            table,
            condition: Condition::uuid(row),
        });
        false
    }

    /// Nothing that comes can join what is there.
    pub(super) fn seal(&mut self) {
        self.rows.clear();
    }
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
