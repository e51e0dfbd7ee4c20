//! Objects that are written, in the place of the versions that watches show.

use std::fmt::Debug;
use std::time::Duration;

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Sourced};
use tokio::time::Instant;

use crate::watch::watched::WatchedObject;
use crate::write::write_outcome::Written;

/// An object as it is after its write.
#[derive(Clone, Debug)]
pub(crate) struct DesiredObject {
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
    pub(crate) fn new<K>(old: Option<&Sourced<K>>, new: Option<&Sourced<K>>) -> Self
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
    pub(crate) fn put_into(&self, inventory: &mut Inventory, key: &ObjectKey) {
        let is_same = match (self.uid_in)(inventory, key) {
            Some(uid) => uid == self.uid,
            None => self.is_new,
        };
        match &self.object {
            _ if !is_same => {}
            Some(object) => object.insert_into(key, inventory),
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
pub(crate) struct WrittenObject {
    /// The last request of the write that has succeeded.
    last: Written,
    /// The object. `None`: a further request of the write has failed, so it is not known.
    object: Option<DesiredObject>,
    since: Instant,
}

impl WrittenObject {
    pub(crate) fn new(last: Written, desired: Option<DesiredObject>) -> Self {
        Self { object: desired.map(|desired| desired.after(&last)), last, since: Instant::now() }
    }

    /// The last request of the write that has succeeded.
    pub(crate) fn last(&self) -> &Written {
        &self.last
    }

    /// `true` if the object is known.
    pub(crate) fn is_known(&self) -> bool {
        self.object.is_some()
    }

    /// Time until the watches have not shown the object for `limit`. Then their version counts,
    /// because the object may be gone, or etcd restored.
    pub(crate) fn time_to_expiry(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.since.elapsed())
    }

    /// Replaces the object in an inventory, if it is known.
    pub(crate) fn put_into(&self, inventory: &mut Inventory, key: &ObjectKey) {
        if let Some(object) = &self.object {
            object.put_into(inventory, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_resources::manifests::Origin;
    use patchbay_resources::object::{Object as _, Pod};
    use serde_json::json;

    use super::*;

    fn pod(uid: Option<&str>, label: &str) -> Sourced<Pod> {
        let metadata = json!({
            "namespace": "blue", "name": "a", "uid": uid, "labels": {"app": label},
        });
        Sourced {
            object: serde_json::from_value(json!({ "metadata": metadata })).unwrap(),
            origin: Origin::Cluster,
            position: 0,
        }
    }

    /// The label of the pod in an inventory that had `present` before.
    fn label_after(desired: &DesiredObject, present: Option<&Sourced<Pod>>) -> Option<String> {
        let mut inventory = Inventory::default();
        if let Some(present) = present {
            inventory.pods.insert(present.clone());
        }
        let key = ObjectKey::namespaced("blue", "a");
        desired.put_into(&mut inventory, &key);
        let found = inventory.pods.get(&key)?;
        found.object.labels().get("app").cloned()
    }

    #[test]
    fn a_written_object_replaces_only_itself() {
        let (old, new) = (pod(Some("u"), "old"), pod(Some("u"), "new"));
        let other = pod(Some("v"), "other");
        let patched = DesiredObject::new(Some(&old), Some(&new));
        assert_eq!(label_after(&patched, Some(&old)).as_deref(), Some("new"));
        assert_eq!(label_after(&patched, Some(&other)).as_deref(), Some("other"));
        // The object is gone meanwhile.
        assert_eq!(label_after(&patched, None), None);

        let deleted = DesiredObject::new(Some(&old), None);
        assert_eq!(label_after(&deleted, Some(&old)), None);
        assert_eq!(label_after(&deleted, Some(&other)).as_deref(), Some("other"));

        let created = DesiredObject::new(None, Some(&pod(None, "new")));
        assert_eq!(label_after(&created, None).as_deref(), Some("new"));
        assert_eq!(label_after(&created, Some(&old)).as_deref(), Some("old"));
        let written = Written {
            kind: Pod::KIND,
            key: ObjectKey::namespaced("blue", "a"),
            uid: Some("u".to_owned()),
            version: Some(7),
            is_new: true,
        };
        let written = WrittenObject::new(written, Some(created));
        let mut inventory = Inventory::default();
        written.put_into(&mut inventory, &written.last().key);
        let (_, found) = inventory.pods.iter().next().unwrap();
        let meta = &found.object.metadata;
        let identity = (meta.uid.as_deref(), meta.resource_version.as_deref());
        assert_eq!(identity, (Some("u"), Some("7")));
    }
}
