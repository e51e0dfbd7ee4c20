//! Compares desired rows with existing ones, column by column.

use std::marker::PhantomData;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::PlanError;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::typed::{Ref, TableRow};

/// What a reconcile decides about a column of an existing row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rule {
    /// Nothing: it stays as it is.
    Leave,
    /// It holds what is wanted and nothing else.
    Replace,
}

/// The columns of `T` and what a reconcile decides about them.
#[derive(Debug)]
pub(crate) struct Columns<T> {
    /// For each of `T`'s columns, its place in the database's rows.
    places: Vec<Option<ColumnId>>,
    /// For each of `T`'s columns.
    rules: Vec<Rule>,
    row: PhantomData<fn() -> T>,
}

impl<T: TableRow> Columns<T> {
    /// Rows that are ours: these columns hold what is wanted, others stay as they are.
    pub(super) fn of_our_rows(schema: &DatabaseSchema, columns: &[&str]) -> Self {
        Self::new(schema, |column| {
            if columns.contains(&column) {
                Rule::Replace
            } else {
                Rule::Leave
            }
        })
    }

    /// Rows that are ours, and of which `T` has only what is decided about.
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

    /// Whether an existing row is anything else than it should be.
    pub(crate) fn differ(&self, existing: &Row, wanted: &[Datum]) -> bool {
        (0..wanted.len()).any(|place| match self.have(existing, place) {
            Some(have) => self.merged(place, have, &wanted[place]) != have,
            None => self.rules[place] != Rule::Leave && !is_default(&wanted[place]),
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

    /// What a column should hold that holds `have`.
    fn merged<'d>(&self, place: usize, have: &'d Datum, wanted: &'d Datum) -> &'d Datum {
        match self.rules[place] {
            Rule::Leave => have,
            Rule::Replace => wanted,
        }
    }
}

/// Whether a column that the database lacks can be said to hold this.
fn is_default(datum: &Datum) -> bool {
    datum.is_empty() || datum.as_scalar().is_some_and(Atom::is_default)
}
