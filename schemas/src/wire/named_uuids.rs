//! Names of rows that one request inserts (RFC 7047 §5.1, `<named-uuid>`).

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use uuid::{Builder, Uuid};

use crate::uuids::UuidSource;

/// The named-uuids of one `transact` request.
#[derive(Debug)]
pub struct NamedUuids<'a> {
    source: &'a mut UuidSource,
    naming: Naming,
    taken: TakenNames,
}

/// How names get their UUIDs.
#[derive(Debug)]
enum Naming {
    /// Computed from the name, without a table of names. Parts of a long request that are decoded at the same time
    /// agree.
    ByKey(NameKey),
    /// In the order in which they are first mentioned: clients invent names by chance, and where UUIDs come from a seed
    /// those must not matter.
    InOrder(HashMap<Box<str>, Uuid, RandomState>),
}

/// What makes the names of one request stand for other UUIDs than those of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameKey(u64, u64);

impl NameKey {
    pub(super) fn new(source: &mut UuidSource) -> Self {
        let (high, low) = source.next_uuid().as_u64_pair();
        Self(high, low)
    }

    fn uuid(self, name: &str) -> Uuid {
        let hash = |seed| FixedState::with_seed(seed).hash_one(name);
        let bytes = (u128::from(hash(self.0)) << 64 | u128::from(hash(self.1))).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid()
    }
}

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
        if source.is_seeded() {
            return Self {
                source,
                naming: Naming::InOrder(HashMap::default()),
                taken: TakenNames::default(),
            };
        }
        let key = NameKey::new(source);
        Self::with_key(source, key)
    }

    /// For a part of the request whose key is given.
    pub(super) fn with_key(source: &'a mut UuidSource, key: NameKey) -> Self {
        Self {
            source,
            naming: Naming::ByKey(key),
            taken: TakenNames::default(),
        }
    }

    /// Goes on where others have taken names.
    pub(super) fn with_taken(self, taken: TakenNames) -> Self {
        Self { taken, ..self }
    }

    pub(super) fn into_taken(self) -> TakenNames {
        self.taken
    }

    /// A fresh UUID for a row without a name.
    pub fn fresh(&mut self) -> Uuid {
        self.source.next_uuid()
    }

    /// The UUID that a name stands for.
    pub fn mention(&mut self, name: &str) -> Uuid {
        if !self.taken.given.is_empty()
            && let Some(given) = self.taken.given.get(name)
        {
            return *given;
        }
        match &mut self.naming {
            Naming::ByKey(key) => key.uuid(name),
            Naming::InOrder(uuids) => match uuids.get(name) {
                Some(uuid) => *uuid,
                None => *uuids
                    .entry(name.into())
                    .or_insert_with(|| self.source.next_uuid()),
            },
        }
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
        for mut source in [UuidSource::seeded(1), UuidSource::random()] {
            let mut names = NamedUuids::new(&mut source);
            let (a, b) = (names.mention("a"), names.mention("b"));
            assert_eq!(a, names.mention("a"));
            assert_ne!(a, b);
            assert_eq!(a.get_version_num(), 4);
            assert_ne!(a, NamedUuids::new(&mut source).mention("a"));
        }
    }

    #[test]
    fn a_seed_means_the_same_uuids_whatever_the_names() {
        let uuids = |names: [&str; 3]| {
            let mut source = UuidSource::seeded(1);
            let mut named = NamedUuids::new(&mut source);
            names.map(|name| named.mention(name))
        };
        assert_eq!(uuids(["a", "b", "a"]), uuids(["x", "y", "x"]));
    }

    #[test]
    fn a_name_is_taken_once_and_may_be_given_its_uuid() {
        let mut source = UuidSource::random();
        let given = source.next_uuid();
        let mut names = NamedUuids::new(&mut source);
        let a = names.mention("a");
        assert_eq!(names.insert("a", None), Some(a));
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
