//! Values that many parts read, each computed once.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::capability::Capability;
use crate::reader::Reads;

/// Number of a shared value. Numbers of forgotten values are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SharedId(pub(crate) u32);

type Entry<C> = (<C as Capability>::SharedKey, Arc<<C as Capability>::Shared>);

/// The shared values that parts have read.
pub(crate) struct SharedValues<C: Capability> {
    ids: HashMap<C::SharedKey, SharedId, RandomState>,
    values: Vec<Option<Entry<C>>>,
    free: Vec<SharedId>,
    /// Values whose reads have changed.
    pub(crate) outdated: BTreeSet<SharedId>,
    /// New values with what they have read, until it is recorded.
    pub(crate) fresh: Vec<(SharedId, Reads<C>)>,
}

impl<C: Capability> fmt::Debug for SharedValues<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValues")
            .field("ids", &self.ids)
            .finish_non_exhaustive()
    }
}

impl<C: Capability> Default for SharedValues<C> {
    fn default() -> Self {
        Self {
            ids: HashMap::default(),
            values: Vec::new(),
            free: Vec::new(),
            outdated: BTreeSet::new(),
            fresh: Vec::new(),
        }
    }
}

impl<C: Capability> SharedValues<C> {
    pub(crate) fn get(&self, key: &C::SharedKey) -> Option<&Arc<C::Shared>> {
        let id = self.ids.get(key)?;
        let (_, value) = self.values[id.0 as usize].as_ref()?;
        Some(value)
    }

    pub(crate) fn key(&self, id: SharedId) -> Option<&C::SharedKey> {
        Some(&self.values.get(id.0 as usize)?.as_ref()?.0)
    }

    /// Adds a value. A value gets a higher number than those that it has read, as long as no number
    /// is used again.
    pub(crate) fn add(&mut self, key: C::SharedKey, value: Arc<C::Shared>, reads: Reads<C>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            SharedId(u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX))
        });
        self.ids.insert(key.clone(), id);
        self.values[id.0 as usize] = Some((key, value));
        self.fresh.push((id, reads));
    }

    /// Replaces a value. Returns `true` if the new one differs.
    pub(crate) fn replace(&mut self, id: SharedId, value: C::Shared) -> bool {
        let Some(Some((_, have))) = self.values.get_mut(id.0 as usize) else {
            return false;
        };
        let differs = **have != value;
        if differs {
            *have = Arc::new(value);
        }
        differs
    }

    pub(crate) fn forget(&mut self, id: SharedId) {
        if let Some((key, _)) = self.values.get_mut(id.0 as usize).and_then(Option::take) {
            self.ids.remove(&key);
            self.outdated.remove(&id);
            self.free.push(id);
        }
    }

    pub(crate) fn ids(&self) -> Vec<SharedId> {
        self.ids.values().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}
