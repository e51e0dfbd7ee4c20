//! Column values: sets (scalars and optionals included) and maps.

mod keys;
mod map;
mod map_builder;
mod set;

pub use map::Map;
pub(crate) use map_builder::{Key, MapBuffers, MapBuilder};
pub use set::Set;

use std::cmp::Ordering;
use std::fmt;

use crate::atom::Atom;

/// The value of one column of one row: a set or a map, always sorted and without duplicates.
///
/// A scalar is a set of one element, an optional scalar a set of none or one. Clones are cheap and
/// share their content; a change to a long set or map costs O(log n) and shares the rest.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Datum {
    /// A scalar, an optional scalar or a set.
    Set(Set),
    /// A map.
    Map(Map),
}

impl Datum {
    /// The set of nothing.
    pub const EMPTY_SET: Datum = Datum::Set(Set::EMPTY);
    /// The map of nothing.
    pub const EMPTY_MAP: Datum = Datum::Map(Map::EMPTY);

    /// A scalar.
    pub fn scalar(atom: impl Into<Atom>) -> Self {
        Self::Set(Set::one(atom.into()))
    }

    /// How many elements or pairs.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Map(map) => map.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The only element of a set of one.
    pub fn as_scalar(&self) -> Option<&Atom> {
        match self {
            Self::Set(set) => set.as_one(),
            Self::Map(_) => None,
        }
    }

    /// The set, if it is one.
    pub fn as_set(&self) -> Option<&Set> {
        match self {
            Self::Set(set) => Some(set),
            Self::Map(_) => None,
        }
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            Self::Set(_) => None,
        }
    }

    /// Every atom in it: elements, or keys and values.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        let (set, map) = match self {
            Self::Set(set) => (Some(set), None),
            Self::Map(map) => (None, Some(map)),
        };
        set.into_iter().flat_map(Set::iter).chain(
            map.into_iter()
                .flat_map(Map::iter)
                .flat_map(|(k, v)| [k, v]),
        )
    }

    /// Whether both share the same storage, so that comparing contents is needless.
    pub fn shares_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => a.shares_with(b),
            (Self::Map(a), Self::Map(b)) => a.shares_with(b),
            _ => false,
        }
    }

    /// Appends canonical RFC 7047 notation.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Set(set) => set.write_json(out),
            Self::Map(map) => map.write_json(out),
        }
    }
}

/// The order of ovsdb-server's `select` with `sort`: fewer elements first, then keys, then values.
impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        self.len()
            .cmp(&other.len())
            .then_with(|| match (self, other) {
                (Self::Set(a), Self::Set(b)) => a.iter().cmp(b.iter()),
                (Self::Map(a), Self::Map(b)) => {
                    let keys = a
                        .iter()
                        .map(|(key, _)| key)
                        .cmp(b.iter().map(|(key, _)| key));
                    keys.then_with(|| {
                        a.iter()
                            .map(|(_, value)| value)
                            .cmp(b.iter().map(|(_, value)| value))
                    })
                }
                (Self::Set(_), Self::Map(_)) => Ordering::Less,
                (Self::Map(_), Self::Set(_)) => Ordering::Greater,
            })
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The text form used inside messages for a set of one (bare), other sets (`[a, b]`) and maps (`{k=v}`).
impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) if set.len() == 1 => {
                write!(f, "{}", set.iter().next().unwrap_or(&Atom::Boolean(false)))
            }
            Self::Set(set) => {
                let parts: Vec<String> = set.iter().map(Atom::to_string).collect();
                write!(f, "[{}]", parts.join(", "))
            }
            Self::Map(map) => {
                let parts: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                write!(f, "{{{}}}", parts.join(", "))
            }
        }
    }
}

impl fmt::Debug for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datum_is_three_words() {
        assert_eq!(size_of::<Datum>(), 24);
    }

    #[test]
    fn shorter_comes_first() {
        let long = Datum::Set(["a", "b"].map(Atom::from).into_iter().collect());
        assert!(Datum::scalar("z") < long);
        assert!(Datum::EMPTY_SET < Datum::scalar("a"));
    }
}
