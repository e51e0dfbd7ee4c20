//! Values that many parts read, each computed once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::capability::Capability;
use crate::reader::Reads;
use crate::sources::Source;

/// Number of a shared value. Numbers of forgotten values are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SharedId(pub(crate) u32);

/// A shared value.
struct Known<C: Capability> {
    source: Source,
    key: C::SharedKey,
    value: Arc<C::Shared>,
}

/// The shared values that parts have read.
pub(crate) struct SharedValues<C: Capability> {
    /// Values by the hashes of their sources.
    ids: HashTable<SharedId>,
    values: Vec<Option<Known<C>>>,
    free: Vec<SharedId>,
    /// Values whose reads have changed.
    pub(crate) outdated: BTreeSet<SharedId>,
    /// New values with what they have read, until it is recorded.
    pub(crate) fresh: Vec<(SharedId, Reads<C>)>,
}

impl<C: Capability> fmt::Debug for SharedValues<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValues").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<C: Capability> Default for SharedValues<C> {
    fn default() -> Self {
        Self {
            ids: HashTable::new(),
            values: Vec::new(),
            free: Vec::new(),
            outdated: BTreeSet::new(),
            fresh: Vec::new(),
        }
    }
}

impl<C: Capability> SharedValues<C> {
    /// The value of a key, whose source is this one.
    pub(crate) fn get(&self, source: Source, key: &C::SharedKey) -> Option<&Arc<C::Shared>> {
        let has_key = |id: &SharedId| self.key(*id) == Some(key);
        let id = self.ids.find(source.hash(), has_key)?;
        Some(&known(&self.values, *id)?.value)
    }

    pub(crate) fn key(&self, id: SharedId) -> Option<&C::SharedKey> {
        Some(&known(&self.values, id)?.key)
    }

    pub(crate) fn source(&self, id: SharedId) -> Option<Source> {
        Some(known(&self.values, id)?.source)
    }

    /// Adds a value. A value gets a higher number than those that it has read, as long as no number
    /// is used again.
    pub(crate) fn add(
        &mut self,
        (source, key): (Source, C::SharedKey),
        value: Arc<C::Shared>,
        reads: Reads<C>,
    ) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            SharedId(u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX))
        });
        self.values[id.0 as usize] = Some(Known { source, key, value });
        let values = &self.values;
        let hash_of = |id: &SharedId| known(values, *id).map_or(0, |known| known.source.hash());
        self.ids.insert_unique(source.hash(), id, hash_of);
        self.fresh.push((id, reads));
    }

    /// Replaces a value. Returns `true` if the new one differs.
    pub(crate) fn replace(&mut self, id: SharedId, value: C::Shared) -> bool {
        let Some(Some(have)) = self.values.get_mut(id.0 as usize) else {
            return false;
        };
        let differs = *have.value != value;
        if differs {
            have.value = Arc::new(value);
        }
        differs
    }

    pub(crate) fn forget(&mut self, id: SharedId) {
        let known = self.values.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(Known { source, .. }) = known {
            if let Ok(entry) = self.ids.find_entry(source.hash(), |have| *have == id) {
                entry.remove();
            }
            self.outdated.remove(&id);
            self.free.push(id);
        }
    }

    pub(crate) fn ids(&self) -> Vec<SharedId> {
        self.ids.iter().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

fn known<C: Capability>(values: &[Option<Known<C>>], id: SharedId) -> Option<&Known<C>> {
    values.get(id.0 as usize)?.as_ref()
}
