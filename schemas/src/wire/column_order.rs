//! Servers write the columns of rows in one order.

use crate::schema::ColumnId;

/// The order in which the rows of a table name their columns, as far as it is known: that of one row is a part of it,
/// most of the time.
#[derive(Debug, Default)]
pub(super) struct ColumnOrder {
    columns: Vec<ColumnId>,
    /// Where in it the row is.
    place: usize,
}

impl ColumnOrder {
    /// The next row begins.
    pub(super) fn begin_row(&mut self) {
        self.place = 0;
    }

    /// What the row probably names next.
    pub(super) fn expected(&self) -> Option<ColumnId> {
        self.columns.get(self.place).copied()
    }

    /// The row has named a column.
    pub(super) fn came(&mut self, column: ColumnId) {
        if self.expected() != Some(column) {
            match self.columns.iter().position(|have| *have == column) {
                Some(place) => self.place = place,
                None => self.columns.insert(self.place, column),
            }
        }
        self.place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_some_rows_lack_are_learnt_and_passed_over() {
        let mut order = ColumnOrder::default();
        let mut right = |row: &[u16]| {
            order.begin_row();
            let mut right = 0;
            for column in row {
                right += usize::from(order.expected() == Some(ColumnId(*column)));
                order.came(ColumnId(*column));
            }
            right
        };
        assert_eq!(right(&[3, 1, 5]), 0);
        assert_eq!(right(&[3, 1, 5]), 3);
        assert_eq!(right(&[3, 5]), 1);
        assert_eq!(right(&[3, 2, 1, 5]), 3);
        assert_eq!(right(&[3, 2, 1, 5]), 4);
        assert_eq!(right(&[1, 5, 7]), 1);
        assert_eq!(right(&[3, 3, 2]), 2);
    }
}
