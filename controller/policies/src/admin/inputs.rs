//! Inputs of the rows of administrators' policies.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::{
    AdminPolicy, AdminPolicyKey, AdminPolicyKind, ClusterSettings, Feature, IpFamily, Pod,
    PodScope, Selector,
};
use patchbay_rows::{Inputs, changed_keys};

use super::rows::{AdminPolicyRows, PolicyScene};
use crate::logging::AclLogging;
use crate::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};
use crate::selections::with_name_label;

/// Everything that the rows of administrators' policies in one zone follow from.
#[derive(Clone, Debug, Default)]
pub struct ZoneAdminPolicies {
    is_on: bool,
    /// `None`: the policy has a field that cannot be used, so its rows stay as they are.
    policies: OrdMap<AdminPolicyKey, Option<Arc<AdminPolicyRows>>>,
    problems: Vec<PolicyProblem>,
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
    /// Labels of nodes, and the addresses of their hosts.
    pub nodes: Vec<(&'a BTreeMap<String, String>, Vec<IpAddr>)>,
}

/// A piece of [`ZoneAdminPolicies`] that can change on its own: a policy.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AdminPolicyCell(pub AdminPolicyKey);

impl AdminPolicyObjects<'_> {
    /// Pods with addresses that are selected.
    pub(super) fn select(&self, scope: &PodScope) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.iter().filter(|pod| pod.is_wired());
        let pods = pods.filter(move |pod| {
            let namespace = self.namespaces.get(&*pod.key.namespace);
            let is_selected = |labels: &BTreeMap<String, String>| {
                let labels = with_name_label(&pod.key.namespace, labels);
                scope.namespaces.matches(&labels)
            };
            namespace.is_some_and(|labels| is_selected(labels)) && scope.pods.matches(&pod.labels)
        });
        pods.map(|pod| &**pod)
    }

    /// Addresses of the selected nodes.
    pub(super) fn node_addresses(&self, selector: &Selector) -> impl Iterator<Item = IpAddr> {
        let nodes = self.nodes.iter();
        let nodes = nodes.filter(|(labels, _)| selector.matches(labels));
        nodes.flat_map(|(_, addresses)| addresses.iter().copied())
    }
}

impl ZoneAdminPolicies {
    /// Computes the rows of all policies, for the zone of the node with this name. While the feature
    /// is off there are none.
    pub fn read(zone: &str, settings: &ClusterSettings, objects: &AdminPolicyObjects<'_>) -> Self {
        let is_on = settings.has_feature(Feature::AdminNetworkPolicy);
        let mut this = Self {
            is_on,
            ..Self::default()
        };
        let families: Vec<IpFamily> = IpFamily::BOTH
            .into_iter()
            .filter(|family| settings.has_family(*family))
            .collect();
        for policy in &objects.policies {
            if !is_on {
                let off = PolicyProblemReason::FeatureOff(Feature::AdminNetworkPolicy);
                this.report(&policy.key, off);
                continue;
            }
            let (logging, unread) = AclLogging::read(&policy.logging);
            for reason in unread {
                this.report(&policy.key, PolicyProblemReason::Logging(reason));
            }
            for problem in &policy.problems {
                let reason = PolicyProblemReason::Admin(problem.clone());
                this.report(&policy.key, reason);
            }
            let scene = PolicyScene {
                policy,
                zone,
                families: &families,
                objects,
                logging,
            };
            let rows = policy.problems.is_empty().then(|| Arc::new(scene.rows()));
            this.policies.insert(policy.key.clone(), rows);
        }
        this.report_equal_priorities(objects);
        this
    }

    fn report(&mut self, key: &AdminPolicyKey, reason: PolicyProblemReason) {
        self.problems.push(PolicyProblem {
            subject: PolicySubject::Admin(key.clone()),
            reason,
        });
    }

    /// Rules of two policies with one priority have no order.
    fn report_equal_priorities(&mut self, objects: &AdminPolicyObjects<'_>) {
        let mut first_of = BTreeMap::<i64, &AdminPolicyKey>::new();
        let policies = objects.policies.iter().filter(|_| self.is_on);
        let policies = policies.filter(|policy| policy.key.kind == AdminPolicyKind::Admin);
        let mut policies: Vec<&AdminPolicy> = policies
            .filter(|policy| policy.problems.is_empty())
            .collect();
        policies.sort_by(|one, other| one.key.cmp(&other.key));
        for policy in policies {
            let first = *first_of.entry(policy.priority).or_insert(&policy.key);
            if *first != policy.key {
                let other = first.name.clone();
                let priority = policy.priority;
                self.report(
                    &policy.key,
                    PolicyProblemReason::EqualPriority { priority, other },
                );
            }
        }
    }

    /// Reasons why policies do not apply as their objects say.
    pub fn problems(&self) -> &[PolicyProblem] {
        &self.problems
    }

    /// `true` if the feature is on.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Keys of the policies that have rows.
    pub(super) fn applied(&self) -> impl Iterator<Item = &AdminPolicyKey> {
        let policies = self.policies.iter();
        let policies = policies.filter(|(_, rows)| rows.is_some());
        policies.map(|(key, _)| key)
    }

    /// `true` if there is a policy with this key.
    pub(super) fn has(&self, key: &AdminPolicyKey) -> bool {
        self.policies.contains_key(key)
    }

    /// The rows of a policy. `None`: they stay as they are, or there is no such policy.
    pub(super) fn policy(&self, key: &AdminPolicyKey) -> Option<&AdminPolicyRows> {
        self.policies.get(key)?.as_deref()
    }
}

impl Inputs for ZoneAdminPolicies {
    type Cell = AdminPolicyCell;

    fn diff(&self, earlier: Option<&Self>, changed: &mut dyn FnMut(AdminPolicyCell)) {
        let nothing = Self::default();
        let earlier = earlier.unwrap_or(&nothing);
        for key in changed_keys(&earlier.policies, &self.policies) {
            changed(AdminPolicyCell(key.clone()));
        }
    }
}
