//! Policies in networks.

use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::{Policy, PolicyKey, PolicyKind, Role};

use super::objects::ZoneObjects;
use super::selections::{Candidates, Selection, SelectionKey};

/// A namespace in a network.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NetworkNamespace {
    /// Name of the network.
    pub network: Arc<str>,
    /// Name of the namespace.
    pub namespace: Arc<str>,
}

impl ZoneObjects {
    /// Adds a policy, or replaces the one of its key.
    pub fn put_policy(&mut self, policy: Policy) {
        self.take_policy(&policy.key);
        let policy = Arc::new(policy);
        for network in self.networks_of(&policy) {
            self.apply(&network, &policy);
        }
        self.policies.insert(policy.key.clone(), policy);
        self.forget_places();
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, key: &PolicyKey) {
        self.take_policy(key);
        self.forget_places();
    }

    fn take_policy(&mut self, key: &PolicyKey) {
        let Some(policy) = self.policies.remove(key) else {
            return;
        };
        for network in self.networks_of(&policy) {
            self.withdraw(&network, &policy);
        }
    }

    /// Follows the networks that a policy applies to, which were these.
    pub(crate) fn move_policy(&mut self, policy: &Arc<Policy>, earlier: &[Arc<str>]) {
        let current = self.networks_of(policy);
        for network in earlier.iter().filter(|one| !current.contains(one)) {
            self.withdraw(network, policy);
        }
        for network in current.iter().filter(|one| !earlier.contains(one)) {
            self.apply(network, policy);
        }
    }

    /// All policies.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values()
    }

    /// The policies of a namespace in a network.
    pub fn policies_in(&self, place: &NetworkNamespace) -> impl Iterator<Item = &Arc<Policy>> {
        let policies = self.applied.get(place);
        policies.into_iter().flat_map(OrdMap::values)
    }

    /// A policy of a namespace in a network, by name.
    pub fn policy(&self, place: &NetworkNamespace, name: &str) -> Option<&Arc<Policy>> {
        self.applied.get(place)?.get(name)
    }

    /// Pods that policies or groups select.
    pub fn selection(&self, key: &SelectionKey) -> Option<&Selection> {
        self.selections.get(key)
    }

    fn apply(&mut self, network: &Arc<str>, policy: &Arc<Policy>) {
        self.track_places();
        let mut selections = std::mem::take(&mut self.selections);
        selections.add_policy(network, policy, self.candidates());
        self.selections = selections;
        let policies = self.applied.entry(place_of(network, policy)).or_default();
        policies.insert(policy.key.name.clone(), policy.clone());
    }

    fn withdraw(&mut self, network: &Arc<str>, policy: &Policy) {
        self.selections.remove_policy(network, policy);
        let place = place_of(network, policy);
        if let Some(policies) = self.applied.get_mut(&place) {
            policies.remove(&policy.key.name);
            if policies.is_empty() {
                self.applied.remove(&place);
            }
        }
    }

    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates { pods: &self.placed, namespaces: &self.namespaces }
    }

    /// Names of the networks that a policy applies to.
    pub(crate) fn networks_of(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks = self.named_networks(policy);
        networks.retain(|name| !self.is_unmanaged(name, policy));
        networks
    }

    /// Names of the networks that a policy names and does not apply to: as in OVN-Kubernetes, those
    /// that do not manage addresses, if it selects peers by labels.
    pub fn unmanaged_networks(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks = self.named_networks(policy);
        networks.retain(|name| self.is_unmanaged(name, policy));
        networks
    }

    fn is_unmanaged(&self, network: &str, policy: &Policy) -> bool {
        let network = self.attached.get(network);
        policy.has_pod_peers() && network.is_some_and(|network| network.subnets.is_empty())
    }

    /// Names of the networks that a policy is about.
    fn named_networks(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks: Vec<Arc<str>> = match policy.key.kind {
            PolicyKind::NetworkPolicy => {
                let network = self.attached_primary.get(&policy.key.namespace);
                network.into_iter().cloned().collect()
            }
            PolicyKind::MultiNetworkPolicy => {
                let definitions = policy.definitions.iter();
                definitions
                    .filter_map(|key| self.defined_network(key))
                    .filter(|network| network.role == Role::Secondary)
                    .map(|network| network.name.clone())
                    .collect()
            }
        };
        networks.sort_unstable();
        networks.dedup();
        networks
    }
}

fn place_of(network: &Arc<str>, policy: &Policy) -> NetworkNamespace {
    NetworkNamespace { network: network.clone(), namespace: policy.key.namespace.clone() }
}
