//! What a transaction has made of a row so far.
//!
//! It follows from the row in the snapshot and the transaction's operations on it, in whichever section they are, and is
//! worked out only when it is asked for: most rows of large transactions never are.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableId, TableSchema};
use patchbay_schemas::wire::{ColumnValues, InsertRow, Mutation, Operation};
use uuid::Uuid;

use super::merge::Operations;

/// What operations have done to a row that changes cannot join any more.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Their places in order, as far as `values` does not know of them.
    pub(super) places: Vec<usize>,
    /// What columns have become by those before: so whoever asks again and again does not begin anew each time.
    values: Vec<(ColumnId, Datum)>,
    /// Where columns were changed first, but for the places from `noted` on.
    first_changes: Vec<(ColumnId, usize)>,
    noted: usize,
}

/// A row as the transaction has it so far.
#[derive(Debug)]
pub(super) struct SoFar<'a> {
    mutated: Vec<(ColumnId, Datum)>,
    updated: Option<&'a ColumnValues>,
    inserted: Option<&'a InsertRow>,
    earlier: &'a [(ColumnId, Datum)],
    /// The row of the snapshot; none when the transaction inserts the row.
    base: Option<&'a Row>,
}

impl SoFar<'_> {
    /// A column's value; none when it is the default of a row that the transaction inserts.
    pub(super) fn value(&self, column: ColumnId) -> Option<&Datum> {
        if let Some(mutated) = of_column(&self.mutated, column) {
            return Some(mutated);
        }
        self.updated
            .and_then(|values| of_column(values, column))
            .or_else(|| self.inserted?.value(column))
            .or_else(|| of_column(self.earlier, column))
            .or_else(|| self.base?.values.get(column))
    }

    /// What columns become by mutations.
    fn mutate(
        &self,
        schema: &TableSchema,
        mutations: &[Mutation],
    ) -> Result<Vec<(ColumnId, Datum)>, (ColumnId, OvsdbError)> {
        let mut mutated: Vec<(ColumnId, Datum)> = Vec::new();
        for mutation in mutations {
            let (column, ty) = (mutation.column, schema.column_type(mutation.column));
            let known = mutated.iter().position(|(have, _)| *have == column);
            let place = known.unwrap_or_else(|| {
                let value = self.value(column).cloned();
                mutated.push((column, value.unwrap_or_else(|| ty.default_datum())));
                mutated.len() - 1
            });
            let applied = mutation.apply(&mut mutated[place].1, ty);
            applied.map_err(|error| (column, error))?;
        }
        Ok(mutated)
    }
}

impl Operations {
    /// A row as the transaction has it so far, whose snapshot holds it as `base`; none when it is not there.
    ///
    /// # Errors
    /// A change to a column cannot be made.
    pub(super) fn row_so_far<'a>(
        &'a mut self,
        schema: &TableSchema,
        (table, row): (TableId, Uuid),
        base: Option<&'a Row>,
    ) -> Result<Option<SoFar<'a>>, (ColumnId, OvsdbError)> {
        let so_far = |base| SoFar {
            mutated: Vec::new(),
            updated: None,
            inserted: None,
            earlier: &[],
            base,
        };
        let Some(touched) = self.rows.get_mut(&(table, row)) else {
            return Ok(base.map(|base| so_far(Some(base))));
        };
        if touched.deleted || !touched.inserted && base.is_none() {
            return Ok(None);
        }
        let base = base.filter(|_| !touched.inserted);
        if let Some(earlier) = &mut touched.earlier {
            earlier.catch_up(schema, &self.list, base)?;
        }
        let operation = |place: Option<usize>| self.list.get(place?)?.as_ref();
        let mut so_far = so_far(base);
        if let Some(earlier) = &touched.earlier {
            so_far.earlier = &earlier.values;
        }
        if let Some(Operation::Insert { row, .. }) = operation(touched.last.insert) {
            so_far.inserted = Some(row);
        }
        if let Some(Operation::Update { row, .. }) = operation(touched.last.update) {
            so_far.updated = Some(row);
        }
        if let Some(Operation::Mutate { mutations, .. }) = operation(touched.last.mutate) {
            so_far.mutated = so_far.mutate(schema, mutations)?;
        }
        Ok(Some(so_far))
    }

    /// Whether the transaction inserts a row.
    pub(super) fn is_new(&self, table: TableId, row: Uuid) -> bool {
        let touched = self.rows.get(&(table, row));
        touched.is_some_and(|touched| touched.inserted)
    }

    /// Whether the transaction deletes a row that was there.
    pub(super) fn is_deleted(&self, table: TableId, row: Uuid) -> bool {
        let touched = self.rows.get(&(table, row));
        touched.is_some_and(|touched| touched.deleted)
    }

    /// The place of the first operation that changes a column of a row that was there.
    pub(super) fn first_change(
        &mut self,
        table: TableId,
        row: Uuid,
        column: ColumnId,
    ) -> Option<usize> {
        let touched = self.rows.get_mut(&(table, row))?;
        if let Some(earlier) = &mut touched.earlier {
            earlier.note_first_changes(&self.list);
            let mut changes = earlier.first_changes.iter();
            if let Some((_, place)) = changes.find(|(have, _)| *have == column) {
                return Some(*place);
            }
        }
        let mut places = touched.last.iter();
        places.find(|place| columns_changed(&self.list, *place).any(|changed| changed == column))
    }
}

impl Earlier {
    fn note_first_changes(&mut self, list: &[Option<Operation>]) {
        for place in self.places.iter().skip(self.noted) {
            for column in columns_changed(list, *place) {
                if !self.first_changes.iter().any(|(have, _)| *have == column) {
                    self.first_changes.push((column, *place));
                }
            }
        }
        self.noted = self.places.len();
    }

    /// Works out what columns have become.
    fn catch_up(
        &mut self,
        schema: &TableSchema,
        list: &[Option<Operation>],
        base: Option<&Row>,
    ) -> Result<(), (ColumnId, OvsdbError)> {
        self.note_first_changes(list);
        self.noted = 0;
        let places = std::mem::take(&mut self.places);
        for (known, place) in places.iter().copied().enumerate() {
            let values = match list.get(place) {
                Some(Some(Operation::Insert { row, .. })) => row
                    .iter()
                    .map(|(column, value)| (column, value.clone()))
                    .collect(),
                Some(Some(Operation::Update { row, .. })) => row.clone(),
                Some(Some(Operation::Mutate { mutations, .. })) => {
                    let so_far = SoFar {
                        mutated: Vec::new(),
                        updated: None,
                        inserted: None,
                        earlier: &self.values,
                        base,
                    };
                    match so_far.mutate(schema, mutations) {
                        Ok(values) => values,
                        Err(error) => {
                            self.places = places[known..].to_vec();
                            self.noted = self.places.len();
                            return Err(error);
                        }
                    }
                }
                _ => continue,
            };
            for (column, value) in values {
                match self.values.iter_mut().find(|(have, _)| *have == column) {
                    Some((_, have)) => *have = value,
                    None => self.values.push((column, value)),
                }
            }
        }
        Ok(())
    }
}

fn of_column(values: &[(ColumnId, Datum)], column: ColumnId) -> Option<&Datum> {
    let mut values = values.iter();
    let (_, value) = values.find(|(have, _)| *have == column)?;
    Some(value)
}

/// The columns of a row that was there that an operation changes.
fn columns_changed(list: &[Option<Operation>], place: usize) -> impl Iterator<Item = ColumnId> {
    let (set, mutated) = match list.get(place) {
        Some(Some(Operation::Update { row, .. })) => (&row[..], &[][..]),
        Some(Some(Operation::Mutate { mutations, .. })) => (&[][..], &mutations[..]),
        _ => (&[][..], &[][..]),
    };
    let set = set.iter().map(|(column, _)| *column);
    set.chain(mutated.iter().map(|mutation: &Mutation| mutation.column))
}
