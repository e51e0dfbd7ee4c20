//! Maps from atoms to atoms.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Zip;
use std::slice::Iter;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use triomphe::ThinArc;

use super::Set;
use super::key_lists::{KeyList, share_keys};
use crate::atom::Atom;
use crate::json::write;

/// Number of pairs up to which a map is stored as a shared list of keys and a list of values.
/// Longer maps are trees.
const MAX_SHORT_LEN: usize = 32;

/// Map from atoms of one type to atoms of one type, sorted by key.
#[derive(Clone, Default)]
pub struct Map(Repr);

#[derive(Clone, Default)]
enum Repr {
    #[default]
    Empty,
    /// Values in the order of the keys, which are the header.
    Short(ThinArc<KeyList, Atom>),
    Tree(Box<OrdMap<Atom, Atom>>),
}

impl Map {
    /// The empty map.
    pub const EMPTY: Map = Map(Repr::Empty);

    /// Moves all pairs into a map, leaving the vector empty. `None`: a key occurs twice.
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
            1..=MAX_SHORT_LEN => {
                let keys = share_keys(pairs);
                Repr::Short(ThinArc::from_header_and_iter(
                    keys,
                    pairs.drain(..).map(|(_, value)| value),
                ))
            }
            _ => Repr::Tree(Box::new(pairs.drain(..).collect())),
        })
    }

    /// Returns a map with the keys of this short map and other values, in the order of the keys.
    ///
    /// `None`: the map is not short, or the number of values differs.
    pub(super) fn with_values(&self, values: &mut Vec<Atom>) -> Option<Self> {
        match &self.0 {
            Repr::Short(own) if own.slice.len() == values.len() => {
                let keys = own.header.header.clone();
                Some(Self(Repr::Short(ThinArc::from_header_and_iter(keys, values.drain(..)))))
            }
            _ => None,
        }
    }

    /// `true` if all keys are known to be strings without characters that JSON escapes.
    pub(super) fn has_plain_keys(&self) -> bool {
        matches!(&self.0, Repr::Short(values) if values.header.header.header.header)
    }

    /// Returns the pair at an index in the order of the keys. `None`: out of range, or the map is
    /// not short.
    pub(crate) fn pair(&self, index: usize) -> Option<(&Atom, &Atom)> {
        match &self.0 {
            Repr::Short(values) => Some((keys_of(values).get(index)?, values.slice.get(index)?)),
            Repr::Empty | Repr::Tree(_) => None,
        }
    }

    /// Returns the values of a short map in the order of their keys. Of a long one: none.
    pub(super) fn value_slice(&self) -> &[Atom] {
        match &self.0 {
            Repr::Short(values) => &values.slice,
            Repr::Empty | Repr::Tree(_) => &[],
        }
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Empty => 0,
            Repr::Short(values) => values.slice.len(),
            Repr::Tree(pairs) => pairs.len(),
        }
    }

    /// `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Empty)
    }

    /// Returns the value of a key. O(log n).
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        match &self.0 {
            Repr::Empty => None,
            Repr::Short(values) => {
                let at = keys_of(values).binary_search(key).ok()?;
                values.slice.get(at)
            }
            Repr::Tree(pairs) => pairs.get(key),
        }
    }

    /// Returns the string value of a string key. O(n) for a short map, else O(log n).
    pub fn get_str(&self, key: &str) -> Option<&str> {
        match &self.0 {
            Repr::Empty => None,
            Repr::Short(values) => {
                let mut keys = keys_of(values).iter();
                let at = keys.position(|other| other.as_str() == Some(key))?;
                values.slice.get(at)?.as_str()
            }
            Repr::Tree(pairs) => pairs.get(&Atom::from(key))?.as_str(),
        }
    }

    /// Returns a map with the same keys, whose values `value` computes from the pairs.
    #[must_use]
    pub fn map_values(&self, mut value: impl FnMut(&Atom, &Atom) -> Atom) -> Self {
        Self(match &self.0 {
            Repr::Empty => Repr::Empty,
            Repr::Short(values) => {
                let keys = &values.header.header;
                let pairs = keys.slice.iter().zip(&values.slice);
                Repr::Short(ThinArc::from_header_and_iter(
                    keys.clone(),
                    pairs.map(|(key, old)| value(key, old)),
                ))
            }
            Repr::Tree(pairs) => {
                let new = |(key, old): (&Atom, &Atom)| (key.clone(), value(key, old));
                Repr::Tree(Box::new(pairs.iter().map(new).collect()))
            }
        })
    }

    /// Iterates over the pairs in the order of the keys.
    pub fn iter(&self) -> MapIter<'_> {
        MapIter(match &self.0 {
            Repr::Empty => IterRepr::Slices([].iter().zip(&[])),
            Repr::Short(values) => IterRepr::Slices(keys_of(values).iter().zip(&values.slice)),
            Repr::Tree(pairs) => IterRepr::Tree(Box::new(pairs.iter())),
        })
    }

    /// Sets the value of a key and returns the previous value. O(log n).
    pub fn insert(&mut self, key: Atom, value: Atom) -> Option<Atom> {
        if let Repr::Tree(pairs) = &mut self.0 {
            return pairs.insert(key, value);
        }
        if let Repr::Short(values) = &mut self.0
            && let Ok(at) = keys_of(values).binary_search(&key)
        {
            return Some(replace_value(values, at, value));
        }
        let mut all: Vec<(Atom, Atom)> = self.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.insert(all.partition_point(|(other, _)| *other < key), (key, value));
        *self = Self::from_sorted(all);
        None
    }

    /// Removes a key and returns its value. `None`: the map does not contain the key. O(log n).
    pub fn remove(&mut self, key: &Atom) -> Option<Atom> {
        if let Repr::Tree(pairs) = &mut self.0 {
            let removed = pairs.remove(key);
            if pairs.len() <= MAX_SHORT_LEN / 2 {
                *self =
                    Self::from_sorted(self.iter().map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            return removed;
        }
        let removed = self.get(key).cloned()?;
        let rest = self
            .iter()
            .filter(|(other, _)| *other != key)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        *self = Self::from_sorted(rest);
        Some(removed)
    }

    /// Adds the pairs of `other` whose keys this map does not contain.
    pub fn insert_missing(&mut self, other: &Self) {
        match &mut self.0 {
            Repr::Empty => *self = other.clone(),
            Repr::Tree(pairs) => {
                for (key, value) in other {
                    if !pairs.contains_key(key) {
                        pairs.insert(key.clone(), value.clone());
                    }
                }
            }
            Repr::Short(values) => {
                let own = keys_of(values);
                let is_missing = |(key, _): &(&Atom, &Atom)| own.binary_search(key).is_err();
                let missing: Vec<_> = other.iter().filter(is_missing).collect();
                if !missing.is_empty() {
                    let mut all: Vec<(&Atom, &Atom)> = own.iter().zip(&values.slice).collect();
                    all.extend(missing);
                    all.sort_by_key(|(key, _)| *key);
                    let all = all.into_iter().map(|(key, value)| (key.clone(), value.clone()));
                    *self = Self::from_sorted(all.collect());
                }
            }
        }
    }

    /// Removes the pairs that `other` contains with the same value.
    pub fn remove_pairs(&mut self, other: &Self) {
        let found: Vec<Atom> = if other.len() < self.len() {
            let found = other.iter().filter(|(key, value)| self.get(key) == Some(*value));
            found.map(|(key, _)| key.clone()).collect()
        } else {
            let found = self.iter().filter(|(key, value)| other.get(key) == Some(*value));
            found.map(|(key, _)| key.clone()).collect()
        };
        self.remove_present(&found);
    }

    /// Removes the pairs with these keys.
    pub fn remove_keys(&mut self, keys: &Set) {
        let found: Vec<Atom> = if keys.len() < self.len() {
            keys.iter().filter(|key| self.get(key).is_some()).cloned().collect()
        } else {
            let found = self.iter().filter(|(key, _)| keys.contains(key));
            found.map(|(key, _)| key.clone()).collect()
        };
        self.remove_present(&found);
    }

    /// Removes keys that the map contains, in their order.
    fn remove_present(&mut self, keys: &[Atom]) {
        if keys.is_empty() {
            return;
        }
        if let Repr::Tree(pairs) = &mut self.0
            && pairs.len() > keys.len() + MAX_SHORT_LEN / 2
        {
            for key in keys {
                pairs.remove(key);
            }
            return;
        }
        let mut removed = keys.iter().peekable();
        let rest = self
            .iter()
            .filter(|(key, _)| removed.next_if(|removed| removed == key).is_none())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        *self = Self::from_sorted(rest);
    }

    /// Calls `changed(key, old, new)` for each key that was added, removed, or has another value.
    ///
    /// Shared parts are skipped, so that the cost after few changes to a long map is proportional
    /// to the changes.
    pub fn diff<'a>(
        &'a self,
        new: &'a Self,
        mut changed: impl FnMut(&'a Atom, Option<&'a Atom>, Option<&'a Atom>),
    ) {
        if let (Repr::Tree(old), Repr::Tree(new)) = (&self.0, &new.0) {
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

    /// See [`Datum::shares_with`](super::Datum::shares_with).
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Empty, Repr::Empty) => true,
            (Repr::Short(a), Repr::Short(b)) => a.ptr() == b.ptr(),
            (Repr::Tree(a), Repr::Tree(b)) => a.ptr_eq(b),
            _ => false,
        }
    }

    /// Appends the map in RFC 7047 notation.
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

fn keys_of(values: &ThinArc<KeyList, Atom>) -> &[Atom] {
    &values.header.header.slice
}

/// Sets the value at an index and returns the previous one.
fn replace_value(values: &mut ThinArc<KeyList, Atom>, at: usize, value: Atom) -> Atom {
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
            (Repr::Tree(a), Repr::Tree(b)) => a.diff(b).next().is_none(),
            (Repr::Short(a), Repr::Short(b)) if a.header.header.ptr() == b.header.header.ptr() => {
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

/// The last of several pairs with the same key is used.
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

/// Iterator over the pairs of a [`Map`] in the order of the keys.
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
