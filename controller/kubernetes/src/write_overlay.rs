//! Knowledge about `ClusterNetworkConnect`s beyond what the watch has seen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectSpec};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::Object;

use super::projections::WatchedConnect;

/// Own writes that the watch has not seen yet, and the last valid spec of each object.
#[derive(Debug, Default)]
pub(super) struct WriteOverlay {
    written: BTreeMap<String, Arc<WatchedConnect>>,
    /// Number of lists of the watch. Versions of different lists are not compared, because they go
    /// backwards when etcd is restored from a backup.
    lists: u64,
    /// By name, with the object's UID.
    last_valid_specs: BTreeMap<String, (Option<String>, ClusterNetworkConnectSpec)>,
}

impl WriteOverlay {
    /// Records the result of an own write.
    pub(super) fn record_write(&mut self, seen: Arc<WatchedConnect>) {
        self.written.insert(seen.object.name_any(), seen);
    }

    /// Returns all `ClusterNetworkConnect`s by name, each in the newer version of the watch and the
    /// own writes since the last of its `lists`.
    pub(super) fn newest_versions(
        &mut self,
        watched: OrdMap<ObjectKey, Arc<WatchedConnect>>,
        lists: u64,
    ) -> BTreeMap<String, Arc<WatchedConnect>> {
        if std::mem::replace(&mut self.lists, lists) != lists {
            self.written.clear();
        }
        let mut connects: BTreeMap<String, Arc<WatchedConnect>> = watched
            .into_iter()
            .map(|(key, seen)| (key.name, seen))
            .collect();
        self.written
            .retain(|name, written| match connects.get_mut(name) {
                Some(seen) if is_newer(written, seen) => {
                    *seen = written.clone();
                    true
                }
                _ => false,
            });
        self.last_valid_specs.retain(|name, (uid, _)| {
            let seen = connects.get(name);
            seen.is_some_and(|seen| seen.object.metadata.uid == *uid)
        });
        connects
    }

    /// The object to reconcile. If its spec cannot be decoded, the last valid spec takes its place.
    ///
    /// An object without a last valid spec gets no UID. The cluster manager then keeps its tunnel
    /// key reserved, and does nothing else for it.
    pub(super) fn with_last_valid_spec<'s>(
        &mut self,
        seen: &'s WatchedConnect,
    ) -> Cow<'s, ClusterNetworkConnect> {
        let object = &seen.object;
        let name = object.name_any();
        if seen.spec_error.is_none() {
            let last = self.last_valid_specs.get(&name);
            if last.is_none_or(|(_, spec)| *spec != object.spec) {
                let spec = (object.metadata.uid.clone(), object.spec.clone());
                self.last_valid_specs.insert(name, spec);
            }
            return Cow::Borrowed(object);
        }
        let mut stand_in = object.clone();
        match self.last_valid_specs.get(&name) {
            Some((_, spec)) => stand_in.spec = spec.clone(),
            None => stand_in.metadata.uid = None,
        }
        Cow::Owned(stand_in)
    }
}

/// `true` if `one` is a newer version of the same object than `other`.
///
/// Resource versions are compared as numbers. With an API server whose versions are not numbers,
/// the watch wins.
fn is_newer(one: &WatchedConnect, other: &WatchedConnect) -> bool {
    let version = |seen: &WatchedConnect| -> Option<u64> {
        seen.object.metadata.resource_version.as_ref()?.parse().ok()
    };
    let same = one.object.metadata.uid == other.object.metadata.uid;
    let versions = version(one).zip(version(other));
    same && versions.is_some_and(|(one, other)| one > other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::projections;
    use crate::tolerant_object::TolerantObject;

    fn connect(uid: &str, version: &str, connectivity: &str) -> Arc<WatchedConnect> {
        let object = json!({
            "metadata": {"name": "c", "uid": uid, "resourceVersion": version},
            "spec": {"networkSelectors": [], "connectSubnets": [], "connectivity": [connectivity]},
        });
        projections::project_connect(TolerantObject::of(object))
    }

    fn watched(seen: &Arc<WatchedConnect>) -> OrdMap<ObjectKey, Arc<WatchedConnect>> {
        OrdMap::unit(ObjectKey::cluster("c"), seen.clone())
    }

    #[test]
    fn own_writes_hide_older_versions_of_the_watch() {
        let [old, new, newer] =
            ["9", "10", "11"].map(|version| connect("u", version, "PodNetwork"));
        let mut overlay = WriteOverlay::default();
        overlay.record_write(new.clone());
        assert_eq!(overlay.newest_versions(watched(&old), 0)["c"], new);
        assert_eq!(overlay.newest_versions(watched(&old), 0)["c"], new);
        assert_eq!(overlay.newest_versions(watched(&newer), 0)["c"], newer);
        assert_eq!(overlay.newest_versions(watched(&old), 0)["c"], old);

        // A list after a restore of etcd has lower versions.
        overlay.record_write(new.clone());
        assert_eq!(overlay.newest_versions(watched(&old), 1)["c"], old);

        let another = connect("another", "1", "PodNetwork");
        overlay.record_write(new.clone());
        assert_eq!(overlay.newest_versions(watched(&another), 1)["c"], another);
        assert!(overlay.newest_versions(OrdMap::new(), 1).is_empty());
    }

    #[test]
    fn an_undecodable_spec_is_replaced_by_the_last_valid_one() {
        let good = connect("u", "1", "PodNetwork");
        let bad = connect("u", "2", "HostNetwork");
        assert!(bad.spec_error.is_some());
        let mut overlay = WriteOverlay::default();
        let never_valid = overlay.with_last_valid_spec(&bad).into_owned();
        assert_eq!(
            (never_valid.uid(), never_valid.spec.connectivity.len()),
            (None, 0)
        );
        overlay.with_last_valid_spec(&good);
        let stand_in = overlay.with_last_valid_spec(&bad).into_owned();
        assert_eq!(
            (stand_in.uid(), &stand_in.spec),
            (good.object.uid(), &good.object.spec)
        );
        overlay.newest_versions(OrdMap::new(), 0);
        assert_eq!(overlay.with_last_valid_spec(&bad).uid(), None);
    }
}
