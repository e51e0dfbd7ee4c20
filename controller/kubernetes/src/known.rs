//! What is known of connects beyond what the watch has seen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_resources::object::Object;

use super::objects::SeenConnect;
use super::store::Objects;
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectSpec};

/// Our own writes that the watch has not seen yet, and specs as they were when they could be understood.
#[derive(Debug, Default)]
pub(super) struct Known {
    written: BTreeMap<String, Arc<SeenConnect>>,
    /// With the object's UID.
    understood: BTreeMap<String, (Option<String>, ClusterNetworkConnectSpec)>,
}

impl Known {
    /// Notes a connect as a write has left it.
    pub(super) fn wrote(&mut self, seen: Arc<SeenConnect>) {
        self.written.insert(seen.object.name_any(), seen);
    }

    /// All connects by name: as the watch has seen them or as we have left them, whichever is newer.
    pub(super) fn newest(
        &mut self,
        watched: Objects<Arc<SeenConnect>>,
    ) -> BTreeMap<String, Arc<SeenConnect>> {
        let watched = watched.into_iter();
        let mut connects: BTreeMap<String, Arc<SeenConnect>> =
            watched.map(|(key, seen)| (key.name, seen)).collect();
        self.written
            .retain(|name, written| match connects.get_mut(name) {
                Some(seen) if is_newer(written, seen) => {
                    *seen = written.clone();
                    true
                }
                _ => false,
            });
        self.understood.retain(|name, (uid, _)| {
            let seen = connects.get(name);
            seen.is_some_and(|seen| seen.object.metadata.uid == *uid)
        });
        connects
    }

    /// A connect to reconcile. One whose spec cannot be understood is taken as it was when it could. If it never could,
    /// it keeps its tunnel key and takes no part, as an object of its own: it has no UID until it is understood.
    pub(super) fn understand<'s>(
        &mut self,
        seen: &'s SeenConnect,
    ) -> Cow<'s, ClusterNetworkConnect> {
        let object = &seen.object;
        let name = object.name_any();
        if seen.unreadable.is_none() {
            let known = self.understood.get(&name);
            if known.is_none_or(|(_, spec)| *spec != object.spec) {
                let spec = (object.metadata.uid.clone(), object.spec.clone());
                self.understood.insert(name, spec);
            }
            return Cow::Borrowed(object);
        }
        let mut stand_in = object.clone();
        match self.understood.get(&name) {
            Some((_, spec)) => stand_in.spec = spec.clone(),
            None => stand_in.metadata.uid = None,
        }
        Cow::Owned(stand_in)
    }
}

/// Whether one version of an object is newer than the other. Resource versions grow as numbers; an API server of which
/// that is not true makes us believe the watch.
fn is_newer(one: &SeenConnect, other: &SeenConnect) -> bool {
    let version = |seen: &SeenConnect| -> Option<u64> {
        seen.object.metadata.resource_version.as_ref()?.parse().ok()
    };
    let same = one.object.metadata.uid == other.object.metadata.uid;
    let versions = version(one).zip(version(other));
    same && versions.is_some_and(|(one, other)| one > other)
}

/// Whether a watch has seen at least what a list has shown. Of an object that is gone since it has not.
pub(super) fn has_caught_up(
    watched: &Objects<Arc<SeenConnect>>,
    listed: &[Arc<SeenConnect>],
) -> bool {
    let watched: BTreeMap<&str, &SeenConnect> = watched
        .iter()
        .map(|(key, seen)| (key.name.as_str(), &**seen))
        .collect();
    listed.iter().all(|listed| {
        let seen = watched.get(listed.object.name_any().as_str());
        seen.is_some_and(|seen| {
            seen.object.metadata.uid == listed.object.metadata.uid && !is_newer(listed, seen)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects;
    use patchbay_resources::manifests::ObjectKey;

    fn connect(uid: &str, version: &str, connectivity: &str) -> Arc<SeenConnect> {
        let object = json!({
            "metadata": {"name": "c", "uid": uid, "resourceVersion": version},
            "spec": {"networkSelectors": [], "connectSubnets": [], "connectivity": [connectivity]},
        });
        objects::connect(serde_json::from_value(object).unwrap())
    }

    fn watched(seen: &Arc<SeenConnect>) -> Objects<Arc<SeenConnect>> {
        Objects::unit(ObjectKey::cluster("c"), seen.clone())
    }

    #[test]
    fn own_writes_count_until_the_watch_has_seen_them() {
        let [old, new, newer] =
            ["9", "10", "11"].map(|version| connect("u", version, "PodNetwork"));
        let mut known = Known::default();
        known.wrote(new.clone());
        assert_eq!(known.newest(watched(&old))["c"], new);
        assert_eq!(known.newest(watched(&old))["c"], new);
        assert_eq!(known.newest(watched(&newer))["c"], newer);
        assert_eq!(known.newest(watched(&old))["c"], old);

        let another = connect("another", "1", "PodNetwork");
        known.wrote(new.clone());
        assert_eq!(known.newest(watched(&another))["c"], another);
        assert!(known.newest(Objects::new()).is_empty());
    }

    #[test]
    fn what_cannot_be_understood_is_as_it_was_or_takes_no_part() {
        let good = connect("u", "1", "PodNetwork");
        let bad = connect("u", "2", "HostNetwork");
        assert!(bad.unreadable.is_some());
        let mut known = Known::default();
        let stranger = known.understand(&bad).into_owned();
        assert_eq!(
            (stranger.uid(), stranger.spec.connectivity.len()),
            (None, 0)
        );
        known.understand(&good);
        let stand_in = known.understand(&bad).into_owned();
        assert_eq!(
            (stand_in.uid(), &stand_in.spec),
            (good.object.uid(), &good.object.spec)
        );
        known.newest(Objects::new());
        assert_eq!(known.understand(&bad).uid(), None);
    }

    #[test]
    fn a_watch_catches_up_with_a_list() {
        let [old, new] = ["9", "10"].map(|version| connect("u", version, "PodNetwork"));
        let listed = [new.clone()];
        assert!(!has_caught_up(&Objects::new(), &listed));
        assert!(!has_caught_up(&watched(&old), &listed));
        assert!(has_caught_up(&watched(&new), &listed));
        assert!(has_caught_up(&watched(&new), std::slice::from_ref(&old)));
        assert!(!has_caught_up(
            &watched(&connect("v", "11", "PodNetwork")),
            &listed
        ));
        assert!(has_caught_up(&watched(&new), &[]));
    }
}
