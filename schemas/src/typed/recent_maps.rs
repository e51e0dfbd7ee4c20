//! Maps of typed rows: those of one column have the same keys, most of the time, and some of the same values.

use std::cell::RefCell;

use super::Value;
use crate::atom::Atom;
use crate::datum::{Key, Map, MapBuffers, MapBuilder};

/// Longer maps are made by themselves.
const MAX_PAIRS: usize = 32;

/// So many maps of each length are remembered.
const REMEMBERED: usize = 4;
/// Maps with longer strings are not kept.
const MAX_LEN: usize = 128;

thread_local! {
    static RECENT: RefCell<RecentMaps> = RefCell::default();
}

/// A map of pairs that are sorted by their keys as Rust orders them. What is the same in a map that was made before is
/// shared with it, at less cost than that of making it again.
pub(crate) fn map_of<'a, K: Value + 'a, V: Value + 'a>(
    pairs: impl ExactSizeIterator<Item = (&'a K, &'a V)> + Clone,
) -> Map {
    let map = RECENT.with_borrow_mut(|recent| recent.map_of(pairs.clone()));
    // Keys that differ in Rust may be the same in a database; then the later pair wins.
    map.unwrap_or_else(|| pairs.map(|(k, v)| (k.to_atom(), v.to_atom())).collect())
}

#[derive(Debug, Default)]
struct RecentMaps {
    /// By length, from one on.
    by_len: [Vec<Map>; MAX_PAIRS],
    /// Which of those of one length is forgotten next.
    next: usize,
    buffers: MapBuffers,
}

impl RecentMaps {
    fn map_of<'a, K: Value + 'a, V: Value + 'a>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (&'a K, &'a V)> + Clone,
    ) -> Option<Map> {
        let len = pairs.len();
        let maps = len.checked_sub(1).and_then(|at| self.by_len.get_mut(at));
        let first = pairs.clone().next().map(|(key, _)| key);
        let likely = maps.as_ref().and_then(|maps| {
            let is_likely = |map: &Map| Some(first?.is(map.pair(0)?.0));
            maps.iter().position(|map| is_likely(map) == Some(true))
        });
        let like = likely.and_then(|at| maps.as_ref()?.get(at));
        let mut builder = MapBuilder::new(&mut self.buffers, like);
        for (key, value) in pairs {
            match builder.expected() {
                Some((expected, likely)) if key.is(expected) => {
                    let same = value.is(likely);
                    let value = if same {
                        likely.clone()
                    } else {
                        value.to_atom()
                    };
                    builder.push(Key::Expected(expected), value);
                }
                _ => builder.push(Key::Other(key.to_atom()), value.to_atom()),
            }
        }
        let map = builder.finish()?;
        let is_same = like.is_some_and(|like| like.shares_with(&map));
        if let Some(maps) = maps
            && !is_same
            && is_short(&map)
        {
            match likely {
                Some(at) => maps[at] = map.clone(),
                None if maps.len() < REMEMBERED => maps.push(map.clone()),
                None => {
                    maps[self.next] = map.clone();
                    self.next = (self.next + 1) % REMEMBERED;
                }
            }
        }
        Some(map)
    }
}

fn is_short(map: &Map) -> bool {
    let is_short = |atom: &Atom| atom.as_str().is_none_or(|text| text.len() <= MAX_LEN);
    map.iter()
        .all(|(key, value)| is_short(key) && is_short(value))
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
    fn keys_and_values_that_come_again_are_shared() {
        let long = "a value that is too long to stand in its atom";
        let first = map_of(pairs(&[("key", long), ("other", "1")]).iter());
        let second = map_of(pairs(&[("key", long), ("other", "2")]).iter());
        let place = |map: &Map| map.pair(0).map(|(key, _)| std::ptr::from_ref(key));
        assert_eq!(place(&first), place(&second));
        let text = |map: &Map| map.pair(0).and_then(|(_, v)| v.as_str().map(str::as_ptr));
        assert_eq!(text(&first), text(&second));
    }

    #[test]
    fn long_strings_are_not_kept() {
        let long = "x".repeat(MAX_LEN + 1);
        map_of(pairs(&[("a", &long)]).iter());
        let kept = RECENT.with_borrow(|recent| recent.by_len[0].len());
        assert_eq!(kept, 0);
    }

    proptest! {
        #[test]
        fn what_came_before_makes_no_difference(
            maps in prop::collection::vec(prop::collection::btree_map("[ab]{0,2}", "[ab]{0,1}", 0..5), 1..20),
        ) {
            for pairs in maps {
                let alone: Map = pairs.iter().map(|(k, v)| (k.to_atom(), v.to_atom())).collect();
                prop_assert_eq!(map_of(pairs.iter()), alone);
            }
        }
    }
}
