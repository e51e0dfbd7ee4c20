//! Tunnel keys of connect routers.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::DatapathKey;

/// Allocator of tunnel keys for connect routers. It allocates the next free key after the last one.
///
/// Transit routers of layer2 networks have keys of the same range, which are passed to each call.
#[derive(Debug)]
pub(super) struct RouterKeys {
    by_connect: BTreeMap<String, DatapathKey>,
    taken: BTreeSet<DatapathKey>,
    last: Option<DatapathKey>,
}

impl RouterKeys {
    /// Makes an allocator without allocated keys.
    pub(super) const fn new() -> Self {
        Self {
            by_connect: BTreeMap::new(),
            taken: BTreeSet::new(),
            last: None,
        }
    }

    /// Key of a connect.
    pub(super) fn of(&self, connect: &str) -> Option<DatapathKey> {
        self.by_connect.get(connect).copied()
    }

    /// Allocates this key for a connect. Returns `false` if another connect has it.
    pub(super) fn reserve(&mut self, connect: &str, key: DatapathKey) -> bool {
        let free = self.taken.insert(key);
        if free {
            self.by_connect.insert(connect.to_owned(), key);
        }
        free
    }

    /// Allocates the next free key for a connect. `None`: no key is free.
    pub(super) fn allocate(
        &mut self,
        connect: &str,
        of_networks: &BTreeSet<DatapathKey>,
    ) -> Option<DatapathKey> {
        let (first, end) = DatapathKey::ALLOCATABLE.into_inner();
        let (first, end) = (first.get(), end.get());
        let next = self.last.map_or(first, |last| last.get() + 1);
        let key = (next..=end)
            .chain(first..next)
            .filter_map(|key| DatapathKey::try_new(key.into()).ok())
            .find(|key| !self.taken.contains(key) && !of_networks.contains(key))?;
        self.last = Some(key);
        self.reserve(connect, key);
        Some(key)
    }

    /// Releases the key of a connect.
    pub(super) fn release(&mut self, connect: &str) {
        if let Some(key) = self.by_connect.remove(connect) {
            self.taken.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: i64) -> DatapathKey {
        DatapathKey::try_new(value).unwrap()
    }

    #[test]
    fn keys_are_allocated_in_a_circle() {
        let mut keys = RouterKeys::new();
        let none = BTreeSet::new();
        assert_eq!(keys.allocate("one", &none), Some(key(16_715_779)));
        assert_eq!(keys.allocate("two", &none), Some(key(16_715_780)));
        keys.release("one");
        assert_eq!(keys.of("one"), None);
        assert_eq!(keys.allocate("one", &none), Some(key(16_715_781)));
        keys.last = Some(key(0xff_ffff));
        assert_eq!(keys.allocate("three", &none), Some(key(16_715_779)));
        assert_eq!(keys.allocate("four", &none), Some(key(16_715_782)));
    }

    #[test]
    fn keys_in_use_are_skipped() {
        let mut keys = RouterKeys::new();
        assert!(keys.reserve("one", key(16_715_780)));
        assert!(!keys.reserve("two", key(16_715_780)));
        let of_networks = BTreeSet::from([key(16_715_779)]);
        assert_eq!(keys.allocate("two", &of_networks), Some(key(16_715_781)));
    }
}
