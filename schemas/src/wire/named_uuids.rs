//! Names of rows that one request inserts (RFC 7047 §5.1, `<named-uuid>`).

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use uuid::{Builder, Uuid};

use crate::uuids::UuidSource;

/// The named-uuids of one `transact` request.
///
/// A name's UUID is computed from the name and the request's own key, so that parts of a long request can be decoded
/// at the same time and agree.
#[derive(Debug)]
pub struct NamedUuids<'a> {
    source: &'a mut UuidSource,
    key: NameKey,
    taken: TakenNames,
}

/// What makes the names of one request stand for other UUIDs than those of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameKey(u64, u64);

/// The names that inserts took.
#[derive(Debug, Default)]
pub(super) struct TakenNames {
    /// What they stand for by themselves: as good as the names, and shorter.
    uuids: HashSet<Uuid, RandomState>,
    /// Those whose inserts chose the UUID.
    given: HashMap<Box<str>, Uuid, RandomState>,
}

impl TakenNames {
    /// Whether names that a later part of the request took, decoded without regard to these, are as if it had been
    /// decoded with regard to them: none was taken twice, and none stands for what an insert chose.
    pub(super) fn agree_with(&self, later: &Self) -> bool {
        self.given.is_empty() && later.given.is_empty() && self.uuids.is_disjoint(&later.uuids)
    }

    pub(super) fn extend(&mut self, later: Self) {
        self.uuids.extend(later.uuids);
    }
}

impl<'a> NamedUuids<'a> {
    /// No names yet; fresh UUIDs come from `source`.
    pub fn new(source: &'a mut UuidSource) -> Self {
        let (high, low) = source.next_uuid().as_u64_pair();
        Self::with_key(source, NameKey(high, low))
    }

    /// For a part of the request whose key is given.
    pub(super) fn with_key(source: &'a mut UuidSource, key: NameKey) -> Self {
        Self {
            source,
            key,
            taken: TakenNames::default(),
        }
    }

    pub(super) fn key(&self) -> NameKey {
        self.key
    }

    pub(super) fn into_taken(self) -> TakenNames {
        self.taken
    }

    /// A fresh UUID for a row without a name.
    pub fn fresh(&mut self) -> Uuid {
        self.source.next_uuid()
    }

    /// The UUID that a name stands for.
    pub fn mention(&self, name: &str) -> Uuid {
        if !self.taken.given.is_empty()
            && let Some(given) = self.taken.given.get(name)
        {
            return *given;
        }
        let NameKey(high, low) = self.key;
        let hash = |seed| FixedState::with_seed(seed).hash_one(name);
        let bytes = (u128::from(hash(high)) << 64 | u128::from(hash(low))).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid()
    }

    /// An `insert` takes the name, and replaces its UUID by a given one. None when another took it before.
    pub fn insert(&mut self, name: &str, given: Option<Uuid>) -> Option<Uuid> {
        let uuid = self.mention(name);
        if self.taken.given.contains_key(name) || !self.taken.uuids.insert(uuid) {
            return None;
        }
        if let Some(given) = given {
            self.taken.given.insert(name.into(), given);
        }
        Some(given.unwrap_or(uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_uuid_of_one_request() {
        let mut source = UuidSource::seeded(1);
        let names = NamedUuids::new(&mut source);
        let (a, b) = (names.mention("a"), names.mention("b"));
        assert_eq!(a, names.mention("a"));
        assert_ne!(a, b);
        assert_eq!(a.get_version_num(), 4);
        assert_ne!(a, NamedUuids::new(&mut source).mention("a"));
    }

    #[test]
    fn a_name_is_taken_once_and_may_be_given_its_uuid() {
        let mut source = UuidSource::seeded(1);
        let given = source.next_uuid();
        let mut names = NamedUuids::new(&mut source);
        assert_eq!(names.insert("a", None), Some(names.mention("a")));
        assert_eq!(names.insert("a", None), None);
        assert_eq!(names.insert("b", Some(given)), Some(given));
        assert_eq!(names.mention("b"), given);
        assert_eq!(names.insert("b", None), None);
    }

    #[test]
    fn parts_agree_unless_a_name_is_taken_in_both_or_given_a_uuid() {
        let taken = |names: &[(&str, Option<Uuid>)]| {
            let mut source = UuidSource::seeded(1);
            let mut part = NamedUuids::with_key(&mut source, NameKey(1, 2));
            for (name, given) in names {
                part.insert(name, *given);
            }
            part.into_taken()
        };
        let (a, b) = ([("a", None)], [("b", None)]);
        let chosen = [("a", Some(Uuid::max()))];
        assert!(taken(&a).agree_with(&taken(&b)));
        assert!(!taken(&a).agree_with(&taken(&a)));
        assert!(!taken(&chosen).agree_with(&taken(&b)));
        assert!(!taken(&b).agree_with(&taken(&chosen)));
    }
}
