//! Position of the allocator of tunnel keys of routers.

use std::sync::{Arc, Mutex, PoisonError};

use patchbay_model::DatapathKey;

use crate::cursor::Cursor;

/// Position of the allocator of tunnel keys of routers. Transit routers of layer2 networks and
/// connect routers have one, as in OVN-Kubernetes. Clones share it.
///
/// A key that one of its users has allocated is behind the position. The others therefore skip it
/// even if they do not see the annotation with the key yet.
#[derive(Clone, Debug, Default)]
pub struct RouterKeyCursor(Arc<Mutex<Cursor>>);

impl RouterKeyCursor {
    /// Takes the first free key after the last one that was taken. `None`: no key is free.
    pub(crate) fn next(&self, is_free: impl Fn(DatapathKey) -> bool) -> Option<DatapathKey> {
        let (first, last) = DatapathKey::ALLOCATABLE.into_inner();
        let key = |number: u32| DatapathKey::try_new(number.into()).ok();
        let mut cursor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            cursor.next(first.get()..=last.get(), |number| key(number).is_some_and(&is_free))?;
        key(found)
    }
}
