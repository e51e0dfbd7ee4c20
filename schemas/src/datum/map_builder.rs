//! Building of maps pair by pair.

use super::Map;
use crate::atom::Atom;

/// Builds a map pair by pair, sharing keys and values with a template where they are equal.
///
/// The template is a map that probably has the same keys, in the same order.
#[derive(Debug)]
pub(crate) struct MapBuilder<'b, 'l> {
    template: Option<&'l Map>,
    buffers: &'b mut MapBuffers,
    /// Number of values that are equal to those of the template.
    equal: usize,
}

/// Buffers that builders of successive maps reuse.
#[derive(Debug, Default)]
pub(crate) struct MapBuffers {
    /// Values of the leading pairs whose keys are those of the template.
    values: Vec<Atom>,
    /// All pairs, once a key differs from the template.
    pairs: Vec<(Atom, Atom)>,
}

/// Key of a pair to be added.
#[derive(Debug)]
pub(crate) enum Key<'l> {
    /// The key of the [expected](MapBuilder::expected) pair.
    Expected(&'l Atom),
    /// Any other key.
    Other(Atom),
}

impl<'b, 'l> MapBuilder<'b, 'l> {
    /// Returns a builder of an empty map.
    pub(crate) fn new(buffers: &'b mut MapBuffers, template: Option<&'l Map>) -> Self {
        buffers.values.clear();
        buffers.pairs.clear();
        Self { template, buffers, equal: 0 }
    }

    /// Returns the next pair of the template. `None`: the map differs from the template.
    pub(crate) fn expected(&self) -> Option<(&'l Atom, &'l Atom)> {
        let follows_template = self.buffers.pairs.is_empty();
        self.template.filter(|_| follows_template)?.pair(self.buffers.values.len())
    }

    /// `true` if the expected key is a string without characters that JSON escapes.
    pub(crate) fn expects_plain(&self) -> bool {
        self.template.is_some_and(Map::has_plain_keys)
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
                self.leave_template();
                self.buffers.pairs.push((key, value));
            }
        }
    }

    /// Returns the number of added pairs.
    pub(crate) fn len(&self) -> usize {
        self.buffers.values.len() + self.buffers.pairs.len()
    }

    /// Returns the map. `None`: a key occurs twice.
    pub(crate) fn finish(mut self) -> Option<Map> {
        if let Some(template) = self.template
            && self.buffers.pairs.is_empty()
            && template.len() == self.len()
        {
            if self.equal == self.len() {
                return Some(template.clone());
            }
            if let Some(map) = template.with_values(&mut self.buffers.values) {
                return Some(map);
            }
        }
        self.leave_template();
        Map::from_distinct(&mut self.buffers.pairs)
    }

    /// Copies the pairs so far, because the next key is not that of the template.
    fn leave_template(&mut self) {
        let MapBuffers { values, pairs } = &mut *self.buffers;
        let keys = (0..).map_while(|at| Some(self.template?.pair(at)?.0.clone()));
        pairs.extend(keys.zip(values.drain(..)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds pairs like a decoder, which passes a key as expected if its text is that of the
    /// expected key.
    fn build(pairs: &[(u8, u8)], template: Option<&Map>) -> Option<Map> {
        let mut buffers = MapBuffers::default();
        let mut builder = MapBuilder::new(&mut buffers, template);
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
        fn the_template_does_not_change_the_result(
            template in prop::collection::vec((0_u8..6, 0_u8..3), 0..6),
            pairs in prop::collection::vec((0_u8..6, 0_u8..3), 0..6),
            kept in 0_usize..6,
        ) {
            let template = build(&template, None);
            // The first pairs often equal those of the template.
            let kept = template.iter().flatten().take(kept).map(|(key, value)| {
                let small = |atom: &Atom| u8::try_from(atom.as_integer().unwrap_or(0)).unwrap_or(0);
                (small(key), small(value))
            });
            let pairs: Vec<_> = kept.chain(pairs).collect();
            let plain = build(&pairs, None);
            prop_assert_eq!(build(&pairs, template.as_ref()), plain.clone());
            let mut keys: Vec<u8> = pairs.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(plain.is_some(), keys.len() == pairs.len());
        }
    }

    #[test]
    fn keys_and_equal_values_are_shared_with_the_template() {
        let template = build(&[(1, 1), (2, 2)], None).unwrap();
        let same = build(&[(1, 1), (2, 2)], Some(&template)).unwrap();
        assert!(same.shares_with(&template));
        let other = build(&[(1, 1), (2, 3)], Some(&template)).unwrap();
        assert!(!other.shares_with(&template));
        assert!(std::ptr::eq(other.pair(0).unwrap().0, template.pair(0).unwrap().0));
    }
}
