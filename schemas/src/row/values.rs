//! Values of the columns of a row.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::atom::Atom;
use crate::datum::Datum;
use crate::schema::{ColumnId, Defaults, TableSchema};

/// Values of the columns of a row, by [`ColumnId`].
///
/// Most columns of most rows have their default values. All rows of a table share these, and a row
/// stores only the values that differ. Reading a column costs O(1). Changing a column that has its
/// default costs O(columns).
///
/// ```
/// use patchbay_schemas::datum::Datum;
/// use patchbay_schemas::nb;
/// use patchbay_schemas::row::Values;
///
/// let schema = nb::schema();
/// let (_, table) = schema.table_by_name("Logical_Switch").ok_or("known")?;
/// let name = table.column_id("name").ok_or("known")?;
/// let mut values = Values::new(table, [(name, Datum::scalar("sw0"))]);
/// assert_eq!(values.len(), table.columns.len());
/// assert_eq!(values[name], Datum::scalar("sw0"));
/// values[name] = Datum::scalar("sw1");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct Values {
    /// `None`: the table has no columns.
    defaults: Option<Arc<Defaults>>,
    /// Bitmap of the stored ones among the first [`BITMAP_COLUMNS`] columns.
    marks: u64,
    /// Values of the marked columns, followed by the values of all columns beyond the bitmap.
    stored: Box<[Datum]>,
}

/// Number of columns in the bitmap. Tables with more columns are rare.
const BITMAP_COLUMNS: usize = u64::BITS as usize;

impl Values {
    /// Returns the given values, and defaults for all other columns.
    ///
    /// The last of several values for one column is used. Values for the implicit columns and for
    /// columns that the table lacks are ignored.
    pub fn new(table: &TableSchema, given: impl IntoIterator<Item = (ColumnId, Datum)>) -> Self {
        let mut builder = ValuesBuilder::default();
        for (column, datum) in given {
            builder.set(column, datum);
        }
        builder.finish(table)
    }

    /// Returns the number of columns of the table.
    pub fn len(&self) -> usize {
        self.defaults().len()
    }

    fn defaults(&self) -> &[Datum] {
        self.defaults.as_ref().map_or(&[], |defaults| &defaults.0)
    }

    /// `true` if the table has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a column. `None`: the table lacks the column.
    pub fn get(&self, column: ColumnId) -> Option<&Datum> {
        let default = self.defaults().get(column.index())?;
        match self.stored_index(column) {
            Ok(index) => self.stored.get(index),
            Err(_) => Some(default),
        }
    }

    /// `true` if the row stores no value for a column, so that it is the default.
    ///
    /// False: the value is stored, or the table lacks the column.
    pub(super) fn is_absent(&self, column: ColumnId) -> bool {
        column.index() < self.len() && self.stored_index(column).is_err()
    }

    /// Returns the value of a column for modification. `None`: the table lacks the column.
    pub fn get_mut(&mut self, column: ColumnId) -> Option<&mut Datum> {
        let default = self.defaults.as_ref()?.0.get(column.index())?;
        let index = self.stored_index(column).unwrap_or_else(|index| {
            let mut stored = Vec::with_capacity(self.stored.len() + 1);
            let mut before = std::mem::take(&mut self.stored).into_iter();
            stored.extend(before.by_ref().take(index));
            stored.push(default.clone());
            stored.extend(before);
            self.stored = stored.into();
            self.marks |= mark(column);
            index
        });
        self.stored.get_mut(index)
    }

    /// Iterates over all values in the order of the columns.
    pub fn iter(&self) -> impl Iterator<Item = &Datum> {
        (0..self.len() as u16).map(|column| &self[ColumnId(column)])
    }

    /// Returns the stored values. These are the values that differ, or once differed, from the
    /// defaults, and the values of all columns beyond the bitmap.
    pub(super) fn stored(&self) -> &[Datum] {
        &self.stored
    }

    /// Iterates over the stored values. These are the values that differ, or once differed, from
    /// the defaults, and the values of all columns beyond the bitmap.
    pub fn stored_mut(&mut self) -> impl Iterator<Item = &mut Datum> {
        self.stored.iter_mut()
    }

    /// Shares storage with another version of the row: each equal value becomes a clone of the
    /// value there.
    pub fn share_equal(&mut self, other: &Self) {
        for column in (0..self.len() as u16).map(ColumnId) {
            if let (Ok(index), Some(other)) = (self.stored_index(column), other.get(column))
                && let Some(value) = self.stored.get_mut(index)
                && value == other
            {
                value.clone_from(other);
            }
        }
    }

    /// Returns the index of a column's value in `stored`. `Err`: the value is the default and would
    /// be inserted at this index.
    fn stored_index(&self, column: ColumnId) -> Result<usize, usize> {
        if column.index() >= BITMAP_COLUMNS {
            return Ok(self.marks.count_ones() as usize + column.index() - BITMAP_COLUMNS);
        }
        let mark = mark(column);
        let index = (self.marks & (mark - 1)).count_ones() as usize;
        if self.marks & mark == 0 { Err(index) } else { Ok(index) }
    }
}

/// Values of a row of a table without columns. They cost nothing, so that values can be taken out of
/// many operations by several threads.
impl Default for Values {
    fn default() -> Self {
        Self { defaults: None, marks: 0, stored: Box::default() }
    }
}

impl Index<ColumnId> for Values {
    type Output = Datum;

    /// # Panics
    /// The table lacks the column.
    fn index(&self, column: ColumnId) -> &Datum {
        self.get(column).expect("a column of the table")
    }
}

impl IndexMut<ColumnId> for Values {
    /// # Panics
    /// The table lacks the column.
    fn index_mut(&mut self, column: ColumnId) -> &mut Datum {
        self.get_mut(column).expect("a column of the table")
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        let is_same_table = match (&self.defaults, &other.defaults) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        if self.marks == other.marks && is_same_table {
            self.stored == other.stored
        } else {
            self.iter().eq(other.iter())
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Builds the values of successive rows column by column.
#[derive(Debug, Default)]
pub(crate) struct ValuesBuilder {
    given: Vec<(ColumnId, Datum)>,
}

impl ValuesBuilder {
    /// Returns a builder with space for `capacity` values of the first row.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { given: Vec::with_capacity(capacity) }
    }

    /// Sets the value of a column.
    pub(crate) fn set(&mut self, column: ColumnId, datum: Datum) {
        self.given.push((column, datum));
    }

    /// Returns the values of a row of `table` and begins the next row.
    pub(crate) fn finish(&mut self, table: &TableSchema) -> Values {
        if !self.given.is_sorted_by(|(a, _), (b, _)| a < b) {
            self.given.sort_by_key(|(column, _)| *column);
            self.given.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        let defaults = &table.defaults.0;
        let differs = |(column, datum): &(ColumnId, Datum)| {
            let default = defaults.get(column.index());
            default.is_some_and(|default| !is_zero(datum) || default != datum)
        };
        let marked = self.given.iter().take_while(|(column, _)| column.index() < BITMAP_COLUMNS);
        let marks = marked
            .filter(|given| differs(given))
            .fold(0, |marks, (column, _)| marks | mark(*column));
        let unmarked = BITMAP_COLUMNS..defaults.len();
        let mut stored = Vec::with_capacity(marks.count_ones() as usize + unmarked.len());
        let mut given = self.given.drain(..).peekable();
        while let Some((column, datum)) =
            given.next_if(|(column, _)| column.index() < BITMAP_COLUMNS)
        {
            if marks & mark(column) != 0 {
                stored.push(datum);
            }
        }
        for index in unmarked {
            let value = given.next_if(|(column, _)| column.index() == index);
            stored.push(value.map_or_else(|| defaults[index].clone(), |(_, datum)| datum));
        }
        Values { defaults: Some(table.defaults.clone()), marks, stored: stored.into() }
    }
}

/// `true` if a value is empty, or is a scalar with the default of its type.
///
/// A negative zero is not the default, because it equals zero but is written differently.
fn is_zero(datum: &Datum) -> bool {
    match datum.as_scalar() {
        Some(Atom::Real(real)) => real.0.to_bits() == 0,
        Some(atom) => atom.is_default(),
        None => datum.is_empty(),
    }
}

/// Returns the bit of one of the first [`BITMAP_COLUMNS`] columns.
fn mark(column: ColumnId) -> u64 {
    1 << column.index()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::DatabaseSchema;

    /// Returns a schema with one table of `columns` integer columns.
    fn schema(columns: usize) -> DatabaseSchema {
        let columns: Vec<String> =
            (0..columns).map(|column| format!(r#""c{column:03}":{{"type":"integer"}}"#)).collect();
        let columns = columns.join(",");
        let text = format!(
            r#"{{"name":"D","version":"1.0.0","tables":{{"T":{{"columns":{{{columns}}}}}}}}}"#
        );
        DatabaseSchema::parse(text.as_bytes()).unwrap()
    }

    proptest! {
        #[test]
        fn values_are_the_last_ones_given_or_defaults(
            columns in prop_oneof![1..5_usize, 62..68_usize],
            given in prop::collection::vec((0..70_u16, 0..3_i64), 0..20),
            set in prop::collection::vec((0..70_u16, 0..3_i64), 0..10),
        ) {
            let schema = schema(columns);
            let table = &schema.tables[0];
            let mut model = table.defaults().to_vec();
            let pairs = |pairs: &[(u16, i64)]| -> Vec<(ColumnId, Datum)> {
                pairs.iter().map(|(column, value)| (ColumnId(*column), Datum::scalar(*value))).collect()
            };
            let mut values = Values::new(table, pairs(&given));
            let given = given.iter().chain([&(ColumnId::UUID.0, 1), &(ColumnId::VERSION.0, 1)]).copied();
            let given: Vec<_> = given.collect();
            prop_assert_eq!(&values, &Values::new(table, pairs(&given)));
            for (column, datum) in pairs(&given) {
                if let Some(value) = model.get_mut(column.index()) {
                    *value = datum;
                }
            }
            prop_assert!(values.iter().eq(&model));
            for (column, datum) in pairs(&set) {
                let value = values.get_mut(column);
                prop_assert_eq!(value.is_some(), column.index() < columns);
                if let Some(value) = value {
                    *value = datum.clone();
                    model[column.index()] = datum;
                }
            }
            prop_assert!(values.iter().eq(&model));
            for (column, default) in table.column_ids().zip(table.defaults()) {
                let value = values.get(column);
                prop_assert!(!values.is_absent(column) || value == Some(default));
            }
            prop_assert!(!values.is_absent(ColumnId::UUID));
            let whole = table.column_ids().zip(model.iter().cloned());
            let again = Values::new(table, whole);
            prop_assert_eq!(&again, &values);
            let mut shared = again.clone();
            shared.share_equal(&values);
            prop_assert_eq!(&shared, &values);
            prop_assert_eq!(values.get(ColumnId::UUID), None);
            let taken = std::mem::take(&mut values);
            prop_assert_eq!(taken, again);
            prop_assert!(values.is_empty());
        }
    }

    #[test]
    fn a_negative_zero_keeps_its_sign() {
        let text =
            r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{"c":{"type":"real"}}}}}"#;
        let schema = DatabaseSchema::parse(text.as_bytes()).unwrap();
        let values = Values::new(&schema.tables[0], [(ColumnId(0), Datum::scalar(-0.0))]);
        let is_negative = matches!(values[ColumnId(0)].as_scalar(), Some(Atom::Real(real)) if real.0.is_sign_negative());
        assert!(is_negative);
        assert_eq!(values, Values::new(&schema.tables[0], []));
    }

    #[test]
    fn defaults_are_not_stored() {
        let schema = schema(64);
        let table = &schema.tables[0];
        let given = [(ColumnId(63), Datum::scalar(1)), (ColumnId(7), Datum::scalar(0))];
        assert_eq!(Values::new(table, given).stored.len(), 1);
        assert_eq!(size_of::<Values>(), 32);
    }
}
