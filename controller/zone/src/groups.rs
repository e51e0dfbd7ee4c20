//! Port groups of namespaces in networks.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdSet;
use patchbay_model::{Feature, Role};

use super::objects::ZoneObjects;
use super::policies::NetworkNamespace;
use super::selections::{PodSelector, Subject, Use};

/// A port group of the pods of a namespace in a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceGroup {
    /// `true` if the pods may exchange multicast packets.
    pub has_multicast: bool,
}

impl NamespaceGroup {
    /// Uses for which the group selects the pods of its namespace.
    fn uses(&self) -> impl Iterator<Item = Use> + use<> {
        let peers = self.has_multicast.then_some(Use::Peer);
        [Use::Subject(Subject::Namespace)].into_iter().chain(peers)
    }
}

impl ZoneObjects {
    /// The port group of a namespace in a network. `None`: the namespace has none.
    pub fn group(&self, place: &NetworkNamespace) -> Option<&NamespaceGroup> {
        self.groups.get(place)
    }

    /// Follows what decides in which networks a namespace has port groups, and for what.
    pub(crate) fn follow_groups(&mut self, name: &Arc<str>) {
        let wanted = self.wanted_groups(name);
        let networks: OrdSet<Arc<str>> = wanted.keys().cloned().collect();
        let known = self.grouped.get(name).cloned().unwrap_or_default();
        for network in known.into_iter().filter(|one| !networks.contains(one)) {
            self.set_group(network, name, None);
        }
        for (network, group) in wanted {
            self.set_group(network, name, Some(group));
        }
        if networks.is_empty() {
            self.grouped.remove(name);
        } else {
            self.grouped.insert(name.clone(), networks);
        }
    }

    /// The port groups of a namespace, by network. Firewalls are about the primary network alone,
    /// but OVN-Kubernetes makes the groups in all networks.
    fn wanted_groups(&self, name: &Arc<str>) -> BTreeMap<Arc<str>, NamespaceGroup> {
        let has = |feature| self.settings().has_feature(feature);
        let Some(namespace) = self.namespaces.get(name) else {
            return BTreeMap::new();
        };
        let in_secondary = NamespaceGroup { has_multicast: false };
        let networks = self.attached.values();
        let secondary = networks
            .filter(|network| network.role == Role::Secondary)
            .filter(|_| has(Feature::EgressFirewall))
            .map(|network| (network.name.clone(), in_secondary.clone()));
        let has_groups = has(Feature::Multicast) || has(Feature::EgressFirewall);
        let primary = self.attached_primary.get(name).filter(|_| has_groups).map(|network| {
            let has_multicast = namespace.allows_multicast && has(Feature::Multicast);
            (network.clone(), NamespaceGroup { has_multicast })
        });
        secondary.chain(primary).collect()
    }

    /// Sets the port group of a namespace in a network. `None`: there is none.
    fn set_group(&mut self, network: Arc<str>, name: &Arc<str>, group: Option<NamespaceGroup>) {
        let place = NetworkNamespace { network, namespace: name.clone() };
        let known = self.groups.get(&place).cloned();
        if known == group {
            return;
        }
        if group.is_some() {
            self.track_places();
        }
        let selector = PodSelector::of_namespace(name);
        let mut selections = std::mem::take(&mut self.selections);
        for of in known.iter().flat_map(NamespaceGroup::uses) {
            selections.remove(&place.network, &selector, &of);
        }
        for of in group.iter().flat_map(NamespaceGroup::uses) {
            selections.add(&place.network, &selector, of, self.candidates());
        }
        self.selections = selections;
        match group {
            Some(group) => self.groups.insert(place, group),
            None => self.groups.remove(&place),
        };
    }
}
