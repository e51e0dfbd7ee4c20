//! Compares desired rows with existing ones, column by column.

use std::marker::PhantomData;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::PlanError;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::typed::{Ref, TableRow};

/// Rule for a column of an existing row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rule {
    /// Unmanaged: the value is left unchanged.
    Leave,
    /// Managed: the value is replaced by the wanted value.
    Replace,
}

/// Columns of `T` with their rules.
#[derive(Debug)]
pub(crate) struct Columns<T> {
    /// Column ids in the database. `None`: the schema lacks the column.
    places: Vec<Option<ColumnId>>,
    /// Rules, in the order of `T::COLUMNS`.
    rules: Vec<Rule>,
    row: PhantomData<fn() -> T>,
}

impl<T: TableRow> Columns<T> {
    /// Owned rows with managed columns `columns`; others are left unchanged.
    pub(super) fn of_owned_rows(schema: &DatabaseSchema, columns: &[&str]) -> Self {
        Self::new(schema, |column| {
            if columns.contains(&column) {
                Rule::Replace
            } else {
                Rule::Leave
            }
        })
    }

    /// Owned rows of a type that has only managed columns.
    pub(super) fn of_whole_rows(schema: &DatabaseSchema) -> Self {
        Self::new(schema, |_| Rule::Replace)
    }

    fn new(schema: &DatabaseSchema, rule: impl Fn(&str) -> Rule) -> Self {
        let table = schema.table_by_name(T::TABLE).map(|(_, table)| table);
        let place = |column: &&'static str| table.and_then(|table| table.column_id(column));
        Self {
            places: T::COLUMNS.iter().map(place).collect(),
            rules: T::COLUMNS.iter().map(|column| rule(column)).collect(),
            row: PhantomData,
        }
    }

    /// True if a managed column of an existing row differs from the wanted value.
    pub(crate) fn differ(&self, existing: &Row, wanted: &[Datum]) -> bool {
        (0..wanted.len()).any(|place| match self.have(existing, place) {
            Some(have) => self.merged(place, have, &wanted[place]) != have,
            None => self.rules[place] != Rule::Leave && !is_default(&wanted[place]),
        })
    }

    /// Updates the differing columns of an existing row. Returns `true` if there were any.
    pub(super) fn update(
        &self,
        txn: &mut TxnBuilder,
        existing: &Row,
        wanted: &[Datum],
    ) -> Result<bool, PlanError> {
        if !self.differ(existing, wanted) {
            return Ok(false);
        }
        let current = T::from_data(|place| self.have(existing, place))?;
        let merged = T::from_data(|place| {
            let wanted = wanted.get(place)?;
            Some(match self.have(existing, place) {
                Some(have) => self.merged(place, have, wanted),
                None => wanted,
            })
        })?;
        Ok(txn.update(Ref::new(existing.uuid), &current, &merged)?)
    }

    fn have<'r>(&self, row: &'r Row, place: usize) -> Option<&'r Datum> {
        row.values.get(self.places[place]?)
    }

    /// Value that a column with value `have` must have.
    fn merged<'d>(&self, place: usize, have: &'d Datum, wanted: &'d Datum) -> &'d Datum {
        match self.rules[place] {
            Rule::Leave => have,
            Rule::Replace => wanted,
        }
    }
}

/// True for the default value, which a column missing from the schema is treated as having.
fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}
