//! Operations of a request, in the parts in which they were decoded.

use std::slice;

use smallvec::SmallVec;

use super::Operation;

/// Operations of a request, in order.
///
/// A long request is decoded in parts, by several threads. The parts stay where they are, because
/// moving tens of thousands of operations into one list takes milliseconds.
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
    /// Parts in order. A short request has one.
    parts: SmallVec<[Vec<Operation>; 1]>,
}

impl Operations {
    /// Returns the number of operations. O(parts).
    pub fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// `true` if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Vec::is_empty)
    }

    /// Returns the operation at a position, from 0. `None`: there are fewer operations. O(parts).
    pub fn get(&self, mut index: usize) -> Option<&Operation> {
        for part in &self.parts {
            match part.get(index) {
                Some(operation) => return Some(operation),
                None => index -= part.len(),
            }
        }
        None
    }

    /// Iterates over the operations in order.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.parts.iter().flatten()
    }

    /// Iterates over the operations in order, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.parts.iter_mut().flatten()
    }

    /// Iterates over the parts in order, for modification of operations.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut [Operation]> {
        self.parts.iter_mut().map(Vec::as_mut_slice)
    }

    /// Appends the operations that follow.
    pub(super) fn append(&mut self, next: Self) {
        self.parts.extend(next.parts);
    }
}

impl From<Vec<Operation>> for Operations {
    fn from(operations: Vec<Operation>) -> Self {
        Self {
            parts: SmallVec::from_buf([operations]),
        }
    }
}

/// The parts do not count.
impl PartialEq for Operations {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
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
    use super::*;

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
        assert_eq!(parts.parts_mut().count(), 3);
        assert_ne!(parts, Operations::default());
    }
}
