//! Maps from pairs that come one after the other.

use super::Map;
use crate::atom::Atom;

/// Puts a map together that is probably like another one: of the same keys, in the same order.
#[derive(Debug)]
pub(crate) struct MapBuilder<'b, 'l> {
    like: Option<&'l Map>,
    buffers: &'b mut MapBuffers,
    /// How many values equal those of the other map.
    equal: usize,
}

/// What many maps, one after the other, are put together in.
#[derive(Debug, Default)]
pub(crate) struct MapBuffers {
    /// The values, as long as all keys are those of the other map.
    values: Vec<Atom>,
    /// All pairs, from the first other key on.
    pairs: Vec<(Atom, Atom)>,
}

/// A key that was read.
#[derive(Debug)]
pub(crate) enum Key<'l> {
    /// That of the [expected](MapBuilder::expected) pair.
    Expected(&'l Atom),
    /// Another one.
    Other(Atom),
}

impl<'b, 'l> MapBuilder<'b, 'l> {
    pub(crate) fn new(buffers: &'b mut MapBuffers, like: Option<&'l Map>) -> Self {
        buffers.values.clear();
        buffers.pairs.clear();
        Self {
            like,
            buffers,
            equal: 0,
        }
    }

    /// The next pair, if the map is like the other one.
    pub(crate) fn expected(&self) -> Option<(&'l Atom, &'l Atom)> {
        let is_like = self.buffers.pairs.is_empty();
        self.like
            .filter(|_| is_like)?
            .pair(self.buffers.values.len())
    }

    /// Whether the expected key is a string that stands in JSON as it is.
    pub(crate) fn expects_plain(&self) -> bool {
        self.like.is_some_and(Map::has_plain_keys)
    }

    /// Adds a pair.
    pub(crate) fn push(&mut self, key: Key<'l>, value: Atom) {
        match (key, self.expected()) {
            (Key::Expected(_), Some((_, expected))) => {
                self.equal += usize::from(value == *expected);
                self.buffers.values.push(value);
            }
            (Key::Expected(key), None) => self.buffers.pairs.push((key.clone(), value)),
            (Key::Other(key), _) => {
                self.part();
                self.buffers.pairs.push((key, value));
            }
        }
    }

    /// How many pairs were added.
    pub(crate) fn len(&self) -> usize {
        self.buffers.values.len() + self.buffers.pairs.len()
    }

    /// The map of the pairs; none when a key came twice.
    pub(crate) fn finish(mut self) -> Option<Map> {
        if let Some(like) = self.like
            && self.buffers.pairs.is_empty()
            && like.len() == self.len()
        {
            if self.equal == self.len() {
                return Some(like.clone());
            }
            if let Some(map) = like.with_values(&mut self.buffers.values) {
                return Some(map);
            }
        }
        self.part();
        Map::from_distinct(&mut self.buffers.pairs)
    }

    /// Keeps the keys so far with their values: those that follow are not the other map's.
    fn part(&mut self) {
        let MapBuffers { values, pairs } = &mut *self.buffers;
        let keys = (0..).map_while(|at| Some(self.like?.pair(at)?.0.clone()));
        pairs.extend(keys.zip(values.drain(..)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As a reader of text does it: a key is the expected one if it reads like it.
    fn build(pairs: &[(u8, u8)], like: Option<&Map>) -> Option<Map> {
        let mut buffers = MapBuffers::default();
        let mut builder = MapBuilder::new(&mut buffers, like);
        for (key, value) in pairs {
            let key = Atom::Integer(i64::from(*key));
            let expected = builder.expected().map(|(expected, _)| expected);
            let key = match expected {
                Some(expected) if *expected == key => Key::Expected(expected),
                _ => Key::Other(key),
            };
            builder.push(key, Atom::Integer(i64::from(*value)));
        }
        assert_eq!(builder.len(), pairs.len());
        builder.finish()
    }

    proptest! {
        #[test]
        fn what_it_is_like_makes_no_difference(
            like in prop::collection::vec((0_u8..6, 0_u8..3), 0..6),
            pairs in prop::collection::vec((0_u8..6, 0_u8..3), 0..6),
            kept in 0_usize..6,
        ) {
            let like = build(&like, None);
            // Often the same in the beginning.
            let kept = like.iter().flatten().take(kept).map(|(key, value)| {
                let small = |atom: &Atom| u8::try_from(atom.as_integer().unwrap_or(0)).unwrap_or(0);
                (small(key), small(value))
            });
            let pairs: Vec<_> = kept.chain(pairs).collect();
            let plain = build(&pairs, None);
            prop_assert_eq!(build(&pairs, like.as_ref()), plain.clone());
            let mut keys: Vec<u8> = pairs.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(plain.is_some(), keys.len() == pairs.len());
        }
    }

    #[test]
    fn keys_are_shared_and_so_is_all_that_is_equal() {
        let like = build(&[(1, 1), (2, 2)], None).unwrap();
        let same = build(&[(1, 1), (2, 2)], Some(&like)).unwrap();
        assert!(same.shares_with(&like));
        let other = build(&[(1, 1), (2, 3)], Some(&like)).unwrap();
        assert!(!other.shares_with(&like));
        assert!(std::ptr::eq(
            other.pair(0).unwrap().0,
            like.pair(0).unwrap().0
        ));
    }
}
