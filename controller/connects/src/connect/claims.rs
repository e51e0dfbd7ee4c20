//! Names and keys that only one port may have.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};

use foldhash::fast;

use crate::part::LinkId;

/// Who wants what. Of several links that want the same, the first one has it, whoever came first.
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
    /// The link that has this.
    pub(super) fn holder(&self, key: K) -> Option<LinkId> {
        self.holders.get(&key).copied()
    }

    /// Notes that a link wants this. Returns another link for which that makes a difference.
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

    /// Notes that a link does not want this any more. Returns another link for which that makes a difference.
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

/// Stands for a name in few bytes: two keyed hashes, which no two names share in practice.
#[derive(Debug, Default)]
pub(super) struct Fingerprints(RandomState, RandomState);

/// What stands for a name.
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
    fn the_first_has_it_whoever_came_first() {
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
