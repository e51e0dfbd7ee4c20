//! Key lists that maps share, because similar rows have the same keys in a column (external ids of
//! ports, for example).

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use triomphe::ThinArc;

use crate::atom::Atom;
use crate::json::is_plain;

/// Sorted keys of a short map.
///
/// The header is true if all keys are strings without characters that JSON escapes.
pub(super) type KeyList = ThinArc<bool, Atom>;

/// Number of slots of the cache; a power of two.
const CACHE_SLOTS: usize = 256;
/// Length in bytes of the longest key of a cached list. Lists with longer keys are not cached,
/// because they rarely repeat.
const MAX_CACHED_KEY_LEN: usize = 128;

thread_local! {
    /// One cache per thread, so that sharing needs neither a lock nor a parameter.
    static CACHE: RefCell<KeyListCache> = RefCell::default();
}

/// Returns the keys of sorted pairs, usually as the list of an earlier map if the same keys
/// occurred twice recently.
pub(super) fn share_keys(pairs: &[(Atom, Atom)]) -> KeyList {
    CACHE.with_borrow_mut(|cache| cache.share(pairs))
}

/// Bounded cache of key lists.
#[derive(Debug, Default)]
struct KeyListCache {
    /// Hashes of recent lists, and the list if it occurred more than once. Most lists occur once
    /// and are not worth more memory than a hash.
    slots: Vec<(u64, Option<KeyList>)>,
    hasher: RandomState,
}

impl KeyListCache {
    fn share(&mut self, pairs: &[(Atom, Atom)]) -> KeyList {
        let keys = || pairs.iter().map(|(key, _)| key);
        if self.slots.is_empty() {
            self.slots.resize(CACHE_SLOTS, (0, None));
        }
        let mut hasher = self.hasher.build_hasher();
        for key in keys() {
            std::hash::Hash::hash(key, &mut hasher);
        }
        let hash = hasher.finish();
        let (seen, list) = &mut self.slots[hash as usize % CACHE_SLOTS];
        if *seen == hash
            && let Some(list) = list
            && list.slice.iter().eq(keys())
        {
            return list.clone();
        }
        let is_plain = |key: &Atom| key.as_str().is_some_and(is_plain);
        let new = KeyList::from_header_and_iter(keys().all(is_plain), keys().cloned());
        let is_short =
            |key: &Atom| key.as_str().is_none_or(|text| text.len() <= MAX_CACHED_KEY_LEN);
        *list = (*seen == hash && keys().all(is_short)).then(|| new.clone());
        *seen = hash;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(keys: [&str; 2]) -> [(Atom, Atom); 2] {
        keys.map(|key| (key.into(), "value".into()))
    }

    #[test]
    fn repeated_keys_have_at_most_two_lists() {
        let mut lists = KeyListCache::default();
        let (network, other) = (pairs(["name", "network"]), pairs(["id", "name"]));
        lists.share(&network);
        let second = lists.share(&network);
        assert_eq!(lists.share(&network).ptr(), second.ptr());
        assert_ne!(lists.share(&other).ptr(), second.ptr());
        assert_eq!(lists.share(&other).slice, ["id", "name"].map(Atom::from));
    }

    #[test]
    fn keys_that_occur_once_and_long_keys_are_not_cached() {
        let mut lists = KeyListCache::default();
        let long = "x".repeat(MAX_CACHED_KEY_LEN + 1);
        for _ in 0..3 {
            lists.share(&pairs(["", &long]));
        }
        for i in 0..10_000 {
            lists.share(&pairs(["", &i.to_string()]));
        }
        assert!(lists.slots.iter().all(|(_, list)| list.is_none()));
    }
}
