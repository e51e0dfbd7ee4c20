//! Policies of administrators, and the pods that they are about.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_model::{AdminPolicy, AdminPolicyKey, AdminRule, Feature, Pod, PodKey, PodScope};
use patchbay_rows::changed_keys;

use super::cell::Cell;
use super::objects::ZoneObjects;

impl ZoneObjects {
    /// Adds a policy of administrators, or replaces the one of its key.
    pub fn put_admin_policy(&mut self, policy: AdminPolicy) {
        let key = policy.key.clone();
        self.admin_policies.insert(key, Arc::new(policy));
    }

    /// Removes a policy of administrators.
    pub fn remove_admin_policy(&mut self, key: &AdminPolicyKey) {
        self.admin_policies.remove(key);
    }

    /// All policies of administrators.
    pub fn admin_policies(&self) -> impl Iterator<Item = &Arc<AdminPolicy>> {
        self.admin_policies.values()
    }

    /// A policy of administrators. `None`: there is none, or the feature is off.
    pub fn admin_policy(&self, key: &AdminPolicyKey) -> Option<&Arc<AdminPolicy>> {
        let policy = self.admin_policies.get(key);
        policy.filter(|_| self.has_admin_policies())
    }

    /// `true` if policies of administrators have an effect.
    pub fn has_admin_policies(&self) -> bool {
        self.settings().has_feature(Feature::AdminNetworkPolicy)
    }

    /// A pod that a policy of administrators may select.
    pub fn selectable_pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        let pod = self.pods.get(key).filter(|pod| pod.is_wired());
        pod.filter(|_| self.has_admin_policies())
    }

    /// `true` if a scope has the pod.
    pub fn is_in_scope(&self, scope: &PodScope, pod: &Pod) -> bool {
        let namespace = self.namespaces.get(&pod.key.namespace);
        namespace.is_some_and(|namespace| scope.namespaces.matches(&namespace.labels))
            && scope.pods.matches(&pod.labels)
    }

    /// Pods with addresses that a scope has.
    pub fn pods_in_scope(&self, scope: &PodScope) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.values().map(|pod| &**pod);
        pods.filter(|pod| pod.is_wired() && self.is_in_scope(scope, pod))
    }

    /// `true` if the pod is one of the subject of a policy, or a peer of a rule.
    pub fn is_about(&self, policy: &AdminPolicy, pod: &Pod) -> bool {
        let of_rules = rules(policy).flat_map(|rule| &rule.pods);
        let mut scopes = [&policy.subject].into_iter().chain(of_rules);
        scopes.any(|scope| self.is_in_scope(scope, pod))
    }

    /// Nodes whose addresses cannot be read, by the fields of the rules that select them. As in
    /// OVN-Kubernetes, the policy is not applied.
    pub fn unread_nodes(&self, policy: &AdminPolicy) -> Vec<(String, Arc<str>)> {
        let rules = [("ingress", "from", &policy.ingress), ("egress", "to", &policy.egress)];
        let unread = rules.into_iter().flat_map(|(direction, peers, rules)| {
            rules.iter().enumerate().filter_map(move |(index, rule)| {
                let node = self.unread_node(&rule.nodes)?.clone();
                Some((format!("{direction}[{index}].{peers}"), node))
            })
        });
        unread.collect()
    }

    /// `true` if the policy, as this version has it, is about the pod, as this version has it.
    fn relates(&self, policy: &AdminPolicyKey, pod: &PodKey) -> bool {
        let policy = self.admin_policies.get(policy);
        policy.zip(self.selectable_pod(pod)).is_some_and(|(policy, pod)| self.is_about(policy, pod))
    }

    /// Calls `changed` for the policies of administrators that differ, and for the pods whose
    /// policies differ.
    pub(crate) fn changed_admin_policies(&self, earlier: &Self, changed: &mut dyn FnMut(Cell)) {
        if !self.has_admin_policies() && !earlier.has_admin_policies() {
            for policy in changed_keys(&earlier.admin_policies, &self.admin_policies) {
                changed(Cell::AdminPolicy(policy.clone()));
            }
            return;
        }
        let mut pods: BTreeSet<&PodKey> = changed_keys(&earlier.pods, &self.pods).collect();
        for namespace in changed_keys(&earlier.namespaces, &self.namespaces) {
            pods.extend(self.pods_in(namespace).map(|pod| &pod.key));
        }
        for policy in self.admin_policies.values() {
            let has_names = rules(policy).any(|rule| !rule.named_ports.is_empty());
            let mut pods = pods.iter().filter(|_| has_names);
            if pods.any(|pod| [earlier, self].iter().any(|of| of.relates(&policy.key, pod))) {
                changed(Cell::NamedPorts(policy.key.clone()));
            }
        }
        let mut policies: BTreeSet<&AdminPolicyKey> =
            changed_keys(&earlier.admin_policies, &self.admin_policies).collect();
        let has_other_unread_nodes = self.has_other_unread_nodes(earlier);
        let others = self.admin_policies.values().filter(|policy| {
            let unread = |of: &Self| of.unread_nodes(policy).is_empty();
            has_other_unread_nodes && unread(self) != unread(earlier)
        });
        policies.extend(others.map(|policy| &policy.key));
        for policy in policies {
            changed(Cell::AdminPolicy(policy.clone()));
            let all = self.pods.keys();
            pods.extend(all.filter(|pod| {
                let mut versions = [earlier, self].into_iter();
                versions.any(|of| of.relates(policy, pod))
            }));
        }
        for pod in pods {
            changed(Cell::AdminPod(pod.clone()));
        }
    }
}

fn rules(policy: &AdminPolicy) -> impl Iterator<Item = &AdminRule> {
    policy.ingress.iter().chain(&policy.egress)
}
