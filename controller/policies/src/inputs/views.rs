//! Inputs that the rows of policies read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    AttachedNetwork, EgressFirewall, Feature, FirewallDestination, PodKey, Policy, PolicyDirection,
    PolicyKind, Role,
};

use super::{NamespaceGroup, NetworkNamespace, ZonePolicies};
use crate::acls::{isolated_group, namespace_group};
use crate::firewall::MAX_FIREWALL_RULES;
use crate::logging::AclLogging;
use crate::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};
use crate::selections::{PodSelector, Selection, SelectionKey};

impl ZonePolicies {
    /// Reasons why policies and namespaces with networks do not apply as their objects specify, as
    /// far as the objects alone show them.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let mut found = Vec::new();
        for (name, namespace) in &self.namespaces {
            found.extend(namespace.problems.iter().map(|reason| PolicyProblem {
                subject: PolicySubject::Namespace(name.clone()),
                reason: PolicyProblemReason::Logging(reason.clone()),
            }));
        }
        for policy in self.policies.values() {
            let is_read = policy.key.kind == PolicyKind::MultiNetworkPolicy
                || self.primary.contains_key(&policy.key.namespace);
            let fields = policy.problems.iter().filter(|_| is_read);
            let fields = fields.cloned().map(PolicyProblemReason::Field);
            let definitions = policy.definitions.iter().filter_map(|key| {
                let network = self.definitions.get(key);
                match network.and_then(|name| self.role(name)) {
                    Some(Role::Secondary) => None,
                    Some(Role::Primary) => Some(PolicyProblemReason::PrimaryNetwork(key.clone())),
                    None => Some(PolicyProblemReason::NoNetwork(key.clone())),
                }
            });
            let unmanaged = self.unmanaged_networks(policy).into_iter();
            let unmanaged = unmanaged.map(PolicyProblemReason::NoAddresses);
            let reasons = fields.chain(definitions).chain(unmanaged);
            found.extend(reasons.map(|reason| PolicyProblem {
                subject: PolicySubject::Policy(policy.key.clone()),
                reason,
            }));
        }
        for firewall in self.firewalls.values() {
            let reasons = self.firewall_problems(firewall);
            found.extend(reasons.into_iter().map(|reason| PolicyProblem {
                subject: PolicySubject::Firewall(firewall.namespace.clone()),
                reason,
            }));
        }
        found
    }

    fn firewall_problems(&self, firewall: &EgressFirewall) -> Vec<PolicyProblemReason> {
        if !self.primary.contains_key(&firewall.namespace) {
            // It is about the default network.
            return Vec::new();
        }
        if !self.features.contains(&Feature::EgressFirewall) {
            return vec![PolicyProblemReason::FeatureOff(Feature::EgressFirewall)];
        }
        let fields = firewall.problems.iter().cloned();
        let fields = fields.map(PolicyProblemReason::Firewall);
        let count = firewall.rules.len();
        if count > MAX_FIREWALL_RULES {
            return vec![PolicyProblemReason::TooManyRules {
                count,
                limit: MAX_FIREWALL_RULES,
            }];
        }
        let rules = firewall.rules.iter().enumerate();
        let names = rules.filter_map(|(index, rule)| match &rule.destination {
            FirewallDestination::Name(name) => Some(PolicyProblemReason::DnsName {
                index,
                name: name.clone(),
            }),
            FirewallDestination::Cidr { .. } | FirewallDestination::Nodes(_) => None,
        });
        let unread_nodes = firewall.rules.iter().enumerate();
        let unread_nodes = unread_nodes.filter_map(|(index, rule)| {
            let node = self.unread_node(&rule.destination)?.clone();
            let field = format!("egress[{index}].to.nodeSelector");
            Some(PolicyProblemReason::UnreadNode { field, node })
        });
        fields.chain(names).chain(unread_nodes).collect()
    }

    /// The port group of a namespace in a network. `None`: the namespace has none.
    pub(crate) fn group(&self, place: &NetworkNamespace) -> Option<&NamespaceGroup> {
        self.groups.get(place)
    }

    /// Name of the primary network of a namespace.
    pub(crate) fn primary(&self, namespace: &str) -> Option<&Arc<str>> {
        self.primary.get(namespace)
    }

    /// The EgressFirewall of a namespace.
    pub(crate) fn firewall(&self, namespace: &str) -> Option<&Arc<EgressFirewall>> {
        let is_on = self.features.contains(&Feature::EgressFirewall);
        self.firewalls.get(namespace).filter(|_| is_on)
    }

    /// Port groups whose ACLs drop packets of switch ports of the zone's pods, by the ports' names:
    /// those of isolated pods, and those of namespaces with a firewall.
    pub fn gates(&self) -> BTreeMap<Arc<str>, Vec<String>> {
        self.pods
            .keys()
            .flat_map(|pod| self.gates_of(pod))
            .collect()
    }

    /// The [gates](Self::gates) of one pod. They follow from the pod, and from the policies and the
    /// firewall of its namespace.
    pub fn gates_of(&self, pod: &PodKey) -> BTreeMap<Arc<str>, Vec<String>> {
        let mut gates = BTreeMap::<Arc<str>, Vec<String>>::new();
        let pod = self.pods.get(pod);
        let Some(pod) = pod.filter(|pod| pod.pod.node.as_ref() == Some(&self.zone)) else {
            return gates;
        };
        let networks: BTreeSet<&Arc<str>> = pod.places.iter().map(|at| &at.network.name).collect();
        for network in networks {
            let groups = self.gates_in(network, &pod.pod.key);
            for place in pod.places_in(network).filter(|_| !groups.is_empty()) {
                gates.insert(place.port.as_str().into(), groups.clone());
            }
        }
        gates
    }

    /// Port groups of the ports of a pod in a network.
    fn gates_in(&self, network: &Arc<str>, pod: &PodKey) -> Vec<String> {
        let place = NetworkNamespace {
            network: network.clone(),
            namespace: pod.namespace.clone(),
        };
        let is_selected = |selector: Option<PodSelector>| {
            let selection = selector.and_then(|selector| self.selection(&selector.key(network)));
            selection.is_some_and(|selection| selection.has(pod))
        };
        let isolating = PolicyDirection::BOTH.into_iter().filter(|direction| {
            let mut policies = self.policies(&place);
            policies.any(|policy| {
                policy.isolates(*direction) && is_selected(PodSelector::of_policy(policy))
            })
        });
        let isolating = isolating.map(|direction| isolated_group(&place, direction).name);
        let group = self.groups.get(&place);
        let firewall = self.firewall(&pod.namespace);
        let of_firewall = group.filter(|_| {
            self.primary(&pod.namespace) == Some(network)
                && firewall.is_some_and(|firewall| !firewall.rules.is_empty())
        });
        let of_firewall = of_firewall.map(|_| namespace_group(&place).name);
        isolating.chain(of_firewall).collect()
    }

    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone
    }

    pub(crate) fn network(&self, name: &str) -> Option<&Arc<AttachedNetwork>> {
        self.networks.get(name)
    }

    pub(crate) fn logging(&self, namespace: &str) -> AclLogging {
        let namespace = self.namespaces.get(namespace);
        namespace.map_or_else(AclLogging::default, |namespace| namespace.logging)
    }

    /// The policies of a namespace in a network.
    pub(crate) fn policies(&self, place: &NetworkNamespace) -> impl Iterator<Item = &Arc<Policy>> {
        let policies = self.applied.get(place);
        policies.into_iter().flat_map(OrdMap::values)
    }

    pub(crate) fn policy(&self, place: &NetworkNamespace, name: &str) -> Option<&Arc<Policy>> {
        self.applied.get(place)?.get(name)
    }

    pub(crate) fn selection(&self, key: &SelectionKey) -> Option<&Selection> {
        self.selections.get(key)
    }

    /// Returns `true` if a network of this name may exist although it is not known.
    pub(crate) fn may_exist(&self, network: &str) -> bool {
        self.unread.may_have_prefix(&network_prefix(network))
    }
}
