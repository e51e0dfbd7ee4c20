//! Names of the rows that a request inserts (RFC 7047 section 5.1, `<named-uuid>`).

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
    defined: DefinedNames,
}

/// Assignment of UUIDs to names.
#[derive(Debug)]
enum Naming {
    /// The UUID is a keyed hash of the name, so that no table is needed. Parts of a request that
    /// are decoded concurrently compute equal UUIDs.
    ByKey(NameKey),
    /// UUIDs are assigned in the order in which names first occur. With a seeded source, the UUIDs
    /// must not depend on the names, because clients choose names at random.
    InOrder(HashMap<Box<str>, Uuid, RandomState>),
}

/// Hash key of a request, so that equal names in different requests have different UUIDs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NameKey(u64, u64);

impl NameKey {
    /// Returns a new key.
    pub(crate) fn new(source: &mut UuidSource) -> Self {
        let (high, low) = source.next_uuid().as_u64_pair();
        Self(high, low)
    }

    /// Returns the UUID of a name.
    fn uuid(self, name: &str) -> Uuid {
        let hash = |seed| FixedState::with_seed(seed).hash_one(name);
        let bytes = (u128::from(hash(self.0)) << 64 | u128::from(hash(self.1))).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// Names that `insert` operations defined.
#[derive(Debug, Default)]
pub(crate) struct DefinedNames {
    /// Assigned UUIDs of the names. They identify the names and are shorter.
    uuids: HashSet<Uuid, RandomState>,
    /// Names whose inserts request a UUID, with that UUID.
    requested: HashMap<Box<str>, Uuid, RandomState>,
}

impl DefinedNames {
    /// Adds the names of a later part if decoding that part without these names had the correct
    /// result. Returns `false`, and adds nothing, if it had not: a name is defined twice, or an
    /// insert requests a UUID.
    pub(crate) fn extend_if_independent(&mut self, later: &Self) -> bool {
        if !self.requested.is_empty() || !later.requested.is_empty() {
            return false;
        }
        self.uuids.reserve(later.uuids.len());
        for (added, uuid) in later.uuids.iter().enumerate() {
            if !self.uuids.insert(*uuid) {
                for uuid in later.uuids.iter().take(added) {
                    self.uuids.remove(uuid);
                }
                return false;
            }
        }
        true
    }
}

impl<'a> NamedUuids<'a> {
    /// Returns the state at the start of a request. UUIDs are taken from `source`.
    pub fn new(source: &'a mut UuidSource) -> Self {
        if source.is_seeded() {
            return Self {
                source,
                naming: Naming::InOrder(HashMap::default()),
                defined: DefinedNames::default(),
            };
        }
        let key = NameKey::new(source);
        Self::with_key(source, key)
    }

    /// Returns the state at the start of a part of a request with this key.
    pub(crate) fn with_key(source: &'a mut UuidSource, key: NameKey) -> Self {
        Self { source, naming: Naming::ByKey(key), defined: DefinedNames::default() }
    }

    /// Continues with names that earlier parts defined.
    pub(crate) fn with_defined(self, defined: DefinedNames) -> Self {
        Self { defined, ..self }
    }

    /// Returns the names that were defined.
    pub(crate) fn into_defined(self) -> DefinedNames {
        self.defined
    }

    /// Returns the key, if the UUIDs of all names follow from it. `None`: they do not.
    pub(super) fn shared_key(&self) -> Option<NameKey> {
        match self.naming {
            Naming::ByKey(key) if self.defined.requested.is_empty() => Some(key),
            _ => None,
        }
    }

    /// Returns a new UUID for a row without a name.
    pub fn generate(&mut self) -> Uuid {
        self.source.next_uuid()
    }

    /// Returns the UUID of a name.
    pub fn resolve(&mut self, name: &str) -> Uuid {
        if !self.defined.requested.is_empty()
            && let Some(requested) = self.defined.requested.get(name)
        {
            return *requested;
        }
        match &mut self.naming {
            Naming::ByKey(key) => key.uuid(name),
            Naming::InOrder(uuids) => match uuids.get(name) {
                Some(uuid) => *uuid,
                None => *uuids.entry(name.into()).or_insert_with(|| self.source.next_uuid()),
            },
        }
    }

    /// Defines a name for an `insert`, optionally with the UUID that the operation requests.
    ///
    /// Returns the UUID of the row. `None`: an earlier `insert` defines the name.
    pub fn define(&mut self, name: &str, requested: Option<Uuid>) -> Option<Uuid> {
        let uuid = self.resolve(name);
        if self.defined.requested.contains_key(name) || !self.defined.uuids.insert(uuid) {
            return None;
        }
        if let Some(requested) = requested {
            self.defined.requested.insert(name.into(), requested);
        }
        Some(requested.unwrap_or(uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_uuid_in_a_request_and_another_in_the_next() {
        for mut source in [UuidSource::seeded(1), UuidSource::random()] {
            let mut names = NamedUuids::new(&mut source);
            let (a, b) = (names.resolve("a"), names.resolve("b"));
            assert_eq!(a, names.resolve("a"));
            assert_ne!(a, b);
            assert_eq!(a.get_version_num(), 4);
            assert_ne!(a, NamedUuids::new(&mut source).resolve("a"));
        }
    }

    #[test]
    fn the_uuids_of_a_seeded_source_do_not_depend_on_the_names() {
        let uuids = |names: [&str; 3]| {
            let mut source = UuidSource::seeded(1);
            let mut named = NamedUuids::new(&mut source);
            names.map(|name| named.resolve(name))
        };
        assert_eq!(uuids(["a", "b", "a"]), uuids(["x", "y", "x"]));
    }

    #[test]
    fn a_name_is_defined_once_and_may_have_a_requested_uuid() {
        let mut source = UuidSource::random();
        let requested = source.next_uuid();
        let mut names = NamedUuids::new(&mut source);
        let a = names.resolve("a");
        assert_eq!(names.define("a", None), Some(a));
        assert_eq!(names.define("a", None), None);
        assert_eq!(names.define("b", Some(requested)), Some(requested));
        assert_eq!(names.resolve("b"), requested);
        assert_eq!(names.define("b", None), None);
    }

    #[test]
    fn parts_are_independent_unless_both_define_a_name_or_one_requests_a_uuid() {
        let defined = |names: &[(&str, Option<Uuid>)]| {
            let mut source = UuidSource::seeded(1);
            let mut part = NamedUuids::with_key(&mut source, NameKey(1, 2));
            for (name, requested) in names {
                part.define(name, *requested);
            }
            part.into_defined()
        };
        let (a, b) = ([("a", None)], [("b", None)]);
        let both = [("b", None), ("a", None), ("c", None)];
        let requested = [("a", Some(Uuid::max()))];
        for (earlier, later, is_independent) in [
            (&a[..], &b[..], true),
            (&a, &a, false),
            (&a, &both, false),
            (&requested, &b, false),
            (&b, &requested, false),
        ] {
            let mut names = defined(earlier);
            assert_eq!(names.extend_if_independent(&defined(later)), is_independent);
            let count = earlier.len() + if is_independent { later.len() } else { 0 };
            assert_eq!(names.uuids.len(), count);
        }
    }
}
