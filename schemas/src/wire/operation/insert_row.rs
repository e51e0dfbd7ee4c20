//! Row of an `insert` operation.

use std::sync::Arc;

use crate::datum::Datum;
use crate::row::{Values, ValuesBuilder};
use crate::schema::{ColumnId, TableSchema};

use super::ColumnValues;

/// Row to be inserted: a value for each column of its table, and the list of columns with explicit
/// values.
///
/// All other columns have their defaults.
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
    /// Values of all columns.
    values: Values,
    /// Columns with explicit values, without duplicates, in the order of the operation. Similar
    /// rows share the list. `None`: the values have been taken.
    given: Option<Arc<[ColumnId]>>,
}

impl InsertRow {
    /// Returns a row with explicit values for some columns.
    ///
    /// The last of several values for one column is used. Values for `_uuid` and `_version` are
    /// ignored.
    pub fn new(table: &TableSchema, values: impl IntoIterator<Item = (ColumnId, Datum)>) -> Self {
        Self::with_template(table, values, None)
    }

    /// Like [`new`](Self::new), sharing the list of columns with `template`.
    ///
    /// The template is a row of the same table that probably has the same columns in the same
    /// order.
    pub fn with_template(
        table: &TableSchema,
        values: impl IntoIterator<Item = (ColumnId, Datum)>,
        template: Option<&Self>,
    ) -> Self {
        let mut row = InsertRowBuilder::new(table, template);
        for (column, datum) in values {
            row.set(column, datum);
        }
        row.finish()
    }

    /// Returns a row with explicit values for all columns.
    pub fn from_values(values: &Values) -> Self {
        Self {
            values: values.clone(),
            given: Some((0..).take(values.len()).map(ColumnId).collect()),
        }
    }

    /// Returns the value of a column, explicit or default. `None`: the table lacks the column.
    pub fn value(&self, column: ColumnId) -> Option<&Datum> {
        self.values.get(column)
    }

    /// Returns the explicit value of a column. `None`: the column has its default, or the table
    /// lacks it.
    pub fn get(&self, column: ColumnId) -> Option<&Datum> {
        self.value(column).filter(|_| self.given().contains(&column))
    }

    /// Returns the columns with explicit values.
    fn given(&self) -> &[ColumnId] {
        self.given.as_deref().unwrap_or_default()
    }

    /// Iterates over the columns with explicit values.
    pub fn iter(&self) -> impl Iterator<Item = (ColumnId, &Datum)> {
        let value = |column: &ColumnId| (*column, &self.values[*column]);
        self.given().iter().map(value)
    }

    /// Iterates over the [stored](Values::stored_mut) values, which include all that differ from the
    /// defaults.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Datum> {
        self.values.stored_mut()
    }

    /// Sets explicit values.
    pub fn set(&mut self, values: ColumnValues) {
        let mut given = None;
        for (column, datum) in values {
            if let Some(value) = self.values.get_mut(column) {
                *value = datum;
                let given = given.get_or_insert_with(|| self.given().to_vec());
                if !given.contains(&column) {
                    given.push(column);
                }
            }
        }
        if let Some(given) = given.filter(|given| given.len() > self.given().len()) {
            self.given = Some(given.into());
        }
    }

    /// `true` if both rows share one list of columns.
    pub(super) fn shares_columns_with(&self, other: &Self) -> bool {
        let lists = self.given.as_ref().zip(other.given.as_ref());
        lists.is_some_and(|(own, other)| Arc::ptr_eq(own, other))
    }

    /// Returns the values of all columns.
    pub fn into_values(self) -> Values {
        self.values
    }

    /// Takes the values of all columns and leaves a row without columns.
    pub fn take_values(&mut self) -> Values {
        self.given = None;
        std::mem::take(&mut self.values)
    }
}

/// Builder of a row, column by column.
#[derive(Debug)]
pub(super) struct InsertRowBuilder<'l> {
    table: &'l TableSchema,
    values: ValuesBuilder,
    template: Option<&'l InsertRow>,
    /// Index of the expected column in the list of the template.
    next: usize,
    /// Columns so far. `None`: they are the first `next` columns of the template.
    given: Option<Vec<ColumnId>>,
}

impl<'l> InsertRowBuilder<'l> {
    /// Returns a builder of a row that probably has the columns of `template`, in the same order.
    pub(super) fn new(table: &'l TableSchema, template: Option<&'l InsertRow>) -> Self {
        Self {
            table,
            values: ValuesBuilder::with_capacity(template.map_or(0, |row| row.given().len())),
            template,
            next: 0,
            given: None,
        }
    }

    /// Returns the column that probably follows.
    pub(super) fn expected(&self) -> Option<ColumnId> {
        self.template?.given().get(self.next).copied()
    }

    /// Returns the value of a column in the template.
    pub(super) fn template_value(&self, column: ColumnId) -> Option<&'l Datum> {
        self.template?.value(column)
    }

    /// Sets the value of a column.
    pub(super) fn set(&mut self, column: ColumnId, datum: Datum) {
        if column.index() >= self.table.columns.len() {
            return;
        }
        self.values.set(column, datum);
        let expected = self.template.map_or(&[][..], InsertRow::given);
        let is_expected = expected.get(self.next) == Some(&column);
        if !is_expected && self.given.is_none() {
            self.given = Some(expected[..self.next].to_vec());
        }
        if let Some(given) = &mut self.given
            && !given.contains(&column)
        {
            given.push(column);
        }
        if is_expected {
            self.next += 1;
        } else if let Some(index) = expected.iter().position(|other| *other == column) {
            self.next = index + 1;
        }
    }

    /// Returns the row.
    pub(super) fn finish(mut self) -> InsertRow {
        let expected = self.template.map_or(&[][..], InsertRow::given);
        let shared = self.template.and_then(|row| row.given.clone());
        let given = match (self.given, shared) {
            (Some(given), _) => given.into(),
            (None, Some(shared)) if shared.len() == self.next => shared,
            (None, _) => expected[..self.next].into(),
        };
        InsertRow { values: self.values.finish(self.table), given: Some(given) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nb;

    #[test]
    fn the_template_does_not_change_the_result() {
        let schema = nb::schema();
        let (_, table) = schema.table_by_name("Logical_Router_Port").unwrap();
        let (name, mac) = (table.column_id("name").unwrap(), table.column_id("mac").unwrap());
        let values = |columns: &[ColumnId]| -> ColumnValues {
            let value = |(i, column): (usize, &ColumnId)| (*column, Datum::scalar(i.to_string()));
            columns.iter().enumerate().map(value).collect()
        };
        let template = InsertRow::new(table, values(&[name, mac]));
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
            let mut builder = InsertRowBuilder::new(table, Some(&template));
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
        let shared = InsertRowBuilder::new(table, Some(&template));
        assert_eq!(shared.expected(), Some(name));
    }
}
