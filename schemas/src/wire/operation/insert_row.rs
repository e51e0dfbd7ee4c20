//! The row that an `insert` adds.

use std::sync::Arc;

use crate::datum::Datum;
use crate::row::{Values, ValuesBuilder};
use crate::schema::{ColumnId, TableSchema};

use super::ColumnValues;

/// A new row: a value for each column of its table, and which of the columns were given one. The others have their
/// defaults.
///
/// ```
/// use patchbay_schemas::datum::Datum;
/// use patchbay_schemas::nb;
/// use patchbay_schemas::wire::InsertRow;
///
/// let schema = nb::schema();
/// let (_, table) = schema.table_by_name("Logical_Switch").ok_or("known")?;
/// let name = table.column_id("name").ok_or("known")?;
/// let row = InsertRow::new(table, vec![(name, Datum::scalar("sw0"))]);
/// assert_eq!(row.iter().count(), 1);
/// assert_eq!(row.into_values().len(), table.columns.len());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct InsertRow {
    /// By [`ColumnId`].
    values: Values,
    /// Each once, in the order in which they were given. Rows of one kind share the list.
    given: Arc<[ColumnId]>,
}

impl InsertRow {
    /// A row of a table with values for some columns; of several for one column the last counts. `_uuid` and `_version`
    /// are no columns that could be given.
    pub fn new(table: &TableSchema, values: impl IntoIterator<Item = (ColumnId, Datum)>) -> Self {
        Self::like(table, values, None)
    }

    /// The same of a row that is probably like another one of the table: of the same columns, in the same order. It
    /// shares the list of them.
    pub fn like(
        table: &TableSchema,
        values: impl IntoIterator<Item = (ColumnId, Datum)>,
        like: Option<&Self>,
    ) -> Self {
        let mut row = InsertRowBuilder::new(table, like);
        for (column, datum) in values {
            row.set(column, datum);
        }
        row.finish()
    }

    /// A row with all columns of its table.
    pub fn whole(values: &Values) -> Self {
        Self {
            values: values.clone(),
            given: (0..).take(values.len()).map(ColumnId).collect(),
        }
    }

    /// The value of a column, which may be its default.
    pub fn value(&self, column: ColumnId) -> Option<&Datum> {
        self.values.get(column)
    }

    /// The value of a column that was given one.
    pub fn get(&self, column: ColumnId) -> Option<&Datum> {
        self.value(column).filter(|_| self.given.contains(&column))
    }

    /// The columns that were given values, with these.
    pub fn iter(&self) -> impl Iterator<Item = (ColumnId, &Datum)> {
        let value = |column: &ColumnId| (*column, &self.values[*column]);
        self.given.iter().map(value)
    }

    /// The values that differ from the defaults, to be replaced by others.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Datum> {
        self.values.stored_mut()
    }

    /// Gives columns values.
    pub fn set(&mut self, values: ColumnValues) {
        let mut given = None;
        for (column, datum) in values {
            if let Some(value) = self.values.get_mut(column) {
                *value = datum;
                let given = given.get_or_insert_with(|| self.given.to_vec());
                if !given.contains(&column) {
                    given.push(column);
                }
            }
        }
        if let Some(given) = given.filter(|given| given.len() > self.given.len()) {
            self.given = given.into();
        }
    }

    /// A value for each column of the table.
    pub fn into_values(self) -> Values {
        self.values
    }

    /// The same of a row that is not needed any more, and stays behind without columns.
    pub fn take_values(&mut self) -> Values {
        self.given = Arc::default();
        std::mem::take(&mut self.values)
    }
}

/// Puts a row together column by column.
#[derive(Debug)]
pub(super) struct InsertRowBuilder<'l> {
    table: &'l TableSchema,
    values: ValuesBuilder,
    like: Option<&'l InsertRow>,
    /// Which of the other row's columns is expected next.
    place: usize,
    /// The columns that were given, once they are not the first of the other row's.
    given: Option<Vec<ColumnId>>,
}

impl<'l> InsertRowBuilder<'l> {
    /// A row that is probably like another one of the same table: of the same columns, in the same order.
    pub(super) fn new(table: &'l TableSchema, like: Option<&'l InsertRow>) -> Self {
        Self {
            table,
            values: ValuesBuilder::with_capacity(like.map_or(0, |like| like.given.len())),
            like,
            place: 0,
            given: None,
        }
    }

    /// The next column, if the row is like the other one.
    pub(super) fn expected(&self) -> Option<ColumnId> {
        self.like?.given.get(self.place).copied()
    }

    /// What the value of a column may be like.
    pub(super) fn likely(&self, column: ColumnId) -> Option<&'l Datum> {
        self.like?.value(column)
    }

    /// Gives a column its value.
    pub(super) fn set(&mut self, column: ColumnId, datum: Datum) {
        if column.index() >= self.table.columns.len() {
            return;
        }
        self.values.set(column, datum);
        let likely = self.like.map_or(&[][..], |like| &like.given);
        let is_expected = likely.get(self.place) == Some(&column);
        if !is_expected && self.given.is_none() {
            self.given = Some(likely[..self.place].to_vec());
        }
        if let Some(given) = &mut self.given
            && !given.contains(&column)
        {
            given.push(column);
        }
        if is_expected {
            self.place += 1;
        } else if let Some(place) = likely.iter().position(|likely| *likely == column) {
            self.place = place + 1;
        }
    }

    pub(super) fn finish(mut self) -> InsertRow {
        let given = match (self.given, self.like) {
            (Some(given), _) => given.into(),
            (None, Some(like)) if like.given.len() == self.place => like.given.clone(),
            (None, like) => like.map_or_else(Arc::default, |like| like.given[..self.place].into()),
        };
        InsertRow {
            values: self.values.finish(self.table),
            given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nb;

    #[test]
    fn a_row_like_another_is_what_it_is_by_itself() {
        let schema = nb::schema();
        let (_, table) = schema.table_by_name("Logical_Router_Port").unwrap();
        let (name, mac) = (
            table.column_id("name").unwrap(),
            table.column_id("mac").unwrap(),
        );
        let values = |columns: &[ColumnId]| -> ColumnValues {
            let value = |(i, column): (usize, &ColumnId)| (*column, Datum::scalar(i.to_string()));
            columns.iter().enumerate().map(value).collect()
        };
        let like = InsertRow::new(table, values(&[name, mac]));
        for columns in [
            &[][..],
            &[name],
            &[mac],
            &[name, mac],
            &[mac, name],
            &[name, name],
            &[name, mac, name],
            &[name, ColumnId::UUID, mac],
        ] {
            let alone = InsertRow::new(table, values(columns));
            let mut builder = InsertRowBuilder::new(table, Some(&like));
            let mut set = InsertRow::new(table, []);
            for (column, datum) in values(columns) {
                builder.set(column, datum.clone());
                set.set(vec![(column, datum)]);
            }
            assert_eq!(builder.finish(), alone);
            assert_eq!(set, alone);
            let mut given: Vec<ColumnId> = columns.to_vec();
            given.retain(|column| *column != ColumnId::UUID);
            given.sort_unstable();
            given.dedup();
            assert_eq!(alone.iter().count(), given.len());
            assert_eq!(alone.get(mac).is_some(), given.contains(&mac));
        }
        let shared = InsertRowBuilder::new(table, Some(&like));
        assert_eq!(shared.expected(), Some(name));
    }
}
