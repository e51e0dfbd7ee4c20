//! Parts by number, so that many places can refer to a part in four bytes.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Number of a part. Numbers of forgotten parts are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct PartId(pub(crate) u32);

/// The parts that an engine knows.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    keys: Vec<Option<P>>,
    /// Numbers by the hashes of their keys.
    ids: HashTable<PartId>,
    hasher: RandomState,
    free: Vec<PartId>,
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            ids: HashTable::new(),
            hasher: RandomState::default(),
            free: Vec::new(),
        }
    }
}

impl<P: Eq + Hash> Parts<P> {
    /// Number of a part, a new one if it is not known.
    pub(crate) fn id(&mut self, part: P) -> PartId {
        let (keys, hasher) = (&mut self.keys, &self.hasher);
        let hash = hasher.hash_one(&part);
        let is_part = |id: &PartId| key(keys, *id) == Some(&part);
        let hash_of = |id: &PartId| key(keys, *id).map_or(0, |part| hasher.hash_one(part));
        match self.ids.entry(hash, is_part, hash_of) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = self.free.pop().unwrap_or_else(|| {
                    keys.push(None);
                    PartId(u32::try_from(keys.len() - 1).unwrap_or(u32::MAX))
                });
                entry.insert(id);
                keys[id.0 as usize] = Some(part);
                id
            }
        }
    }

    /// Number of a part that is known.
    pub(crate) fn find(&self, part: &P) -> Option<PartId> {
        let hash = self.hasher.hash_one(part);
        let is_part = |id: &PartId| self.get(*id) == Some(part);
        self.ids.find(hash, is_part).copied()
    }

    pub(crate) fn get(&self, id: PartId) -> Option<&P> {
        key(&self.keys, id)
    }

    pub(crate) fn forget(&mut self, id: PartId) {
        if let Some(part) = self.keys.get_mut(id.0 as usize).and_then(Option::take) {
            let hash = self.hasher.hash_one(&part);
            if let Ok(entry) = self.ids.find_entry(hash, |have| *have == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }

    /// All parts, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&P, PartId)> {
        let keys = (0..).map(PartId).zip(&self.keys);
        keys.filter_map(|(id, part)| Some((part.as_ref()?, id)))
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// A number that is higher than those of all parts.
    pub(crate) fn bound(&self) -> usize {
        self.keys.len()
    }
}

fn key<P>(keys: &[Option<P>], id: PartId) -> Option<&P> {
    keys.get(id.0 as usize)?.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_forgotten_parts_are_used_again() {
        let mut parts = Parts::default();
        let ids: Vec<PartId> = (0..100).map(|part| parts.id(part)).collect();
        assert_eq!(parts.id(7), ids[7]);
        parts.forget(ids[7]);
        parts.forget(ids[7]);
        assert_eq!((parts.find(&7), parts.get(ids[7]), parts.len()), (None, None, 99));
        assert_eq!(parts.id(100), ids[7]);
        assert_eq!(parts.find(&100), Some(ids[7]));
        let known: Vec<u32> = parts.iter().map(|(part, _)| *part).collect();
        assert!(known.iter().copied().eq((0..7).chain([100]).chain(8..100)));
    }
}
