//! Inputs of the rows of administrators' policies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::{
    AdminPolicy, AdminPolicyKey, AdminPolicyKind, AdminRule, ClusterSettings, Feature, IpFamily,
    Pod, PodKey, PodScope, Selector,
};
use patchbay_rows::{Inputs, changed_keys};

use crate::labelled_nodes::LabelledNodes;
use crate::logging::AclLogging;
use crate::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};
use crate::selections::with_name_label;

type Labels = BTreeMap<String, String>;

/// Everything that the rows of administrators' policies in one zone follow from.
///
/// Clones share what is equal, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Clone, Debug, Default)]
pub struct ZoneAdminPolicies {
    zone: Arc<Zone>,
    policies: OrdMap<AdminPolicyKey, Arc<AdminPolicy>>,
    /// Pods with addresses. While the feature is off there are none.
    pods: OrdMap<PodKey, Arc<Pod>>,
    /// Labels of namespaces, with that of their name.
    namespaces: OrdMap<Arc<str>, Arc<Labels>>,
    nodes: LabelledNodes,
}

/// The zone and the cluster's settings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Zone {
    is_on: bool,
    name: Arc<str>,
    /// Families of the cluster, IPv4 first.
    families: Vec<IpFamily>,
}

/// Objects that policies of administrators are about.
#[derive(Debug, Default)]
pub struct AdminPolicyObjects<'a> {
    /// The policies.
    pub policies: Vec<AdminPolicy>,
    /// Pods.
    pub pods: Vec<Arc<Pod>>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<&'a str, &'a BTreeMap<String, String>>,
    /// Nodes by name.
    pub nodes: BTreeMap<&'a str, AdminPolicyNode<'a>>,
}

/// A node that policies of administrators may select.
#[derive(Debug)]
pub struct AdminPolicyNode<'a> {
    /// Labels of the node.
    pub labels: &'a BTreeMap<String, String>,
    /// Addresses of its host. `None`: they cannot be read.
    pub addresses: Option<Vec<IpAddr>>,
}

/// A piece of [`ZoneAdminPolicies`] that can change on its own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum AdminPolicyCell {
    /// The zone and the cluster's settings.
    Zone,
    /// A policy.
    Policy(AdminPolicyKey),
    /// A pod, and the policies that select it.
    Pod(PodKey),
    /// Labels and addresses of all nodes.
    Nodes,
    /// The pods to whose named ports a policy leads.
    NamedPorts(AdminPolicyKey),
}

impl ZoneAdminPolicies {
    /// Reads all objects, for the zone of the node with this name.
    pub fn read(zone: &str, settings: &ClusterSettings, objects: &AdminPolicyObjects<'_>) -> Self {
        let families = IpFamily::BOTH.into_iter();
        let families = families.filter(|family| settings.has_family(*family));
        let mut this = Self {
            zone: Arc::new(Zone {
                is_on: settings.has_feature(Feature::AdminNetworkPolicy),
                name: zone.into(),
                families: families.collect(),
            }),
            ..Self::default()
        };
        for policy in &objects.policies {
            this.put_policy(policy.clone());
        }
        for (name, labels) in &objects.namespaces {
            this.put_namespace(name, labels);
        }
        for (name, node) in &objects.nodes {
            this.put_node(name, node.labels, node.addresses.clone());
        }
        for pod in &objects.pods {
            this.put_pod(pod);
        }
        this
    }

    /// Adds a policy, or replaces the one of its key.
    pub fn put_policy(&mut self, policy: AdminPolicy) {
        let key = policy.key.clone();
        self.policies.insert(key, Arc::new(policy));
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, key: &AdminPolicyKey) {
        self.policies.remove(key);
    }

    /// Adds a namespace, or replaces its labels.
    pub fn put_namespace(&mut self, name: &str, labels: &BTreeMap<String, String>) {
        let labels = Arc::new(with_name_label(name, labels));
        self.namespaces.insert(name.into(), labels);
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Adds a node, or replaces the one of its name. `addresses`: those of its host. `None`: they
    /// cannot be read.
    pub fn put_node(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        addresses: Option<Vec<IpAddr>>,
    ) {
        self.nodes.put(name, labels, addresses);
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Adds a pod, or replaces the one of its key.
    pub fn put_pod(&mut self, pod: &Arc<Pod>) {
        if self.zone.is_on && pod.is_wired() {
            self.pods.insert(pod.key.clone(), pod.clone());
        } else {
            self.pods.remove(&pod.key);
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &PodKey) {
        self.pods.remove(key);
    }

    /// Reasons why policies do not apply as their objects specify.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let of_policies = self.policies.values().flat_map(|policy| {
            let reasons = self.reasons(policy).into_iter();
            reasons.map(|reason| problem(&policy.key, reason))
        });
        let mut problems: Vec<PolicyProblem> = of_policies.collect();
        problems.extend(self.equal_priorities());
        problems
    }

    fn reasons(&self, policy: &AdminPolicy) -> Vec<PolicyProblemReason> {
        if !self.zone.is_on {
            let off = PolicyProblemReason::FeatureOff(Feature::AdminNetworkPolicy);
            return vec![off];
        }
        let (_, unread) = AclLogging::read(&policy.logging);
        let unread = unread.into_iter().map(PolicyProblemReason::AdminLogging);
        let unusable = policy.problems.iter().cloned();
        let unread_nodes = self.unread_nodes(policy).into_iter();
        unread
            .chain(unusable.map(PolicyProblemReason::Admin))
            .chain(unread_nodes)
            .collect()
    }

    /// Rules of two policies with one priority have no order.
    fn equal_priorities(&self) -> Vec<PolicyProblem> {
        let mut first_of = BTreeMap::<i64, &AdminPolicyKey>::new();
        let mut problems = Vec::new();
        let policies = self.applied();
        for policy in policies.filter(|policy| policy.key.kind == AdminPolicyKind::Admin) {
            let first = *first_of.entry(policy.priority).or_insert(&policy.key);
            if *first != policy.key {
                let other = first.name.clone();
                let priority = policy.priority;
                let reason = PolicyProblemReason::EqualPriority { priority, other };
                problems.push(problem(&policy.key, reason));
            }
        }
        problems
    }

    /// `true` if the feature is on.
    pub(super) fn is_on(&self) -> bool {
        self.zone.is_on
    }

    /// Name of the zone: that of its node.
    pub(super) fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Families of the cluster, IPv4 first.
    pub(super) fn families(&self) -> &[IpFamily] {
        &self.zone.families
    }

    /// The policies that have rows.
    pub(super) fn applied(&self) -> impl Iterator<Item = &Arc<AdminPolicy>> {
        let policies = self.policies.values().filter(|_| self.zone.is_on);
        policies.filter(|policy| self.is_usable(policy))
    }

    /// `true` if all of a policy can be read, and the addresses of the nodes that it selects.
    /// Otherwise its rows stay as they are.
    pub(super) fn is_usable(&self, policy: &AdminPolicy) -> bool {
        let (_, unread) = AclLogging::read(&policy.logging);
        policy.problems.is_empty() && unread.is_empty() && self.unread_nodes(policy).is_empty()
    }

    /// Nodes whose addresses cannot be read, by the rules that select them. As in OVN-Kubernetes,
    /// the policy is not applied.
    fn unread_nodes(&self, policy: &AdminPolicy) -> Vec<PolicyProblemReason> {
        let rules = [
            ("ingress", "from", &policy.ingress),
            ("egress", "to", &policy.egress),
        ];
        let unread = rules.into_iter().flat_map(|(direction, peers, rules)| {
            rules.iter().enumerate().filter_map(move |(index, rule)| {
                let node = self.nodes.unread(&rule.nodes)?.clone();
                let field = format!("{direction}[{index}].{peers}");
                Some(PolicyProblemReason::UnreadNode { field, node })
            })
        });
        unread.collect()
    }

    /// A policy. `None`: there is none, or the feature is off.
    pub(super) fn policy(&self, key: &AdminPolicyKey) -> Option<&Arc<AdminPolicy>> {
        self.policies.get(key).filter(|_| self.zone.is_on)
    }

    /// A pod that a policy may select.
    pub(super) fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// `true` if some policy selects the pod.
    pub(super) fn is_selected(&self, key: &PodKey) -> bool {
        let pod = self.pods.get(key);
        pod.is_some_and(|pod| self.applied().any(|policy| self.is_about(policy, pod)))
    }

    /// `true` if a scope has the pod.
    pub(super) fn has(&self, scope: &PodScope, pod: &Pod) -> bool {
        let namespace = self.namespaces.get(&pod.key.namespace);
        namespace.is_some_and(|labels| scope.namespaces.matches(labels))
            && scope.pods.matches(&pod.labels)
    }

    /// Pods with addresses that a scope has.
    pub(super) fn select(&self, scope: &PodScope) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.values().map(|pod| &**pod);
        pods.filter(|pod| self.has(scope, pod))
    }

    /// Addresses of the hosts of the selected nodes.
    pub(super) fn node_addresses(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        self.nodes.addresses(selector)
    }

    /// `true` if the pod is one of the subject, or a peer of a rule.
    fn is_about(&self, policy: &AdminPolicy, pod: &Pod) -> bool {
        let of_rules = rules(policy).flat_map(|rule| &rule.pods);
        let mut scopes = [&policy.subject].into_iter().chain(of_rules);
        scopes.any(|scope| self.has(scope, pod))
    }

    /// `true` if the policy, as this version has it, is about the pod, as this version has it.
    fn relates(&self, policy: &AdminPolicyKey, pod: &PodKey) -> bool {
        let (policy, pod) = (self.policies.get(policy), self.pods.get(pod));
        policy
            .zip(pod)
            .is_some_and(|(policy, pod)| self.is_about(policy, pod))
    }
}

fn rules(policy: &AdminPolicy) -> impl Iterator<Item = &AdminRule> {
    policy.ingress.iter().chain(&policy.egress)
}

fn problem(key: &AdminPolicyKey, reason: PolicyProblemReason) -> PolicyProblem {
    PolicyProblem {
        subject: PolicySubject::Admin(key.clone()),
        reason,
    }
}

impl Inputs for ZoneAdminPolicies {
    type Cell = AdminPolicyCell;
    type Kind = ();

    fn kind(_: &AdminPolicyCell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(AdminPolicyCell)) {
        let nothing = Self::default();
        if earlier.is_none_or(|earlier| earlier.zone != self.zone) {
            changed(AdminPolicyCell::Zone);
        }
        let earlier = earlier.unwrap_or(&nothing);
        let has_other_unread_nodes = self.nodes.has_other_unread(&earlier.nodes);
        if self.nodes.differs_from(&earlier.nodes) {
            changed(AdminPolicyCell::Nodes);
        }
        let mut pods: BTreeSet<&PodKey> = changed_keys(&earlier.pods, &self.pods).collect();
        for namespace in changed_keys(&earlier.namespaces, &self.namespaces) {
            let first = PodKey::new(namespace, "");
            let of_namespace = self.pods.range(first..).map(|(key, _)| key);
            pods.extend(of_namespace.take_while(|key| key.namespace == *namespace));
        }
        for policy in self.policies.values() {
            let has_names = rules(policy).any(|rule| !rule.named_ports.is_empty());
            let mut pods = pods.iter().filter(|_| has_names);
            if pods.any(|pod| {
                [earlier, self]
                    .iter()
                    .any(|of| of.relates(&policy.key, pod))
            }) {
                changed(AdminPolicyCell::NamedPorts(policy.key.clone()));
            }
        }
        let mut policies: BTreeSet<&AdminPolicyKey> =
            changed_keys(&earlier.policies, &self.policies).collect();
        let others = self.policies.iter().filter(|_| has_other_unread_nodes);
        let others = others.filter(|(_, of)| self.is_usable(of) != earlier.is_usable(of));
        policies.extend(others.map(|(key, _)| key));
        for policy in policies {
            changed(AdminPolicyCell::Policy(policy.clone()));
            let all = self.pods.keys();
            pods.extend(all.filter(|pod| {
                let mut versions = [earlier, self].into_iter();
                versions.any(|of| of.relates(policy, pod))
            }));
        }
        for pod in pods {
            changed(AdminPolicyCell::Pod(pod.clone()));
        }
    }
}
