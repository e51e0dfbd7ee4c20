//! Maps from atoms to atoms.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Zip;
use std::slice::Iter;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use triomphe::ThinArc;

use super::keys::{self, Keys};
use crate::atom::Atom;
use crate::json::write;

/// Up to this many pairs a map is a sorted list of keys, shared with maps of the same keys, and its values; longer ones
/// are trees that share structure.
const FEW: usize = 32;

/// A map from atoms of one type to atoms of one type, sorted by key.
#[derive(Clone, Default)]
pub struct Map(Repr);

#[derive(Clone, Default)]
enum Repr {
    #[default]
    Empty,
    /// The values, in the order of the keys.
    Few(ThinArc<Keys, Atom>),
    Many(Box<OrdMap<Atom, Atom>>),
}

impl Map {
    /// The map of nothing.
    pub const EMPTY: Map = Map(Repr::Empty);

    /// A map of the pairs of a vector, which is left empty; none when a key comes twice.
    pub fn from_distinct(pairs: &mut Vec<(Atom, Atom)>) -> Option<Self> {
        if !pairs.is_sorted_by(|a, b| a.0 <= b.0) {
            pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        }
        let distinct = pairs.windows(2).all(|two| two[0].0 != two[1].0);
        let map = distinct.then(|| Self::drain_sorted(pairs));
        pairs.clear();
        map
    }

    fn from_sorted(mut pairs: Vec<(Atom, Atom)>) -> Self {
        Self::drain_sorted(&mut pairs)
    }

    fn drain_sorted(pairs: &mut Vec<(Atom, Atom)>) -> Self {
        Self(match pairs.len() {
            0 => Repr::Empty,
            1..=FEW => {
                let keys = keys::shared(pairs);
                Repr::Few(ThinArc::from_header_and_iter(
                    keys,
                    pairs.drain(..).map(|(_, value)| value),
                ))
            }
            _ => Repr::Many(Box::new(pairs.drain(..).collect())),
        })
    }

    /// A map with all the keys of another one, if that is short, and other values, as many, in the order of the keys.
    pub(super) fn with_values(&self, values: &mut Vec<Atom>) -> Option<Self> {
        match &self.0 {
            Repr::Few(like) if like.slice.len() == values.len() => {
                let keys = like.header.header.clone();
                Some(Self(Repr::Few(ThinArc::from_header_and_iter(
                    keys,
                    values.drain(..),
                ))))
            }
            _ => None,
        }
    }

    /// Whether all keys are known to be strings that stand in JSON as they are.
    pub(super) fn has_plain_keys(&self) -> bool {
        matches!(&self.0, Repr::Few(values) if values.header.header.header.header)
    }

    /// The pair at a place in the order of the keys; none of a long map.
    pub(crate) fn pair(&self, at: usize) -> Option<(&Atom, &Atom)> {
        match &self.0 {
            Repr::Few(values) => Some((keys_of(values).get(at)?, values.slice.get(at)?)),
            Repr::Empty | Repr::Many(_) => None,
        }
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Empty => 0,
            Repr::Few(values) => values.slice.len(),
            Repr::Many(pairs) => pairs.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Empty)
    }

    /// The value of a key. O(log n).
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        match &self.0 {
            Repr::Empty => None,
            Repr::Few(values) => {
                let at = keys_of(values).binary_search(key).ok()?;
                values.slice.get(at)
            }
            Repr::Many(pairs) => pairs.get(key),
        }
    }

    /// The value of a string key. O(n) for a short map, else O(log n).
    pub fn get_str(&self, key: &str) -> Option<&str> {
        match &self.0 {
            Repr::Empty => None,
            Repr::Few(values) => {
                let mut keys = keys_of(values).iter();
                let at = keys.position(|have| have.as_str() == Some(key))?;
                values.slice.get(at)?.as_str()
            }
            Repr::Many(pairs) => pairs.get(&Atom::from(key))?.as_str(),
        }
    }

    /// A map of the same keys, and of the values that `value` gives for the pairs here.
    #[must_use]
    pub fn map_values(&self, mut value: impl FnMut(&Atom, &Atom) -> Atom) -> Self {
        Self(match &self.0 {
            Repr::Empty => Repr::Empty,
            Repr::Few(values) => {
                let keys = &values.header.header;
                let pairs = keys.slice.iter().zip(&values.slice);
                let values = pairs.map(|(key, have)| value(key, have));
                Repr::Few(ThinArc::from_header_and_iter(keys.clone(), values))
            }
            Repr::Many(pairs) => {
                let pairs = pairs.iter();
                let pairs = pairs.map(|(key, have)| (key.clone(), value(key, have)));
                Repr::Many(Box::new(pairs.collect()))
            }
        })
    }

    /// The pairs in order of their keys.
    pub fn iter(&self) -> MapIter<'_> {
        MapIter(match &self.0 {
            Repr::Empty => IterRepr::Slices([].iter().zip(&[])),
            Repr::Few(values) => IterRepr::Slices(keys_of(values).iter().zip(&values.slice)),
            Repr::Many(pairs) => IterRepr::Tree(Box::new(pairs.iter())),
        })
    }

    /// Sets the value of a key and returns the former one. O(log n).
    pub fn insert(&mut self, key: Atom, value: Atom) -> Option<Atom> {
        if let Repr::Many(pairs) = &mut self.0 {
            return pairs.insert(key, value);
        }
        if let Repr::Few(values) = &mut self.0
            && let Ok(at) = keys_of(values).binary_search(&key)
        {
            return Some(replace_value(values, at, value));
        }
        let mut all: Vec<(Atom, Atom)> = self.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.insert(all.partition_point(|(have, _)| *have < key), (key, value));
        *self = Self::from_sorted(all);
        None
    }

    /// Removes a key and returns its value. O(log n).
    pub fn remove(&mut self, key: &Atom) -> Option<Atom> {
        if let Repr::Many(pairs) = &mut self.0 {
            let removed = pairs.remove(key);
            if pairs.len() <= FEW / 2 {
                *self =
                    Self::from_sorted(self.iter().map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            return removed;
        }
        let removed = self.get(key).cloned()?;
        let rest = self
            .iter()
            .filter(|(have, _)| *have != key)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        *self = Self::from_sorted(rest);
        Some(removed)
    }

    /// Calls `changed(key, old, new)` for each key whose value differs, is gone or is new.
    /// Parts that both share are skipped.
    pub fn diff<'a>(
        &'a self,
        new: &'a Self,
        mut changed: impl FnMut(&'a Atom, Option<&'a Atom>, Option<&'a Atom>),
    ) {
        if let (Repr::Many(old), Repr::Many(new)) = (&self.0, &new.0) {
            for item in old.diff(new) {
                match item {
                    DiffItem::Add(key, value) => changed(key, None, Some(value)),
                    DiffItem::Remove(key, value) => changed(key, Some(value), None),
                    DiffItem::Update { old, new } => changed(old.0, Some(old.1), Some(new.1)),
                }
            }
            return;
        }
        if self.shares_with(new) {
            return;
        }
        let (mut old, mut new) = (self.iter().peekable(), new.iter().peekable());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (Some((key, a)), Some((same, b))) if key == same => {
                    if a != b {
                        changed(key, Some(a), Some(b));
                    }
                    old.next();
                    new.next();
                }
                (Some((key, value)), other) if other.is_none_or(|(other, _)| key < other) => {
                    changed(key, Some(value), None);
                    old.next();
                }
                (_, Some((key, value))) => {
                    changed(key, None, Some(value));
                    new.next();
                }
                _ => return,
            }
        }
    }

    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Empty, Repr::Empty) => true,
            (Repr::Few(a), Repr::Few(b)) => a.ptr() == b.ptr(),
            (Repr::Many(a), Repr::Many(b)) => a.ptr_eq(b),
            _ => false,
        }
    }

    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let are_plain = self.has_plain_keys();
        out.extend_from_slice(b"[\"map\",[");
        for (i, (key, value)) in self.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
            match key {
                Atom::String(key) if are_plain => write::plain_string(out, key.as_bytes()),
                key => key.write_json(out),
            }
            out.push(b',');
            value.write_json(out);
            out.push(b']');
        }
        out.extend_from_slice(b"]]");
    }
}

fn keys_of(values: &ThinArc<Keys, Atom>) -> &[Atom] {
    &values.header.header.slice
}

/// Sets the value at a place and returns the former one.
fn replace_value(values: &mut ThinArc<Keys, Atom>, at: usize, value: Atom) -> Atom {
    let former = values.slice[at].clone();
    let mut new: Vec<Atom> = values.slice.to_vec();
    new[at] = value;
    *values = ThinArc::from_header_and_iter(values.header.header.clone(), new.into_iter());
    former
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (&self.0, &other.0) {
            (Repr::Many(a), Repr::Many(b)) => a.diff(b).next().is_none(),
            (Repr::Few(a), Repr::Few(b)) if a.header.header.ptr() == b.header.header.ptr() => {
                a.ptr() == b.ptr() || a.slice == b.slice
            }
            _ => self.shares_with(other) || self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|pair| pair.hash(state));
    }
}

/// Later pairs win over earlier ones of the same key.
impl FromIterator<(Atom, Atom)> for Map {
    fn from_iter<I: IntoIterator<Item = (Atom, Atom)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        if pairs.is_sorted_by(|a, b| a.0 < b.0) {
            return Self::from_sorted(pairs);
        }
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        Self::from_sorted(pairs)
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Atom, &'a Atom);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The pairs of a [`Map`] in order of their keys.
pub struct MapIter<'a>(IterRepr<'a>);

enum IterRepr<'a> {
    Slices(Zip<Iter<'a, Atom>, Iter<'a, Atom>>),
    Tree(Box<imbl::ordmap::Iter<'a, Atom, Atom, imbl::shared_ptr::DefaultSharedPtr>>),
}

impl<'a> Iterator for MapIter<'a> {
    type Item = (&'a Atom, &'a Atom);

    fn next(&mut self) -> Option<(&'a Atom, &'a Atom)> {
        match &mut self.0 {
            IterRepr::Slices(iter) => iter.next(),
            IterRepr::Tree(iter) => iter.next(),
        }
    }
}
