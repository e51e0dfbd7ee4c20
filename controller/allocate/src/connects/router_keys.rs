//! Tunnel keys of connect routers.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::DatapathKey;

use crate::router_key_cursor::RouterKeyCursor;

/// Allocator of tunnel keys for connect routers. It allocates the next free key after the last one.
///
/// Transit routers of layer2 networks have keys of the same range, which are passed to each call.
#[derive(Debug, Default)]
pub(super) struct RouterKeys {
    by_connect: BTreeMap<String, DatapathKey>,
    taken: BTreeSet<DatapathKey>,
    cursor: RouterKeyCursor,
}

impl RouterKeys {
    /// Shares the position with the allocator of keys of networks.
    pub(super) fn share(&mut self, cursor: RouterKeyCursor) {
        self.cursor = cursor;
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
        let is_free = |key| !self.taken.contains(&key) && !of_networks.contains(&key);
        let key = self.cursor.next(is_free)?;
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
        let mut keys = RouterKeys::default();
        let none = BTreeSet::new();
        assert_eq!(keys.allocate("one", &none), Some(key(16_715_779)));
        assert_eq!(keys.allocate("two", &none), Some(key(16_715_780)));
        keys.release("one");
        assert_eq!(keys.of("one"), None);
        assert_eq!(keys.allocate("one", &none), Some(key(16_715_781)));
        let up_to_last = (16_715_782..0xff_ffff).map(key).collect();
        assert_eq!(keys.allocate("last", &up_to_last), Some(key(0xff_ffff)));
        assert_eq!(keys.allocate("three", &none), Some(key(16_715_779)));
        assert_eq!(keys.allocate("four", &none), Some(key(16_715_782)));
    }

    #[test]
    fn keys_in_use_are_skipped() {
        let mut keys = RouterKeys::default();
        assert!(keys.reserve("one", key(16_715_780)));
        assert!(!keys.reserve("two", key(16_715_780)));
        let of_networks = BTreeSet::from([key(16_715_779)]);
        assert_eq!(keys.allocate("two", &of_networks), Some(key(16_715_781)));
    }
}
