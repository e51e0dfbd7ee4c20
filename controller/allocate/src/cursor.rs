//! Position of an allocator, which makes a released number free for as long as possible.

use std::ops::RangeInclusive;

/// Position of an allocator of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor(u32);

impl Cursor {
    /// Takes the first free number after the last one that was taken, and from the first one on
    /// after the end of the range. `None`: no number is free.
    pub(crate) fn next(
        &mut self,
        range: RangeInclusive<u32>,
        is_free: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (first, end) = range.into_inner();
        let start = self.0.max(first);
        let found = (start..=end).chain(first..start).find(|number| is_free(*number))?;
        self.0 = found + 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_number_is_taken_again_after_all_others() {
        let mut cursor = Cursor::default();
        let mut take = |taken: &[u32]| cursor.next(2..=4, |number| !taken.contains(&number));
        assert_eq!(take(&[2]), Some(3));
        assert_eq!(take(&[]), Some(4));
        assert_eq!(take(&[3]), Some(2));
        assert_eq!(take(&[2, 3, 4]), None);
    }
}
