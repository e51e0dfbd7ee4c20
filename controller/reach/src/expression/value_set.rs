//! Sets of masked values, such as those of an address set.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::constant::Constant;

/// Set of values and masked values of one field, or of an address set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueSet {
    /// Values without a mask.
    whole: HashSet<u128, RandomState>,
    /// Values by their masks.
    masked: HashMap<u128, HashSet<u128, RandomState>, RandomState>,
    /// Number of bits that a field needs to hold every value.
    width: u32,
}

impl ValueSet {
    pub(crate) fn insert(&mut self, constant: Constant) {
        self.width = self.width.max(constant.width());
        match constant.mask {
            None => self.whole.insert(constant.value),
            Some(mask) => self.masked.entry(mask).or_default().insert(constant.value),
        };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.masked.is_empty()
    }

    /// Number of bits that a field needs to hold every value.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// `true` if the bits of one of the masks, or all bits, equal those of a value.
    pub(crate) fn contains(&self, value: u128) -> bool {
        self.whole.contains(&value)
            || self.masked.iter().any(|(mask, values)| values.contains(&(value & mask)))
    }

    /// Values with their masks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, Option<u128>)> {
        let masked = self
            .masked
            .iter()
            .flat_map(|(mask, values)| values.iter().map(|value| (*value, Some(*mask))));
        self.whole.iter().map(|value| (*value, None)).chain(masked)
    }
}
