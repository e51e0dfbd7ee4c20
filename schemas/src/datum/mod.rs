//! Column values (RFC 7047 section 5.1): sets, including scalars and optional scalars, and maps.

mod key_lists;
mod map;
mod map_builder;
mod set;

pub use map::Map;
pub(crate) use map_builder::{Key, MapBuffers, MapBuilder};
pub use set::Set;

use std::cmp::Ordering;
use std::fmt;

use crate::atom::Atom;

/// Value of one column of one row: a set or a map, always sorted and without duplicates.
///
/// A scalar is a set of one element, an optional scalar a set of at most one. Clones are cheap
/// because they share the content. A change to a long set or map costs O(log n), and both versions
/// share the unchanged parts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Datum {
    /// A scalar, an optional scalar or a set.
    Set(Set),
    /// A map.
    Map(Map),
}

impl Datum {
    /// The empty set.
    pub const EMPTY_SET: Datum = Datum::Set(Set::EMPTY);
    /// The empty map.
    pub const EMPTY_MAP: Datum = Datum::Map(Map::EMPTY);

    /// Returns a set of one element.
    pub fn scalar(atom: impl Into<Atom>) -> Self {
        Self::Set(Set::one(atom.into()))
    }

    /// Returns the number of elements or pairs.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Map(map) => map.len(),
        }
    }

    /// `true` if there are no elements or pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element of a set of one. `None`: any other set, or a map.
    pub fn as_scalar(&self) -> Option<&Atom> {
        match self {
            Self::Set(set) => set.as_one(),
            Self::Map(_) => None,
        }
    }

    /// Returns the set. `None`: the value is a map.
    pub fn as_set(&self) -> Option<&Set> {
        match self {
            Self::Set(set) => Some(set),
            Self::Map(_) => None,
        }
    }

    /// Returns the map. `None`: the value is a set.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            Self::Set(_) => None,
        }
    }

    /// `true` if the value is a map.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }

    /// Returns the sum of the first bytes of the strings in a short set, or among the values of a
    /// short map.
    pub(crate) fn first_bytes(&self) -> usize {
        let atoms = match self {
            Self::Set(set) => set.as_slice(),
            Self::Map(map) => map.value_slice(),
        };
        let firsts = atoms.iter().map(|atom| {
            let text = atom.as_str().map(str::as_bytes);
            usize::from(text.and_then(<[u8]>::first).copied().unwrap_or_default())
        });
        firsts.fold(0, usize::wrapping_add)
    }

    /// Iterates over all atoms: elements, or keys and values.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        let (set, map) = match self {
            Self::Set(set) => (Some(set), None),
            Self::Map(map) => (None, Some(map)),
        };
        set.into_iter()
            .flat_map(Set::iter)
            .chain(map.into_iter().flat_map(Map::iter).flat_map(|(k, v)| [k, v]))
    }

    /// `true` if both values use the same storage, and are therefore equal. Distinct storage may
    /// hold equal values.
    pub fn shares_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => a.shares_with(b),
            (Self::Map(a), Self::Map(b)) => a.shares_with(b),
            _ => false,
        }
    }

    /// Appends the value in canonical RFC 7047 notation.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Set(set) => set.write_json(out),
            Self::Map(map) => map.write_json(out),
        }
    }
}

/// The order of `select` with `sort` in ovsdb-server: by number of elements, then by keys, then by
/// values.
impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        self.len().cmp(&other.len()).then_with(|| match (self, other) {
            (Self::Set(a), Self::Set(b)) => a.iter().cmp(b.iter()),
            (Self::Map(a), Self::Map(b)) => {
                let keys = a.iter().map(|(key, _)| key).cmp(b.iter().map(|(key, _)| key));
                keys.then_with(|| {
                    a.iter().map(|(_, value)| value).cmp(b.iter().map(|(_, value)| value))
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

/// Text form in error messages: `a` for a set of one, `[a, b]` for other sets, `{k=v}` for maps.
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
                let parts: Vec<String> =
                    map.iter().map(|(key, value)| format!("{key}={value}")).collect();
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
    fn values_with_fewer_elements_come_first() {
        let long = Datum::Set(["a", "b"].map(Atom::from).into_iter().collect());
        assert!(Datum::scalar("z") < long);
        assert!(Datum::EMPTY_SET < Datum::scalar("a"));
    }
}
