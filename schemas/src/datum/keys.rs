//! Lists of keys that maps share: rows of one kind have the same keys in a column, such as the external ids of ports.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use triomphe::ThinArc;

use crate::atom::Atom;
use crate::json::is_plain;

/// The keys of a short map, sorted. The header says whether all of them are strings that stand in JSON as they are.
pub(super) type Keys = ThinArc<bool, Atom>;

/// How many lists are remembered; a power of two.
const REMEMBERED: usize = 256;
/// Lists with longer strings are rarely repeated.
const MAX_LEN: usize = 128;

thread_local! {
    /// One for each thread, so that whoever makes a map shares its keys without asking for it.
    static KEY_LISTS: RefCell<KeyLists> = RefCell::default();
}

/// The keys of pairs, which are sorted: a list that came before, most of the time, if it came twice in a short time.
pub(super) fn shared(pairs: &[(Atom, Atom)]) -> Keys {
    KEY_LISTS.with_borrow_mut(|lists| lists.shared(pairs))
}

/// A bounded cache.
#[derive(Debug, Default)]
struct KeyLists {
    /// By hash. A hash without a list was seen once: most lists come once, and are not worth more memory than this.
    places: Vec<(u64, Option<Keys>)>,
    hasher: RandomState,
}

impl KeyLists {
    fn shared(&mut self, pairs: &[(Atom, Atom)]) -> Keys {
        let keys = || pairs.iter().map(|(key, _)| key);
        if self.places.is_empty() {
            self.places.resize(REMEMBERED, (0, None));
        }
        let mut hasher = self.hasher.build_hasher();
        for key in keys() {
            std::hash::Hash::hash(key, &mut hasher);
        }
        let hash = hasher.finish();
        let (seen, list) = &mut self.places[hash as usize % REMEMBERED];
        if *seen == hash
            && let Some(list) = list
            && list.slice.iter().eq(keys())
        {
            return list.clone();
        }
        let is_plain = |key: &Atom| key.as_str().is_some_and(is_plain);
        let new = Keys::from_header_and_iter(keys().all(is_plain), keys().cloned());
        let is_short = |key: &Atom| key.as_str().is_none_or(|text| text.len() <= MAX_LEN);
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
    fn repeated_keys_are_stored_twice_at_most() {
        let mut lists = KeyLists::default();
        let (network, other) = (pairs(["name", "network"]), pairs(["id", "name"]));
        lists.shared(&network);
        let second = lists.shared(&network);
        assert_eq!(lists.shared(&network).ptr(), second.ptr());
        assert_ne!(lists.shared(&other).ptr(), second.ptr());
        assert_eq!(lists.shared(&other).slice, ["id", "name"].map(Atom::from));
    }

    #[test]
    fn keys_that_come_once_and_long_keys_are_not_kept() {
        let mut lists = KeyLists::default();
        let long = "x".repeat(MAX_LEN + 1);
        for _ in 0..3 {
            lists.shared(&pairs(["", &long]));
        }
        for i in 0..10_000 {
            lists.shared(&pairs(["", &i.to_string()]));
        }
        assert!(lists.places.iter().all(|(_, list)| list.is_none()));
    }
}
