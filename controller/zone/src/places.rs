//! Index of the pods' places in networks.

use std::sync::Arc;

use patchbay_model::{Pod, PodKey, PodPlace, Role};

use super::objects::ZoneObjects;

/// A pod with its places in networks, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The places.
    pub places: Vec<PodPlace>,
}

impl PlacedPod {
    /// The pod's places in a network.
    pub fn places_in(&self, network: &str) -> impl Iterator<Item = &PodPlace> {
        let places = self.places.iter();
        places.filter(move |place| *place.network.name == *network)
    }

    /// The pod's place in its primary network.
    pub(crate) fn primary(&self) -> Option<&PodPlace> {
        let mut places = self.places.iter();
        places.find(|place| place.network.role == Role::Primary)
    }
}

impl ZoneObjects {
    /// A pod with its places in networks, if policies or EgressIPs select pods.
    pub fn placed_pod(&self, key: &PodKey) -> Option<&PlacedPod> {
        self.placed.get(key).map(|placed| &**placed)
    }

    /// Pods with places in networks, if policies or EgressIPs select pods.
    pub fn placed_pods(&self) -> impl Iterator<Item = &PodKey> {
        self.placed.keys()
    }

    /// Begins to keep the places of pods, because pods are selected.
    pub(crate) fn track_places(&mut self) {
        if !self.tracks_places {
            self.tracks_places = true;
            self.follow_places();
        }
    }

    /// Forgets the places of pods, if none are selected any more.
    pub(crate) fn forget_places(&mut self) {
        if self.tracks_places && self.selections.all().is_empty() && !self.has_served_pods() {
            self.tracks_places = false;
            self.placed.clear();
        }
    }

    /// Follows the places of all pods.
    pub(crate) fn follow_places(&mut self) {
        if self.tracks_places {
            let keys: Vec<PodKey> = self.pods.keys().cloned().collect();
            for key in &keys {
                self.follow_pod(key);
            }
        }
    }

    /// Follows a pod and its places.
    pub(crate) fn follow_pod(&mut self, key: &PodKey) {
        if !self.tracks_places {
            return;
        }
        let pod = self.pods.get(key).filter(|pod| pod.is_wired());
        let placed =
            pod.map(|pod| PlacedPod { pod: pod.clone(), places: self.places(pod).collect() });
        let current = placed.filter(|placed| !placed.places.is_empty());
        if self.placed_pod(key) == current.as_ref() {
            return;
        }
        let current = current.map(Arc::new);
        let namespace = self.namespaces.get(&key.namespace);
        self.selections.update_pod(key, current.as_ref(), namespace.map(|of| &**of));
        let former = match current {
            Some(current) => self.placed.insert(key.clone(), current),
            None => self.placed.remove(key),
        };
        self.follow_served(key, former.as_deref());
    }
}
