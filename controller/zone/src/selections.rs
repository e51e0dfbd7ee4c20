//! Pods that policies and their rules select, kept up to date as pods and namespaces change.

use std::fmt;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use patchbay_model::{PodKey, PodPeer, Policy, PolicyDirection, PolicyRule, Selector};
use patchbay_rows::changed_keys;

use super::namespace::ZoneNamespace;
use super::places::PlacedPod;

/// End of the names of address sets of pods whose namespaces alone are selected.
const ALL_PODS: &str = "_LNM";
/// Name of the selection of all pods of a network, which has no address set.
const NETWORK_PODS: &str = "*";

/// Network and name of a selection. The name is that of its address sets: the namespaces and the
/// labels of the pods.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SelectionKey {
    /// Name of the network.
    pub network: Arc<str>,
    /// Name of the selection, unique in the network.
    pub name: Arc<str>,
}

/// Pods of a network that a selector selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    selector: PodSelector,
    uses: Uses,
    pods: OrdMap<PodKey, Arc<PlacedPod>>,
}

/// Uses of the pods of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uses {
    /// Subjects with the pods' ports as members, and the number of times of each.
    subjects: OrdMap<Subject, usize>,
    /// Number of rules with the pods as peers.
    peers: usize,
    /// Number of rules that take numbers of named ports from the pods.
    named_ports: usize,
}

/// Labels of pods in a namespace, in namespaces with labels, or in all namespaces.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSelector {
    namespaces: NamespaceScope,
    pods: Selector,
    is_of_namespaces: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum NamespaceScope {
    Name(Arc<str>),
    Labels(Selector),
    /// All namespaces, also those that are not known.
    All,
}

impl fmt::Display for PodSelector {
    /// Prints the name by which OVN-Kubernetes distinguishes address sets of selected pods.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            NamespaceScope::Name(name) => write!(f, "{name}_{}", self.pods)?,
            NamespaceScope::Labels(selector) => write!(f, "{selector}_{}", self.pods)?,
            NamespaceScope::All => f.write_str(NETWORK_PODS)?,
        }
        f.write_str(if self.is_of_namespaces { ALL_PODS } else { "" })
    }
}

impl PodSelector {
    /// Pods that a policy is about. `None`: its selector cannot be read.
    pub fn of_policy(policy: &Policy) -> Option<Self> {
        Some(Self {
            namespaces: NamespaceScope::Name(policy.key.namespace.clone()),
            pods: policy.pods.clone()?,
            is_of_namespaces: false,
        })
    }

    /// Peers of a rule of a policy in this namespace.
    pub fn of_peer(peer: &PodPeer, namespace: &Arc<str>) -> Self {
        let namespaces = peer.namespaces.clone();
        Self {
            is_of_namespaces: namespaces.is_some() && peer.pods.is_none(),
            namespaces: namespaces
                .map_or_else(|| NamespaceScope::Name(namespace.clone()), NamespaceScope::Labels),
            pods: peer.pods.clone().unwrap_or_default(),
        }
    }

    /// All pods of a namespace.
    pub fn of_namespace(name: &Arc<str>) -> Self {
        Self {
            namespaces: NamespaceScope::Name(name.clone()),
            pods: Selector::default(),
            is_of_namespaces: true,
        }
    }

    /// All pods of a network.
    pub fn of_network() -> Self {
        Self { namespaces: NamespaceScope::All, pods: Selector::default(), is_of_namespaces: false }
    }

    /// Key of the selection in a network.
    pub fn key(&self, network: &Arc<str>) -> SelectionKey {
        SelectionKey { network: network.clone(), name: self.to_string().into() }
    }

    fn has_namespace(&self, name: &str, namespace: Option<&ZoneNamespace>) -> bool {
        match &self.namespaces {
            NamespaceScope::Name(own) => **own == *name,
            NamespaceScope::Labels(selector) => {
                namespace.is_some_and(|namespace| selector.matches(&namespace.labels))
            }
            NamespaceScope::All => true,
        }
    }
}

impl Selection {
    /// The selected pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PlacedPod>> {
        self.pods.values()
    }

    /// The selected pod of a key.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<PlacedPod>> {
        self.pods.get(key)
    }

    /// `true` if a pod is selected.
    pub fn has(&self, pod: &PodKey) -> bool {
        self.pods.contains_key(pod)
    }

    /// Uses of the pods.
    pub fn uses(&self) -> &Uses {
        &self.uses
    }

    /// The namespace of the pods. `None`: they are those of several namespaces.
    pub fn namespace(&self) -> Option<&Arc<str>> {
        match &self.selector.namespaces {
            NamespaceScope::Name(name) => Some(name),
            NamespaceScope::Labels(_) | NamespaceScope::All => None,
        }
    }

    /// Calls `changed` for each pod that differs between two versions of a selection.
    pub(crate) fn changed_pods(
        earlier: Option<&Self>,
        current: Option<&Self>,
        changed: impl FnMut(&PodKey),
    ) {
        let none = OrdMap::new();
        let pods = |of: Option<&'_ Self>| of.map_or_else(|| none.clone(), |of| of.pods.clone());
        changed_keys(&pods(earlier), &pods(current)).for_each(changed);
    }
}

impl Uses {
    /// Subjects with the pods' ports as members.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.subjects.keys()
    }

    /// Returns `true` if a rule has the pods as peers.
    pub fn has_peers(&self) -> bool {
        self.peers > 0
    }

    fn is_empty(&self) -> bool {
        self.subjects.is_empty() && self.peers == 0 && self.named_ports == 0
    }

    fn add(&mut self, of: Use) {
        match of {
            Use::Subject(subject) => *self.subjects.entry(subject).or_insert(0) += 1,
            Use::Peer => self.peers += 1,
            Use::NamedPorts => self.named_ports += 1,
        }
    }

    fn remove(&mut self, of: &Use) {
        match of {
            Use::Subject(subject) => {
                let count = self.subjects.get_mut(subject);
                let count = count.map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if count == 0 {
                    self.subjects.remove(subject);
                }
            }
            Use::Peer => self.peers = self.peers.saturating_sub(1),
            Use::NamedPorts => self.named_ports = self.named_ports.saturating_sub(1),
        }
    }
}

/// Subject with port groups whose members are the ports of a selection's pods.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// The namespace.
    Namespace,
    /// A policy, by name, with the directions in which it isolates pods.
    Policy(Arc<str>, Vec<PolicyDirection>),
}

/// Use of a selection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Use {
    /// The pods' ports are members of port groups.
    Subject(Subject),
    /// The pods' addresses are members of address sets.
    Peer,
    /// The pods give numbers to named ports.
    NamedPorts,
}

/// All selections of the policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selections {
    all: OrdMap<SelectionKey, Selection>,
    /// Selections in one namespace.
    of_namespaces: OrdMap<Arc<str>, OrdSet<SelectionKey>>,
    /// Selections in namespaces with labels, and in all.
    of_labels: OrdSet<SelectionKey>,
}

/// Pods and namespaces that selections choose from.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    pub(crate) pods: &'a OrdMap<PodKey, Arc<PlacedPod>>,
    pub(crate) namespaces: &'a OrdMap<Arc<str>, Arc<ZoneNamespace>>,
}

impl Candidates<'_> {
    /// The pods of a network that are selected.
    fn select(&self, network: &str, selector: &PodSelector) -> OrdMap<PodKey, Arc<PlacedPod>> {
        match &selector.namespaces {
            NamespaceScope::Name(name) => self
                .pods_of(name)
                .filter(|(_, pod)| is_selected(network, selector, pod))
                .map(|(key, pod)| (key.clone(), pod.clone()))
                .collect(),
            NamespaceScope::All => {
                let pods = self.pods.iter();
                pods.filter(|(_, pod)| is_selected(network, selector, pod))
                    .map(|(key, pod)| (key.clone(), pod.clone()))
                    .collect()
            }
            NamespaceScope::Labels(_) => {
                let namespaces = self
                    .namespaces
                    .iter()
                    .filter(|(name, namespace)| selector.has_namespace(name, Some(namespace)));
                namespaces
                    .flat_map(|(name, _)| self.pods_of(name))
                    .filter(|(_, pod)| is_selected(network, selector, pod))
                    .map(|(key, pod)| (key.clone(), pod.clone()))
                    .collect()
            }
        }
    }

    fn pods_of<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a PodKey, &'a Arc<PlacedPod>)> {
        let first = PodKey::new(namespace, "");
        let pods = self.pods.range(first.clone()..);
        pods.take_while(move |(key, _)| key.namespace == first.namespace)
    }
}

/// Returns `true` if the labels of a pod in the network are selected; those of its namespace are
/// not looked at.
fn is_selected(network: &str, selector: &PodSelector, pod: &PlacedPod) -> bool {
    pod.places_in(network).next().is_some() && selector.pods.matches(&pod.pod.labels)
}

impl Selections {
    pub(crate) fn get(&self, key: &SelectionKey) -> Option<&Selection> {
        self.all.get(key)
    }

    pub(crate) fn all(&self) -> &OrdMap<SelectionKey, Selection> {
        &self.all
    }

    /// Adds what a policy selects in a network.
    pub(crate) fn add_policy(&mut self, network: &Arc<str>, policy: &Policy, from: Candidates<'_>) {
        for (selector, of) in used(policy) {
            self.add(network, &selector, of, from);
        }
    }

    /// Removes what a policy has selected in a network.
    pub(crate) fn remove_policy(&mut self, network: &Arc<str>, policy: &Policy) {
        for (selector, of) in used(policy) {
            self.remove(network, &selector, &of);
        }
    }

    /// Adds a use of the pods that a selector selects in a network.
    pub(crate) fn add(
        &mut self,
        network: &Arc<str>,
        selector: &PodSelector,
        of: Use,
        from: Candidates<'_>,
    ) {
        let key = selector.key(network);
        if !self.all.contains_key(&key) {
            let selection = Selection {
                pods: from.select(network, selector),
                selector: selector.clone(),
                uses: Uses::default(),
            };
            self.index(selector).insert(key.clone());
            self.all.insert(key.clone(), selection);
        }
        if let Some(selection) = self.all.get_mut(&key) {
            selection.uses.add(of);
        }
    }

    /// Removes a use of the pods that a selector selects in a network.
    pub(crate) fn remove(&mut self, network: &Arc<str>, selector: &PodSelector, of: &Use) {
        let key = selector.key(network);
        let Some(selection) = self.all.get_mut(&key) else {
            return;
        };
        selection.uses.remove(of);
        if selection.uses.is_empty() {
            self.all.remove(&key);
            self.index(selector).remove(&key);
        }
    }

    fn index(&mut self, selector: &PodSelector) -> &mut OrdSet<SelectionKey> {
        match &selector.namespaces {
            NamespaceScope::Name(name) => self.of_namespaces.entry(name.clone()).or_default(),
            NamespaceScope::Labels(_) | NamespaceScope::All => &mut self.of_labels,
        }
    }

    /// Follows a pod that was added, changed or removed.
    pub(crate) fn update_pod(
        &mut self,
        key: &PodKey,
        pod: Option<&Arc<PlacedPod>>,
        namespace: Option<&ZoneNamespace>,
    ) {
        let of_namespace = self.of_namespaces.get(&key.namespace);
        let selections = of_namespace.into_iter().flatten().chain(&self.of_labels);
        for of in selections {
            let Some(selection) = self.all.get(of) else {
                continue;
            };
            let selector = &selection.selector;
            let pod = pod.filter(|pod| {
                is_selected(&of.network, selector, pod)
                    && selector.has_namespace(&key.namespace, namespace)
            });
            if selection.pods.get(key) == pod {
                continue;
            }
            if let Some(selection) = self.all.get_mut(of) {
                match pod {
                    Some(pod) => selection.pods.insert(key.clone(), pod.clone()),
                    None => selection.pods.remove(key),
                };
            }
        }
    }

    /// Follows the labels of a namespace.
    pub(crate) fn update_namespace(&mut self, namespace: &Arc<str>, from: Candidates<'_>) {
        let current = from.namespaces.get(namespace).map(|namespace| &**namespace);
        for of in &self.of_labels {
            let Some(selection) = self.all.get_mut(of) else {
                continue;
            };
            let is_in_scope = selection.selector.has_namespace(namespace, current);
            for (key, pod) in from.pods_of(namespace) {
                if is_in_scope && is_selected(&of.network, &selection.selector, pod) {
                    selection.pods.insert(key.clone(), pod.clone());
                } else {
                    selection.pods.remove(key);
                }
            }
        }
    }
}

/// Everything that a policy selects.
fn used(policy: &Policy) -> Vec<(PodSelector, Use)> {
    let names_ports =
        |rule: &&PolicyRule| rule.peers.is_none() && rule.named_ports().next().is_some();
    let of_names = policy
        .rules(PolicyDirection::Egress)
        .iter()
        .filter(names_ports)
        .map(|_| (PodSelector::of_network(), Use::NamedPorts));
    let rules = PolicyDirection::BOTH.into_iter();
    let rules = rules.flat_map(|direction| policy.rules(direction));
    let peers = rules.flat_map(|rule| rule.peers.iter().flat_map(|peers| &peers.pods));
    let namespace = &policy.key.namespace;
    let peers = peers.map(|peer| (PodSelector::of_peer(peer, namespace), Use::Peer));
    let directions =
        PolicyDirection::BOTH.into_iter().filter(|direction| policy.isolates(*direction)).collect();
    let subject = Subject::Policy(policy.key.name.clone(), directions);
    let subject = PodSelector::of_policy(policy).map(|selector| (selector, Use::Subject(subject)));
    subject.into_iter().chain(peers).chain(of_names).collect()
}
