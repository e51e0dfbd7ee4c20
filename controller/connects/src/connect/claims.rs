//! Port names and tunnel keys, which only one link can have.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};

use foldhash::fast;

use crate::part::LinkId;

/// Claims of links to keys. Of several links that claim one key, the lowest link id holds it,
/// independent of the order of the claims.
#[derive(Debug)]
pub(super) struct Claims<K> {
    holders: HashMap<K, LinkId, fast::RandomState>,
    others: HashMap<K, BTreeSet<LinkId>, fast::RandomState>,
}

impl<K> Default for Claims<K> {
    fn default() -> Self {
        Self {
            holders: HashMap::default(),
            others: HashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> Claims<K> {
    /// Link that holds the key.
    pub(super) fn holder(&self, key: K) -> Option<LinkId> {
        self.holders.get(&key).copied()
    }

    /// Adds a claim. Returns the former holder if it loses the key.
    pub(super) fn add(&mut self, key: K, link: LinkId) -> Option<LinkId> {
        let holder = self.holders.entry(key).or_insert(link);
        if *holder == link {
            return None;
        }
        let former = *holder;
        *holder = former.min(link);
        let other = former.max(link);
        self.others.entry(key).or_default().insert(other);
        (other == former).then_some(former)
    }

    /// Removes a claim. Returns the next holder if the key passes to it.
    pub(super) fn remove(&mut self, key: K, link: LinkId) -> Option<LinkId> {
        let Some(others) = self.others.get_mut(&key) else {
            if self.holders.get(&key) == Some(&link) {
                self.holders.remove(&key);
            }
            return None;
        };
        let next = if others.remove(&link) {
            None
        } else {
            others.pop_first()
        };
        if others.is_empty() {
            self.others.remove(&key);
        }
        if let Some(next) = next {
            self.holders.insert(key, next);
        }
        next
    }
}

/// Hash keys of name fingerprints. Two keyed hashes replace a name to save memory; collisions do
/// not occur in practice.
#[derive(Debug, Default)]
pub(super) struct Fingerprints(RandomState, RandomState);

/// Fingerprint of a name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Fingerprint(u64, u64);

impl Fingerprints {
    pub(super) fn of(&self, name: &str) -> Fingerprint {
        Fingerprint(self.0.hash_one(name), self.1.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_model::NetworkId;

    #[test]
    fn the_lowest_link_holds_a_key_in_any_order_of_claims() {
        let link = |index| LinkId {
            network: NetworkId::DEFAULT,
            index,
        };
        let mut claims = Claims::default();
        assert_eq!(claims.add('k', link(3)), None);
        assert_eq!(claims.add('k', link(3)), None);
        assert_eq!(claims.add('k', link(5)), None);
        assert_eq!(claims.add('k', link(1)), Some(link(3)));
        assert_eq!(claims.holder('k'), Some(link(1)));
        assert_eq!(claims.remove('k', link(5)), None);
        assert_eq!(claims.remove('k', link(1)), Some(link(3)));
        assert_eq!(claims.holder('k'), Some(link(3)));
        assert_eq!(claims.remove('k', link(3)), None);
        assert_eq!(claims.holder('k'), None);
    }
}
