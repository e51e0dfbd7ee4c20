//! Parts by number, so that many places can refer to a part in four bytes.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Number of a part. Numbers of forgotten parts are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct PartId(pub(crate) u32);

/// The parts that an engine knows.
#[derive(Debug)]
pub(crate) struct Parts<P> {
    keys: Vec<Option<P>>,
    ids: HashMap<P, PartId, RandomState>,
    free: Vec<PartId>,
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            ids: HashMap::default(),
            free: Vec::new(),
        }
    }
}

impl<P: Clone + Eq + Hash> Parts<P> {
    /// Number of a part, a new one if it is not known.
    pub(crate) fn id(&mut self, part: P) -> PartId {
        if let Some(id) = self.ids.get(&part) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.keys.push(None);
            PartId(u32::try_from(self.keys.len() - 1).unwrap_or(u32::MAX))
        });
        self.keys[id.0 as usize] = Some(part.clone());
        self.ids.insert(part, id);
        id
    }

    /// Number of a part that is known.
    pub(crate) fn find(&self, part: &P) -> Option<PartId> {
        self.ids.get(part).copied()
    }

    pub(crate) fn get(&self, id: PartId) -> Option<&P> {
        self.keys.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn forget(&mut self, id: PartId) {
        if let Some(part) = self.keys.get_mut(id.0 as usize).and_then(Option::take) {
            self.ids.remove(&part);
            self.free.push(id);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&P, PartId)> {
        self.ids.iter().map(|(part, id)| (part, *id))
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}
