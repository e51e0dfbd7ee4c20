//! Parts to be evaluated, in their order.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::parts::{PartId, Parts};

/// Parts that wait for their evaluation in one pass, and those that have had it.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    /// Parts that were pending when the pass began, the last one first.
    first: Vec<(P, PartId)>,
    /// Parts that others have made pending since.
    later: BTreeMap<P, PartId>,
    /// Evaluated parts, by number.
    evaluated: Vec<bool>,
}

impl<P: Clone + Eq + Hash + Ord> Queue<P> {
    /// A queue of pending parts, some of which may be named several times.
    pub(crate) fn new(mut pending: Vec<PartId>, parts: &Parts<P>) -> Self {
        // Numbers are mostly in the order of parts, and sorted faster.
        pending.sort_unstable();
        pending.dedup();
        let pending = pending.into_iter().rev().filter_map(|id| Some((parts.get(id)?.clone(), id)));
        let mut first: Vec<(P, PartId)> = pending.collect();
        first.sort_by(|one, other| other.cmp(one));
        Self { first, later: BTreeMap::new(), evaluated: vec![false; parts.bound()] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.later.is_empty()
    }

    /// Number of parts that wait.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.later.len()
    }

    /// The next parts among those that were pending when the pass began.
    pub(crate) fn next_parts(&self, count: usize) -> impl Iterator<Item = PartId> + Clone {
        self.first.iter().rev().take(count).map(|(_, id)| *id)
    }

    /// Takes the first part.
    pub(crate) fn pop(&mut self) -> Option<(P, PartId)> {
        let later = self.later.first_key_value().map(|(part, _)| part);
        let is_later = match (self.first.last(), later) {
            (Some((first, _)), Some(later)) => later < first,
            (first, _) => first.is_none(),
        };
        let next = if is_later { self.later.pop_first() } else { self.first.pop() };
        let (_, id) = next.as_ref()?;
        self.evaluated[id.0 as usize] = true;
        next
    }

    /// Adds a part, unless it has been evaluated.
    pub(crate) fn push(&mut self, id: PartId, parts: &Parts<P>) {
        if !self.has_evaluated(id)
            && let Some(part) = parts.get(id)
            && self.first.binary_search_by(|(have, _)| part.cmp(have)).is_err()
        {
            self.later.insert(part.clone(), id);
        }
    }

    pub(crate) fn has_evaluated(&self, id: PartId) -> bool {
        self.evaluated.get(id.0 as usize) == Some(&true)
    }
}
