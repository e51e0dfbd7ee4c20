//! Compares desired rows with existing ones, column by column.

use std::marker::PhantomData;

use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::typed::{Ref, TableRow};

use super::PlanError;

/// The columns of `T` that a reconcile decides about. Other columns of existing rows stay as they are.
#[derive(Debug)]
pub(super) struct Columns<T> {
    /// For each of `T`'s columns, its place in the database's rows.
    places: Vec<Option<ColumnId>>,
    /// For each of `T`'s columns, whether it is decided here.
    decided: Vec<bool>,
    row: PhantomData<fn() -> T>,
}

impl<T: TableRow> Columns<T> {
    pub(super) fn new(schema: &DatabaseSchema, decided: &[&str]) -> Self {
        let table = schema.table_by_name(T::TABLE).map(|(_, table)| table);
        let place = |column: &&'static str| table.and_then(|table| table.column_id(column));
        Self {
            places: T::COLUMNS.iter().map(place).collect(),
            decided: T::COLUMNS
                .iter()
                .map(|column| decided.contains(column))
                .collect(),
            row: PhantomData,
        }
    }

    /// Whether an existing row is anything else than it should be.
    pub(super) fn differ(&self, existing: &Row, wanted: &[Datum]) -> bool {
        let mut columns = self.decided.iter().zip(&self.places).zip(wanted);
        columns.any(|((decided, place), wanted)| {
            let have = place.and_then(|column| existing.values.get(column.index()));
            *decided && have.map_or(!is_default(wanted), |have| have != wanted)
        })
    }

    /// Makes an existing row what it should be. Returns whether there was anything to change.
    pub(super) fn update(
        &self,
        txn: &mut TxnBuilder,
        existing: &Row,
        wanted: &[Datum],
    ) -> Result<bool, PlanError> {
        if !self.differ(existing, wanted) {
            return Ok(false);
        }
        let have = |place: usize| existing.values.get(self.places[place]?.index());
        let current = T::from_data(have)?;
        let merged = T::from_data(|place| {
            if self.decided[place] {
                Some(&wanted[place])
            } else {
                have(place)
            }
        })?;
        Ok(txn.update(Ref::new(existing.uuid), &current, &merged)?)
    }
}

/// Whether a column that the database lacks can be said to hold this.
fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}
