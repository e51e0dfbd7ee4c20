//! Prediction of the next column of a row, because servers write the columns of all rows in one
//! order.

use crate::schema::ColumnId;

/// Order of the columns in the rows of a table, as observed so far.
///
/// The columns of one row are usually a subsequence of it.
#[derive(Debug, Default)]
pub(super) struct ColumnOrder {
    columns: Vec<ColumnId>,
    /// Index of the expected column.
    next: usize,
}

impl ColumnOrder {
    /// Begins the next row.
    pub(super) fn begin_row(&mut self) {
        self.next = 0;
    }

    /// Returns the column that the row probably names next.
    pub(super) fn expected(&self) -> Option<ColumnId> {
        self.columns.get(self.next).copied()
    }

    /// Records the column that the row names next.
    pub(super) fn record(&mut self, column: ColumnId) {
        if self.expected() != Some(column) {
            match self.columns.iter().position(|known| *known == column) {
                Some(index) => self.next = index,
                None => self.columns.insert(self.next, column),
            }
        }
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_some_rows_lack_are_learnt_and_skipped() {
        let mut order = ColumnOrder::default();
        let mut correct_predictions = |row: &[u16]| {
            order.begin_row();
            let mut correct = 0;
            for column in row {
                correct += usize::from(order.expected() == Some(ColumnId(*column)));
                order.record(ColumnId(*column));
            }
            correct
        };
        assert_eq!(correct_predictions(&[3, 1, 5]), 0);
        assert_eq!(correct_predictions(&[3, 1, 5]), 3);
        assert_eq!(correct_predictions(&[3, 5]), 1);
        assert_eq!(correct_predictions(&[3, 2, 1, 5]), 3);
        assert_eq!(correct_predictions(&[3, 2, 1, 5]), 4);
        assert_eq!(correct_predictions(&[1, 5, 7]), 1);
        assert_eq!(correct_predictions(&[3, 3, 2]), 2);
    }
}
