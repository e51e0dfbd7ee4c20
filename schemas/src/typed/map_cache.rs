//! Sharing between the maps of typed rows.
//!
//! Maps of one column usually have the same keys, and often some equal values.

use std::cell::RefCell;

use super::Value;
use crate::atom::Atom;
use crate::datum::{Key, Map, MapBuffers, MapBuilder};

/// Number of pairs above which maps are not cached.
const MAX_CACHED_PAIRS: usize = 32;

/// Number of cached maps of each length.
const MAPS_PER_LENGTH: usize = 4;
/// Length in bytes of the longest string of a cached map.
const MAX_CACHED_STRING_LEN: usize = 128;

thread_local! {
    static CACHE: RefCell<MapCache> = RefCell::default();
}

/// Builds a map from pairs sorted by the Rust order of their keys.
///
/// Keys and values that are equal in a cached map are shared with it, which costs less than
/// creating them.
pub(crate) fn build_map<'a, K: Value + 'a, V: Value + 'a>(
    pairs: impl ExactSizeIterator<Item = (&'a K, &'a V)> + Clone,
) -> Map {
    let map = CACHE.with_borrow_mut(|cache| cache.build_map(pairs.clone()));
    // Keys that differ in Rust may be equal atoms. The last pair is then used.
    map.unwrap_or_else(|| pairs.map(|(k, v)| (k.to_atom(), v.to_atom())).collect())
}

#[derive(Debug, Default)]
struct MapCache {
    /// Maps by length; index 0 is for maps of one pair.
    by_len: [Vec<Map>; MAX_CACHED_PAIRS],
    /// Index of the map that is evicted next, whatever the length.
    next: usize,
    buffers: MapBuffers,
}

impl MapCache {
    fn build_map<'a, K: Value + 'a, V: Value + 'a>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (&'a K, &'a V)> + Clone,
    ) -> Option<Map> {
        let len = pairs.len();
        let maps = len.checked_sub(1).and_then(|at| self.by_len.get_mut(at));
        let first = pairs.clone().next().map(|(key, _)| key);
        let found = maps.as_ref().and_then(|maps| {
            let has_first_key = |map: &Map| Some(first?.is(map.pair(0)?.0));
            maps.iter().position(|map| has_first_key(map) == Some(true))
        });
        let template = found.and_then(|at| maps.as_ref()?.get(at));
        let mut builder = MapBuilder::new(&mut self.buffers, template);
        for (key, value) in pairs {
            match builder.expected() {
                Some((expected, likely)) if key.is(expected) => {
                    let same = value.is(likely);
                    let value = if same { likely.clone() } else { value.to_atom() };
                    builder.push(Key::Expected(expected), value);
                }
                _ => builder.push(Key::Other(key.to_atom()), value.to_atom()),
            }
        }
        let map = builder.finish()?;
        let is_same = template.is_some_and(|template| template.shares_with(&map));
        if let Some(maps) = maps
            && !is_same
            && has_short_strings(&map)
        {
            match found {
                Some(at) => maps[at] = map.clone(),
                None if maps.len() < MAPS_PER_LENGTH => maps.push(map.clone()),
                None => {
                    maps[self.next] = map.clone();
                    self.next = (self.next + 1) % MAPS_PER_LENGTH;
                }
            }
        }
        Some(map)
    }
}

fn has_short_strings(map: &Map) -> bool {
    let is_short =
        |atom: &Atom| atom.as_str().is_none_or(|text| text.len() <= MAX_CACHED_STRING_LEN);
    map.iter().all(|(key, value)| is_short(key) && is_short(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    #[test]
    fn repeated_keys_and_values_are_shared() {
        let long = "a value that is too long to stand in its atom";
        let first = build_map(pairs(&[("key", long), ("other", "1")]).iter());
        let second = build_map(pairs(&[("key", long), ("other", "2")]).iter());
        let place = |map: &Map| map.pair(0).map(|(key, _)| std::ptr::from_ref(key));
        assert_eq!(place(&first), place(&second));
        let text = |map: &Map| map.pair(0).and_then(|(_, v)| v.as_str().map(str::as_ptr));
        assert_eq!(text(&first), text(&second));
    }

    #[test]
    fn maps_with_long_strings_are_not_cached() {
        let long = "x".repeat(MAX_CACHED_STRING_LEN + 1);
        build_map(pairs(&[("a", &long)]).iter());
        let kept = CACHE.with_borrow(|cache| cache.by_len[0].len());
        assert_eq!(kept, 0);
    }

    proptest! {
        #[test]
        fn cached_maps_do_not_change_the_result(
            maps in prop::collection::vec(prop::collection::btree_map("[ab]{0,2}", "[ab]{0,1}", 0..5), 1..20),
        ) {
            for pairs in maps {
                let alone: Map = pairs.iter().map(|(k, v)| (k.to_atom(), v.to_atom())).collect();
                prop_assert_eq!(build_map(pairs.iter()), alone);
            }
        }
    }
}
