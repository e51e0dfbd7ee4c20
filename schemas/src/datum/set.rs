//! Sets of atoms.

use std::fmt;
use std::hash::{Hash, Hasher};

use imbl::OrdSet;
use rayon::slice::ParallelSliceMut;
use triomphe::ThinArc;

use crate::atom::Atom;

/// Number of elements up to which a changed set is stored as a new slice.
///
/// The first change of a longer set converts it to a tree, which costs O(n) once. Later versions
/// share the unchanged parts of the tree.
const MAX_SLICE_LEN: usize = 32;

/// Least number of elements that are sorted on several threads.
const PARALLEL_SORT_MIN_LEN: usize = 16_384;

/// Sorted set of atoms of one type.
#[derive(Clone, Default)]
pub struct Set(Repr);

#[derive(Clone, Default)]
enum Repr {
    #[default]
    Empty,
    One(Atom),
    /// Two or more elements, sorted.
    Slice(ThinArc<(), Atom>),
    Tree(Box<OrdSet<Atom>>),
}

impl Set {
    /// The empty set.
    pub const EMPTY: Set = Set(Repr::Empty);

    /// Returns a set of one element.
    pub fn one(atom: Atom) -> Self {
        Self(Repr::One(atom))
    }

    /// Returns a set of the atoms, which may be unsorted and contain duplicates.
    pub fn from_vec(mut atoms: Vec<Atom>) -> Self {
        sort(&mut atoms);
        atoms.dedup();
        Self::from_sorted(atoms)
    }

    /// Moves all atoms into a set, leaving the vector empty. `None`: the atoms contain duplicates.
    pub fn from_distinct(atoms: &mut Vec<Atom>) -> Option<Self> {
        sort(atoms);
        let distinct = atoms.windows(2).all(|pair| pair[0] != pair[1]);
        let set = distinct.then(|| Self::drain_sorted(atoms));
        atoms.clear();
        set
    }

    fn from_sorted(mut atoms: Vec<Atom>) -> Self {
        Self::drain_sorted(&mut atoms)
    }

    fn drain_sorted(atoms: &mut Vec<Atom>) -> Self {
        Self(match atoms.len() {
            0 => Repr::Empty,
            1 => atoms.pop().map_or(Repr::Empty, Repr::One),
            _ => Repr::Slice(ThinArc::from_header_and_iter((), atoms.drain(..))),
        })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Empty => 0,
            Repr::One(_) => 1,
            Repr::Slice(atoms) => atoms.slice.len(),
            Repr::Tree(atoms) => atoms.len(),
        }
    }

    /// `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Empty)
    }

    /// Returns the element of a set of one. `None`: the set has another number of elements.
    pub fn as_one(&self) -> Option<&Atom> {
        match &self.0 {
            Repr::One(atom) => Some(atom),
            _ => None,
        }
    }

    /// Returns the elements of a short set. Of a long one: none.
    pub(super) fn as_slice(&self) -> &[Atom] {
        match &self.0 {
            Repr::Empty | Repr::Tree(_) => &[],
            Repr::One(atom) => std::slice::from_ref(atom),
            Repr::Slice(atoms) => &atoms.slice,
        }
    }

    /// `true` if the set contains the element. O(log n).
    pub fn contains(&self, atom: &Atom) -> bool {
        match &self.0 {
            Repr::Empty => false,
            Repr::One(one) => one == atom,
            Repr::Slice(atoms) => atoms.slice.binary_search(atom).is_ok(),
            Repr::Tree(atoms) => atoms.contains(atom),
        }
    }

    /// Iterates over the elements in order.
    pub fn iter(&self) -> SetIter<'_> {
        SetIter(match &self.0 {
            Repr::Empty => IterRepr::Slice([].iter()),
            Repr::One(atom) => IterRepr::Slice(std::slice::from_ref(atom).iter()),
            Repr::Slice(atoms) => IterRepr::Slice(atoms.slice.iter()),
            Repr::Tree(atoms) => IterRepr::Tree(Box::new(atoms.iter())),
        })
    }

    /// Adds an element. False: the set contained it already. O(log n).
    pub fn insert(&mut self, atom: Atom) -> bool {
        if let Repr::Tree(atoms) = &mut self.0 {
            return atoms.insert(atom).is_none();
        }
        if self.contains(&atom) {
            return false;
        }
        if let Some(atoms) = self.as_tree_mut() {
            atoms.insert(atom);
            return true;
        }
        let mut all: Vec<Atom> = self.iter().cloned().collect();
        all.insert(all.partition_point(|other| *other < atom), atom);
        *self = Self::from_sorted(all);
        true
    }

    /// Removes an element. False: the set did not contain it. O(log n).
    pub fn remove(&mut self, atom: &Atom) -> bool {
        if !matches!(self.0, Repr::Tree(_)) && !self.contains(atom) {
            return false;
        }
        if let Some(atoms) = self.as_tree_mut() {
            let removed = atoms.remove(atom).is_some();
            if removed && atoms.len() <= MAX_SLICE_LEN / 2 {
                *self = Self::from_sorted(self.iter().cloned().collect());
            }
            return removed;
        }
        *self = Self::from_sorted(self.iter().filter(|other| *other != atom).cloned().collect());
        true
    }

    /// Removes all elements of `other`.
    pub fn remove_all(&mut self, other: &Self) {
        let found: Vec<Atom> = if other.len() < self.len() {
            other.iter().filter(|atom| self.contains(atom)).cloned().collect()
        } else {
            self.iter().filter(|atom| other.contains(atom)).cloned().collect()
        };
        if found.is_empty() {
            return;
        }
        let left = self.len() - found.len();
        if left > MAX_SLICE_LEN / 2
            && let Some(atoms) = self.as_tree_mut()
        {
            for atom in &found {
                atoms.remove(atom);
            }
            return;
        }
        let mut removed = found.iter().peekable();
        let rest = self.iter().filter(|atom| removed.next_if(|removed| removed == atom).is_none());
        *self = Self::from_sorted(rest.cloned().collect());
    }

    /// Adds all elements of `other`.
    pub fn extend(&mut self, other: &Self) {
        // A mutation of all rows often adds what most of them have. A short set stays as it is then,
        // and a long one is not made a tree.
        if other.iter().all(|atom| self.contains(atom)) {
            return;
        }
        if let Some(atoms) = self.as_tree_mut() {
            atoms.extend(other.iter().cloned());
        } else {
            *self = Self::from_vec(self.iter().chain(other).cloned().collect());
        }
    }

    /// Returns a long set as a tree, after converting it if necessary. `None`: the set is short.
    fn as_tree_mut(&mut self) -> Option<&mut OrdSet<Atom>> {
        if let Repr::Slice(atoms) = &self.0
            && atoms.slice.len() > MAX_SLICE_LEN
        {
            self.0 = Repr::Tree(Box::new(atoms.slice.iter().cloned().collect()));
        }
        match &mut self.0 {
            Repr::Tree(atoms) => Some(atoms),
            _ => None,
        }
    }

    /// Calls `removed` for each element that is only in `self`, and `added` for each that is only
    /// in `new`.
    ///
    /// Shared parts are skipped, so that the cost after few changes to a long set is proportional
    /// to the changes.
    pub fn diff<'a>(
        &'a self,
        new: &'a Self,
        mut removed: impl FnMut(&'a Atom),
        mut added: impl FnMut(&'a Atom),
    ) {
        if let (Repr::Tree(old), Repr::Tree(new)) = (&self.0, &new.0) {
            for item in old.diff(new) {
                match item {
                    imbl::ordset::DiffItem::Add(atom) => added(atom),
                    imbl::ordset::DiffItem::Remove(atom) => removed(atom),
                }
            }
            return;
        }
        if self.shares_with(new) {
            return;
        }
        let (mut old, mut new) = (self.iter().peekable(), new.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (Some(a), Some(b)) if a == b => {
                    old.next();
                    new.next();
                }
                (Some(a), b) if b.is_none_or(|b| a < b) => {
                    removed(a);
                    old.next();
                }
                (_, Some(b)) => {
                    added(b);
                    new.next();
                }
                _ => return,
            }
        }
    }

    /// See [`Datum::shares_with`](super::Datum::shares_with).
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Empty, Repr::Empty) => true,
            (Repr::Slice(a), Repr::Slice(b)) => a.ptr() == b.ptr(),
            (Repr::Tree(a), Repr::Tree(b)) => a.ptr_eq(b),
            _ => false,
        }
    }

    /// Appends the set in RFC 7047 notation.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        if let Repr::One(atom) = &self.0 {
            return atom.write_json(out);
        }
        out.extend_from_slice(b"[\"set\",[");
        for (i, atom) in self.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            atom.write_json(out);
        }
        out.extend_from_slice(b"]]");
    }
}

fn sort(atoms: &mut [Atom]) {
    if atoms.is_sorted() {
        return;
    }
    if let [Atom::Uuid(_), ..] = atoms {
        // Long sets usually hold references. Comparing UUIDs as numbers takes few instructions.
        let number = |atom: &Atom| atom.as_uuid().map_or(0, |uuid| uuid.as_u128());
        if atoms.len() < PARALLEL_SORT_MIN_LEN {
            atoms.sort_unstable_by_key(number);
        } else {
            atoms.par_sort_unstable_by_key(number);
        }
    } else {
        atoms.sort_unstable();
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let (Repr::Tree(a), Repr::Tree(b)) = (&self.0, &other.0) {
            return a.diff(b).next().is_none();
        }
        self.shares_with(other) || self.iter().eq(other.iter())
    }
}

impl Eq for Set {}

impl Hash for Set {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|atom| atom.hash(state));
    }
}

impl FromIterator<Atom> for Set {
    fn from_iter<I: IntoIterator<Item = Atom>>(atoms: I) -> Self {
        let mut atoms = atoms.into_iter();
        // Most sets have at most one element, for which no list is allocated.
        match (atoms.next(), atoms.next()) {
            (None, _) => Self::EMPTY,
            (Some(one), None) => Self::one(one),
            (Some(first), Some(second)) => {
                Self::from_vec([first, second].into_iter().chain(atoms).collect())
            }
        }
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a Atom;
    type IntoIter = SetIter<'a>;

    fn into_iter(self) -> SetIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Iterator over the elements of a [`Set`] in order.
pub struct SetIter<'a>(IterRepr<'a>);

enum IterRepr<'a> {
    Slice(std::slice::Iter<'a, Atom>),
    Tree(Box<imbl::ordset::Iter<'a, Atom, imbl::shared_ptr::DefaultSharedPtr>>),
}

impl<'a> Iterator for SetIter<'a> {
    type Item = &'a Atom;

    fn next(&mut self) -> Option<&'a Atom> {
        match &mut self.0 {
            IterRepr::Slice(iter) => iter.next(),
            IterRepr::Tree(iter) => iter.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_of_any_length_behave_like_ordered_sets(
            start in prop::collection::vec(0_i64..200, 0..120),
            changes in prop::collection::vec((0_i64..200, any::<bool>()), 0..200),
            more in prop::collection::vec(0_i64..200, 0..60),
        ) {
            let mut model: BTreeSet<i64> = start.iter().copied().collect();
            let first: Set = start.into_iter().map(Atom::from).collect();
            let (mut set, before) = (first.clone(), model.clone());
            for (number, add) in changes {
                let atom = Atom::from(number);
                let (changed, expected) = if add {
                    (set.insert(atom.clone()), model.insert(number))
                } else {
                    (set.remove(&atom), model.remove(&number))
                };
                prop_assert_eq!(changed, expected);
                prop_assert_eq!(set.contains(&atom), add);
            }
            set.extend(&more.iter().copied().map(Atom::from).collect());
            model.extend(more);
            let flat: Set = model.iter().copied().map(Atom::from).collect();
            prop_assert!(set.iter().eq(&flat) && set.len() == model.len());
            prop_assert_eq!(&set, &flat);
            let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
            first.diff(
                &set,
                |atom| removed.extend(atom.as_integer()),
                |atom| added.extend(atom.as_integer()),
            );
            prop_assert!(removed.iter().eq(before.difference(&model)));
            prop_assert!(added.iter().eq(model.difference(&before)));
        }
    }
}
