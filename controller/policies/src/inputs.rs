//! Inputs of policies' rows: networks, namespaces, pods and policies of a zone, and their changes.

mod firewalls;
mod groups;
mod nodes;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use patchbay_model::{
    ACL_LOGGING, AttachedNetwork, AttachedNetworks, ClusterSettings, Definition, EgressFirewall,
    Feature, IpFamily, MULTICAST_ENABLED, NadKey, NetworkObjects, Networks, Pod, PodKey, PodPlace,
    Policy, PolicyKey, PolicyKind, Role, UnreadNetworks,
};
use patchbay_rows::{Inputs, changed_keys};

use super::labelled_nodes::LabelledNodes;
use super::logging::AclLogging;
use super::selections::{
    Candidates, PolicyPod, Selection, SelectionKey, Selections, with_name_label,
};
use firewalls::FirewallContext;
pub(super) use groups::NamespaceGroup;

/// Everything that the rows of policies in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference. Which pods policies select is kept up to date: a pod costs the selectors that may
/// select it.
#[derive(Clone, Debug, Default)]
pub struct ZonePolicies {
    zone: Arc<str>,
    features: Arc<BTreeSet<Feature>>,
    networks: OrdMap<Arc<str>, Arc<AttachedNetwork>>,
    definitions: OrdMap<NadKey, Arc<str>>,
    /// Names of the primary networks of namespaces.
    primary: OrdMap<Arc<str>, Arc<str>>,
    namespaces: OrdMap<Arc<str>, Arc<PolicyNamespace>>,
    pods: OrdMap<PodKey, Arc<PolicyPod>>,
    policies: OrdMap<PolicyKey, Arc<Policy>>,
    /// Policies by network and namespace, and name.
    applied: OrdMap<NetworkNamespace, OrdMap<Arc<str>, Arc<Policy>>>,
    /// Port groups of namespaces in networks.
    groups: OrdMap<NetworkNamespace, NamespaceGroup>,
    /// The networks in which a namespace has a port group.
    grouped: OrdMap<Arc<str>, OrdSet<Arc<str>>>,
    firewalls: OrdMap<Arc<str>, Arc<EgressFirewall>>,
    firewall_contexts: OrdMap<Arc<str>, FirewallContext>,
    nodes: LabelledNodes,
    selections: Selections,
    unread: Arc<UnreadNetworks>,
}

/// A namespace, as policies depend on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PolicyNamespace {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) logging: AclLogging,
    allows_multicast: bool,
    problems: Vec<String>,
}

/// A namespace in a network.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NetworkNamespace {
    /// Name of the network.
    pub network: Arc<str>,
    /// Name of the namespace.
    pub namespace: Arc<str>,
}

/// A piece of [`ZonePolicies`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum PolicyCell {
    /// A network, by name.
    Network(Arc<str>),
    /// A namespace: logging.
    Namespace(Arc<str>),
    /// The policies of a namespace in a network.
    Policies(NetworkNamespace),
    /// A policy in a network, by name.
    Policy(NetworkNamespace, Arc<str>),
    /// Pods that are selected: all of them.
    Selection(SelectionKey),
    /// Uses of selected pods.
    Uses(SelectionKey),
    /// A pod among those that are selected.
    Member(SelectionKey, PodKey),
    /// The primary network of a namespace.
    Primary(Arc<str>),
    /// The port group of a namespace in a network.
    Group(NetworkNamespace),
    /// The EgressFirewall of a namespace.
    Firewall(Arc<str>),
    /// Labels and addresses of nodes.
    Nodes,
    /// Networks that may exist although they are not known.
    Unread,
}

impl ZonePolicies {
    /// Inputs of the zone of the node with this name, without objects.
    pub fn new(zone: &str, settings: &ClusterSettings) -> Self {
        Self {
            zone: zone.into(),
            features: Arc::new(settings.features.clone()),
            ..Self::default()
        }
    }

    /// Sets attachment definitions and networks. `labelled` has the namespaces with the label
    /// [`PRIMARY_NETWORK_LABEL`](patchbay_model::PRIMARY_NETWORK_LABEL). Pods whose places change
    /// have to be put again.
    pub fn set_objects(&mut self, objects: &NetworkObjects<'_>, labelled: &BTreeSet<String>) {
        let networks = &objects.networks;
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(networks, definitions, labelled);
        self.set_networks(&attached, networks);
    }

    /// Sets attachment definitions and networks. Pods whose places change with them have to be put
    /// again.
    pub fn set_networks(&mut self, attached: &AttachedNetworks, networks: &Networks) {
        self.unread = Arc::new(UnreadNetworks::new(networks));
        let policies: Vec<Arc<Policy>> = self.policies.values().cloned().collect();
        let earlier: Vec<Vec<Arc<str>>> = policies
            .iter()
            .map(|policy| self.networks_of(policy))
            .collect();
        self.networks.clear();
        self.definitions.clear();
        self.primary.clear();
        for (key, definition) in attached.definitions() {
            if let Definition::Network(network) = definition {
                self.definitions.insert(key.clone(), network.name.clone());
                self.networks.insert(network.name.clone(), network.clone());
            }
        }
        for (namespace, definition) in attached.primary() {
            let network = definition.and_then(|key| self.definitions.get(key));
            if let Some(network) = network.cloned() {
                self.primary.insert(namespace.clone(), network);
            }
        }
        for (policy, earlier) in policies.iter().zip(earlier) {
            let current = self.networks_of(policy);
            for network in earlier.iter().filter(|one| !current.contains(one)) {
                self.withdraw(network, policy);
            }
            for network in current.iter().filter(|one| !earlier.contains(one)) {
                self.apply(network, policy);
            }
        }
        let namespaces: Vec<Arc<str>> = self.namespaces.keys().cloned().collect();
        for namespace in &namespaces {
            self.follow_groups(namespace);
        }
    }

    /// Adds a namespace, or replaces the one of its name.
    pub fn put_namespace(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) {
        let text = annotations.get(ACL_LOGGING).map_or("", String::as_str);
        let (logging, problems) = AclLogging::read(text);
        let namespace = PolicyNamespace {
            labels: with_name_label(name, labels),
            logging,
            allows_multicast: annotations
                .get(MULTICAST_ENABLED)
                .is_some_and(|value| value == "true"),
            problems,
        };
        let name: Arc<str> = name.into();
        self.namespaces.insert(name.clone(), Arc::new(namespace));
        self.follow_namespace(&name);
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
        self.follow_namespace(&name.into());
    }

    fn follow_namespace(&mut self, name: &Arc<str>) {
        let mut selections = std::mem::take(&mut self.selections);
        selections.update_namespace(name, self.candidates());
        self.selections = selections;
        self.follow_groups(name);
    }

    /// Adds a pod with its places in networks, or replaces the one of its name.
    pub fn put_pod(&mut self, pod: &Arc<Pod>, places: impl IntoIterator<Item = PodPlace>) {
        let key = pod.key.clone();
        let places = places.into_iter().filter(|place| place.pod.is_wired());
        let pod = Arc::new(PolicyPod {
            pod: pod.clone(),
            places: places.collect(),
        });
        let namespace = self.namespaces.get(&key.namespace).map(|one| &**one);
        self.selections.update_pod(&key, Some(&pod), namespace);
        self.pods.insert(key, pod);
    }

    /// `true` if a pod is known with these places in networks.
    pub fn has_places(&self, pod: &Arc<Pod>, places: impl IntoIterator<Item = PodPlace>) -> bool {
        let places = places.into_iter().filter(|place| place.pod.is_wired());
        let known = self.pods.get(&pod.key);
        known.is_some_and(|known| known.pod == *pod && known.places.iter().cloned().eq(places))
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &PodKey) {
        self.selections.update_pod(key, None, None);
        self.pods.remove(key);
    }

    /// Adds a policy, or replaces the one of its key.
    pub fn put_policy(&mut self, policy: Policy) {
        self.remove_policy(&policy.key);
        let policy = Arc::new(policy);
        for network in self.networks_of(&policy) {
            self.apply(&network, &policy);
        }
        self.policies.insert(policy.key.clone(), policy);
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, key: &PolicyKey) {
        let Some(policy) = self.policies.remove(key) else {
            return;
        };
        for network in self.networks_of(&policy) {
            self.withdraw(&network, &policy);
        }
    }

    fn apply(&mut self, network: &Arc<str>, policy: &Arc<Policy>) {
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

    fn candidates(&self) -> Candidates<'_> {
        Candidates {
            pods: &self.pods,
            namespaces: &self.namespaces,
        }
    }

    /// Names of the networks that a policy applies to.
    fn networks_of(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks = self.named_networks(policy);
        networks.retain(|name| !self.is_unmanaged(name, policy));
        networks
    }

    /// Names of the networks that a policy names and does not apply to: as in OVN-Kubernetes, those
    /// that do not manage addresses, if it selects peers by labels.
    fn unmanaged_networks(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks = self.named_networks(policy);
        networks.retain(|name| self.is_unmanaged(name, policy));
        networks
    }

    fn is_unmanaged(&self, network: &str, policy: &Policy) -> bool {
        let network = self.networks.get(network);
        policy.has_pod_peers() && network.is_some_and(|network| network.subnets.is_empty())
    }

    /// Names of the networks that a policy is about.
    fn named_networks(&self, policy: &Policy) -> Vec<Arc<str>> {
        let mut networks: Vec<Arc<str>> = match policy.key.kind {
            PolicyKind::NetworkPolicy => {
                let network = self.primary.get(&policy.key.namespace);
                network.into_iter().cloned().collect()
            }
            PolicyKind::MultiNetworkPolicy => {
                let definitions = policy.definitions.iter();
                definitions
                    .filter_map(|key| self.definitions.get(key))
                    .filter(|name| self.role(name) == Some(Role::Secondary))
                    .cloned()
                    .collect()
            }
        };
        networks.sort_unstable();
        networks.dedup();
        networks
    }

    fn role(&self, network: &str) -> Option<Role> {
        self.networks.get(network).map(|network| network.role)
    }
}

/// IP families of a network's addresses. Empty: the network does not manage addresses.
pub(super) fn families(network: &AttachedNetwork) -> Vec<IpFamily> {
    let mut families = IpFamily::BOTH.to_vec();
    families.retain(|family| {
        let mut subnets = network.subnets.iter();
        subnets.any(|subnet| IpFamily::of_net(*subnet) == *family)
    });
    families
}

fn place_of(network: &Arc<str>, policy: &Policy) -> NetworkNamespace {
    NetworkNamespace {
        network: network.clone(),
        namespace: policy.key.namespace.clone(),
    }
}

impl Inputs for ZonePolicies {
    type Cell = PolicyCell;
    type Kind = ();

    fn kind(_: &PolicyCell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(PolicyCell)) {
        let nothing = Self::default();
        let earlier = earlier.unwrap_or(&nothing);
        if earlier.unread != self.unread {
            changed(PolicyCell::Unread);
        }
        for name in changed_keys(&earlier.networks, &self.networks) {
            changed(PolicyCell::Network(name.clone()));
        }
        for name in changed_keys(&earlier.primary, &self.primary) {
            changed(PolicyCell::Primary(name.clone()));
        }
        for place in changed_keys(&earlier.groups, &self.groups) {
            changed(PolicyCell::Group(place.clone()));
        }
        for name in changed_keys(&earlier.firewalls, &self.firewalls) {
            changed(PolicyCell::Firewall(name.clone()));
        }
        if self.nodes.differs_from(&earlier.nodes) {
            changed(PolicyCell::Nodes);
        }
        for name in changed_keys(&earlier.namespaces, &self.namespaces) {
            changed(PolicyCell::Namespace(name.clone()));
        }
        let none = OrdMap::new();
        for place in changed_keys(&earlier.applied, &self.applied) {
            changed(PolicyCell::Policies(place.clone()));
            let of = |policies: &'_ OrdMap<_, OrdMap<_, _>>| policies.get(place).cloned();
            let earlier = of(&earlier.applied).unwrap_or_else(|| none.clone());
            let current = of(&self.applied).unwrap_or_else(|| none.clone());
            for name in changed_keys(&earlier, &current) {
                changed(PolicyCell::Policy(place.clone(), name.clone()));
            }
        }
        let (earlier, current) = (earlier.selections.all(), self.selections.all());
        for key in changed_keys(earlier, current) {
            let (earlier, current) = (earlier.get(key), current.get(key));
            changed(PolicyCell::Selection(key.clone()));
            if earlier.map(Selection::uses) != current.map(Selection::uses) {
                changed(PolicyCell::Uses(key.clone()));
            }
            Selection::changed_pods(earlier, current, |pod| {
                changed(PolicyCell::Member(key.clone(), pod.clone()));
            });
        }
    }
}
