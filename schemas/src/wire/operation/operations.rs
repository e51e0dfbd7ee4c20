//! Operations of a request, in the parts in which they were decoded.

use std::slice;

use smallvec::SmallVec;

use crate::schema::TableId;

use super::Operation;

/// Operations of a request, in order.
///
/// A long request is decoded in parts, by several threads. The parts stay where they are, because
/// moving tens of thousands of operations into one list takes milliseconds. The first operations may
/// be taken. They still count, and later ones keep their positions.
///
/// ```
/// use patchbay_schemas::wire::{Operation, Operations};
///
/// let operations = Operations::from(vec![Operation::Abort]);
/// assert_eq!(operations.len(), 1);
/// assert_eq!(operations.get(0), Some(&Operation::Abort));
/// assert_eq!(operations.get(1), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// Tables of the inserts at the beginning that were taken.
    taken: Vec<TableId>,
    /// Parts with the other operations, in order. A short request has one.
    parts: SmallVec<[Vec<Operation>; 1]>,
}

impl Operations {
    /// Returns the number of operations, including taken operations. O(parts).
    pub fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum::<usize>() + self.taken.len()
    }

    /// `true` if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the operation at a position, from 0. `None`: there are fewer operations, or it was
    /// taken. O(parts).
    pub fn get(&self, index: usize) -> Option<&Operation> {
        let mut index = index.checked_sub(self.taken.len())?;
        for part in &self.parts {
            match part.get(index) {
                Some(operation) => return Some(operation),
                None => index -= part.len(),
            }
        }
        None
    }

    /// Returns the name of the operation at a position, from 0. `None`: there are fewer operations.
    /// O(parts).
    pub fn name(&self, index: usize) -> Option<&'static str> {
        if index < self.taken.len() {
            return Some("insert");
        }
        self.get(index).map(Operation::name)
    }

    /// Returns the tables of the inserts that were taken, in order.
    pub fn taken(&self) -> &[TableId] {
        &self.taken
    }

    /// Iterates over the operations in order, without taken operations.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.parts.iter().flatten()
    }

    /// Iterates over the operations in order, without taken operations, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.parts.iter_mut().flatten()
    }

    /// Takes the `insert` operations at the beginning, in parts, if they are at least `min`.
    /// `None`: they are fewer.
    pub fn take_leading_inserts(&mut self, min: usize) -> Option<Vec<Vec<Operation>>> {
        if self.len() < min {
            return None;
        }
        let table = |operation: &Operation| match operation {
            Operation::Insert { table, .. } => Some(*table),
            _ => None,
        };
        let tables: Vec<TableId> = self.iter().map_while(table).collect();
        if tables.len() < min {
            return None;
        }
        let (mut leading, mut left) = (Vec::with_capacity(self.parts.len()), tables.len());
        self.taken.extend(tables);
        for mut part in std::mem::take(&mut self.parts) {
            if left >= part.len() {
                left -= part.len();
                leading.push(part);
            } else {
                let others = part.split_off(left);
                leading.push(part);
                left = 0;
                self.parts.push(others);
            }
        }
        Some(leading)
    }

    /// Appends the operations that follow.
    pub(super) fn append(&mut self, next: Self) {
        self.parts.extend(next.parts);
    }
}

impl From<Vec<Operation>> for Operations {
    fn from(operations: Vec<Operation>) -> Self {
        Self { taken: Vec::new(), parts: SmallVec::from_buf([operations]) }
    }
}

/// The parts do not count.
impl PartialEq for Operations {
    fn eq(&self, other: &Self) -> bool {
        self.taken == other.taken && self.iter().eq(other.iter())
    }
}

impl<'a> IntoIterator for &'a Operations {
    type Item = &'a Operation;
    type IntoIter = std::iter::Flatten<slice::Iter<'a, Vec<Operation>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::InsertRow;
    use super::*;
    use crate::nb;

    #[test]
    fn positions_count_across_parts() {
        let comment = |text: &str| Operation::Comment(text.to_owned());
        let whole = Operations::from(["a", "b", "c"].map(comment).to_vec());
        let mut parts = Operations::default();
        assert!(parts.is_empty());
        for part in [&["a"][..], &[], &["b", "c"]] {
            let part: Vec<Operation> = part.iter().map(|text| comment(text)).collect();
            parts.append(part.into());
        }
        assert_eq!(parts, whole);
        assert_eq!(parts.len(), 3);
        for index in 0..4 {
            assert_eq!(parts.get(index), whole.get(index));
        }
        assert_ne!(parts, Operations::default());
    }

    #[test]
    fn taken_inserts_keep_the_positions_of_the_others() {
        let schema = nb::schema();
        let (table, switch) = schema.table_by_name("Logical_Switch").unwrap();
        let insert = || Operation::Insert {
            table,
            uuid: Uuid::nil(),
            given: None,
            row: InsertRow::new(switch, []),
        };
        let mut operations = Operations::default();
        for part in [2, 0, 3] {
            operations.append(vec![insert(); part].into());
        }
        operations.append(vec![insert(), Operation::Abort, insert()].into());
        assert_eq!(operations.take_leading_inserts(7), None);
        let whole = operations.clone();
        let taken = operations.take_leading_inserts(6).unwrap();
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 6);
        assert_eq!(operations.taken(), [table; 6]);
        assert_ne!(operations, whole);
        assert_eq!(operations.len(), 8);
        assert_eq!(operations.iter().count(), 2);
        for index in 0..6 {
            assert_eq!(operations.get(index), None);
        }
        for index in 6..9 {
            assert_eq!(operations.get(index), whole.get(index));
        }
        for index in 0..9 {
            assert_eq!(operations.name(index), whole.name(index));
        }
    }
}
