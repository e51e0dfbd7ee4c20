//! Ids and tunnel keys of networks between two passes.

use std::collections::BTreeMap;

use patchbay_model::{DatapathKey, NetworkId};
use patchbay_resources::manifests::ObjectKey;

use crate::cursor::Cursor;
use crate::router_key_cursor::RouterKeyCursor;

/// Numbers of networks at the end of the last pass, and the positions of their allocators.
#[derive(Clone, Debug, Default)]
pub(in crate::networks) struct NetworkIdMemory {
    pub(super) cursor: Cursor,
    pub(super) router_keys: RouterKeyCursor,
    pub(super) known: BTreeMap<String, NetworkNumbers>,
    /// Definitions of primary networks, by namespace.
    pub(super) primary: BTreeMap<String, ObjectKey>,
}

impl NetworkIdMemory {
    /// Memory of a manager that shares the position of the allocator of tunnel keys.
    pub(in crate::networks) fn with_router_keys(router_keys: RouterKeyCursor) -> Self {
        Self { router_keys, ..Self::default() }
    }

    /// Forgets a network that is gone.
    pub(in crate::networks) fn forget(&mut self, network: &str) {
        self.known.remove(network);
    }
}

/// Numbers of one network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NetworkNumbers {
    pub(super) id: NetworkId,
    /// Tunnel keys; empty for networks whose keys follow from their ids.
    pub(super) keys: Vec<DatapathKey>,
}
