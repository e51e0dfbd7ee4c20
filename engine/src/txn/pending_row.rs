//! Pending rows: rows as the collected operations of a transaction leave them.
//!
//! A pending row follows from the row in the snapshot and the transaction's operations on it, in
//! all sections. It is computed on request only, because most rows of large transactions are never
//! read.

use patchbay_schemas::datum::Datum;
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use patchbay_schemas::wire::{ColumnValues, InsertRow, Mutation, Operation};

/// Effect of the sealed operations on one row.
#[derive(Debug, Default)]
pub(super) struct SealedChanges {
    /// Positions of the sealed operations that `values` does not include yet, in order.
    pub(super) places: Vec<usize>,
    /// Values of the columns that earlier operations have changed. They are kept, so that repeated
    /// requests do not read the same operations again.
    values: Vec<(ColumnId, Datum)>,
    /// For each changed column, the position of the first operation that changes it. Operations in
    /// `places` from `noted_places` on are not included yet.
    first_changes: Vec<(ColumnId, usize)>,
    /// Number of elements of `places` that `first_changes` includes.
    noted_places: usize,
}

/// A row as the collected operations leave it.
#[derive(Debug)]
pub(super) struct PendingRow<'a> {
    /// Columns that the open `mutate` operation changes.
    pub(super) mutated: Vec<(ColumnId, Datum)>,
    /// Columns that the open `update` operation sets.
    pub(super) updated: Option<&'a ColumnValues>,
    /// Row of the open `insert` operation.
    pub(super) inserted: Option<&'a InsertRow>,
    /// Columns that sealed operations have changed.
    pub(super) sealed: &'a [(ColumnId, Datum)],
    /// Row of the snapshot. `None`: the transaction inserts the row.
    pub(super) base: Option<&'a Row>,
}

impl<'a> PendingRow<'a> {
    /// Creates a pending row without operations.
    pub(super) fn new(base: Option<&'a Row>) -> Self {
        Self { mutated: Vec::new(), updated: None, inserted: None, sealed: &[], base }
    }

    /// Value of a column. `None`: the transaction inserts the row with the column's default.
    pub(super) fn value(&self, column: ColumnId) -> Option<&Datum> {
        if let Some(mutated) = of_column(&self.mutated, column) {
            return Some(mutated);
        }
        self.updated
            .and_then(|values| of_column(values, column))
            .or_else(|| self.inserted?.value(column))
            .or_else(|| of_column(self.sealed, column))
            .or_else(|| self.base?.values.get(column))
    }

    /// Values of the columns that mutations change, after the mutations.
    ///
    /// # Errors
    /// A mutation failed; the error comes with its column.
    pub(super) fn mutate(
        &self,
        schema: &TableSchema,
        mutations: &[Mutation],
    ) -> Result<Vec<(ColumnId, Datum)>, (ColumnId, OvsdbError)> {
        let mut mutated: Vec<(ColumnId, Datum)> = Vec::new();
        for mutation in mutations {
            let (column, ty) = (mutation.column, schema.column_type(mutation.column));
            let position =
                mutated.iter().position(|(have, _)| *have == column).unwrap_or_else(|| {
                    let value = self.value(column).cloned();
                    mutated.push((column, value.unwrap_or_else(|| ty.default_datum())));
                    mutated.len() - 1
                });
            let applied = mutation.apply(&mut mutated[position].1, ty);
            applied.map_err(|error| (column, error))?;
        }
        Ok(mutated)
    }
}

impl SealedChanges {
    /// Values of the changed columns. Call [`update_values`](Self::update_values) first.
    pub(super) fn values(&self) -> &[(ColumnId, Datum)] {
        &self.values
    }

    /// Position of the first operation that changes a column.
    pub(super) fn first_change(
        &mut self,
        list: &[Option<Operation>],
        column: ColumnId,
    ) -> Option<usize> {
        self.note_first_changes(list);
        let mut changes = self.first_changes.iter();
        let (_, place) = changes.find(|(have, _)| *have == column)?;
        Some(*place)
    }

    fn note_first_changes(&mut self, list: &[Option<Operation>]) {
        for place in self.places.iter().skip(self.noted_places) {
            for column in changed_columns(list, *place) {
                if !self.first_changes.iter().any(|(have, _)| *have == column) {
                    self.first_changes.push((column, *place));
                }
            }
        }
        self.noted_places = self.places.len();
    }

    /// Computes the values of the columns that the sealed operations change.
    ///
    /// # Errors
    /// A mutation failed; the error comes with its column.
    pub(super) fn update_values(
        &mut self,
        schema: &TableSchema,
        list: &[Option<Operation>],
        base: Option<&Row>,
    ) -> Result<(), (ColumnId, OvsdbError)> {
        self.note_first_changes(list);
        self.noted_places = 0;
        let places = std::mem::take(&mut self.places);
        for (done, place) in places.iter().copied().enumerate() {
            let values = match list.get(place) {
                Some(Some(Operation::Insert { row, .. })) => {
                    row.iter().map(|(column, value)| (column, value.clone())).collect()
                }
                Some(Some(Operation::Update { row, .. })) => row.clone(),
                Some(Some(Operation::Mutate { mutations, .. })) => {
                    let pending = PendingRow { sealed: &self.values, ..PendingRow::new(base) };
                    match pending.mutate(schema, mutations) {
                        Ok(values) => values,
                        Err(error) => {
                            self.places = places[done..].to_vec();
                            self.noted_places = self.places.len();
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

/// Columns of an existing row that the operation at a position changes.
pub(super) fn changed_columns(
    list: &[Option<Operation>],
    place: usize,
) -> impl Iterator<Item = ColumnId> {
    let (set, mutated) = match list.get(place) {
        Some(Some(Operation::Update { row, .. })) => (&row[..], &[][..]),
        Some(Some(Operation::Mutate { mutations, .. })) => (&[][..], &mutations[..]),
        _ => (&[][..], &[][..]),
    };
    let set = set.iter().map(|(column, _)| *column);
    set.chain(mutated.iter().map(|mutation: &Mutation| mutation.column))
}
