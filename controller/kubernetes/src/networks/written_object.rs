//! Objects that are written, in the place of the versions that watches show.

use std::fmt::Debug;
use std::time::Duration;

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Sourced};
use tokio::time::Instant;

use super::watched::WatchedObject;
use super::write_outcome::Written;

/// An object as it is after its write.
#[derive(Clone, Debug)]
pub(super) struct DesiredObject {
    /// `None`: it is deleted.
    object: Option<WatchedObject>,
    /// UID of the object. `None`: the write creates it, and has no answer.
    uid: Option<String>,
    /// `true` if the write creates the object.
    is_new: bool,
    /// UID of the object in an inventory. `None`: it is absent.
    uid_in: fn(&Inventory, &ObjectKey) -> Option<Option<String>>,
    remove: fn(&mut Inventory, &ObjectKey),
}

impl DesiredObject {
    /// The outcome of a write that makes `new` of `old`.
    pub(super) fn new<K>(old: Option<&Sourced<K>>, new: Option<&Sourced<K>>) -> Self
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        Self {
            object: new.map(|new| WatchedObject::new(new.clone())),
            uid: old.and_then(|old| old.object.uid()),
            is_new: old.is_none(),
            uid_in: |inventory, key| {
                let found = K::objects(inventory).get(key);
                found.map(|found| found.object.uid())
            },
            remove: |inventory, key| {
                K::objects_mut(inventory).remove(key);
            },
        }
    }

    /// Replaces the object in an inventory, unless that has another object of the name.
    pub(super) fn put_into(&self, inventory: &mut Inventory, key: &ObjectKey) {
        let is_same = match (self.uid_in)(inventory, key) {
            Some(uid) => uid == self.uid,
            None => self.is_new,
        };
        match &self.object {
            _ if !is_same => {}
            Some(object) => object.insert_into(inventory),
            None => (self.remove)(inventory, key),
        }
    }

    /// The object with the UID and the version that the write has given it.
    fn after(mut self, written: &Written) -> Self {
        self.object = self.object.map(|object| object.after(written));
        self.uid.clone_from(&written.uid);
        self
    }
}

/// An object that is written, and that the watches do not show yet.
#[derive(Debug)]
pub(super) struct WrittenObject {
    /// The last request of the write that has succeeded.
    last: Written,
    /// The object. `None`: a further request of the write has failed, so it is not known.
    object: Option<DesiredObject>,
    since: Instant,
}

impl WrittenObject {
    pub(super) fn new(last: Written, desired: Option<DesiredObject>) -> Self {
        Self {
            object: desired.map(|desired| desired.after(&last)),
            last,
            since: Instant::now(),
        }
    }

    /// The last request of the write that has succeeded.
    pub(super) fn last(&self) -> &Written {
        &self.last
    }

    /// `true` if the object is known.
    pub(super) fn is_known(&self) -> bool {
        self.object.is_some()
    }

    /// Time until the watches have not shown the object for `limit`. Then their version counts,
    /// because the object may be gone, or etcd restored.
    pub(super) fn time_to_expiry(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.since.elapsed())
    }

    /// Replaces the object in an inventory, if it is known.
    pub(super) fn put_into(&self, inventory: &mut Inventory, key: &ObjectKey) {
        if let Some(object) = &self.object {
            object.put_into(inventory, key);
        }
    }
}
