//! Reasons why policies do not apply, as far as the objects alone show them.

use patchbay_model::{EgressFirewall, Feature, FirewallDestination, PolicyKind, Role};
use patchbay_zone::{MAX_FIREWALL_RULES, ZoneObjects};

use super::firewall::unread_node;
use super::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};

/// Reasons why policies and namespaces with networks do not apply as their objects specify, as
/// far as the objects alone show them.
pub(super) fn object_problems(objects: &ZoneObjects) -> Vec<PolicyProblem> {
    let mut found = Vec::new();
    for (name, namespace) in objects.namespaces() {
        found.extend(
            namespace
                .logging_problems
                .iter()
                .map(|reason| PolicyProblem {
                    subject: PolicySubject::Namespace(name.clone()),
                    reason: PolicyProblemReason::Logging(reason.clone()),
                }),
        );
    }
    for policy in objects.policies() {
        let is_read = policy.key.kind == PolicyKind::MultiNetworkPolicy
            || objects.attached_primary_of(&policy.key.namespace).is_some();
        let fields = policy.problems.iter().filter(|_| is_read);
        let fields = fields.cloned().map(PolicyProblemReason::Field);
        let definitions = policy.definitions.iter().filter_map(|key| {
            match objects.defined_network(key).map(|network| network.role) {
                Some(Role::Secondary) => None,
                Some(Role::Primary) => Some(PolicyProblemReason::PrimaryNetwork(key.clone())),
                None => Some(PolicyProblemReason::NoNetwork(key.clone())),
            }
        });
        let unmanaged = objects.unmanaged_networks(policy).into_iter();
        let unmanaged = unmanaged.map(PolicyProblemReason::NoAddresses);
        let reasons = fields.chain(definitions).chain(unmanaged);
        found.extend(reasons.map(|reason| PolicyProblem {
            subject: PolicySubject::Policy(policy.key.clone()),
            reason,
        }));
    }
    for firewall in objects.firewalls() {
        let reasons = firewall_problems(objects, firewall);
        found.extend(reasons.into_iter().map(|reason| PolicyProblem {
            subject: PolicySubject::Firewall(firewall.namespace.clone()),
            reason,
        }));
    }
    found
}

fn firewall_problems(objects: &ZoneObjects, firewall: &EgressFirewall) -> Vec<PolicyProblemReason> {
    if objects.attached_primary_of(&firewall.namespace).is_none() {
        // It is about the default network.
        return Vec::new();
    }
    if !objects.settings().has_feature(Feature::EgressFirewall) {
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
        let node = unread_node(objects, &rule.destination)?.clone();
        let field = format!("egress[{index}].to.nodeSelector");
        Some(PolicyProblemReason::UnreadNode { field, node })
    });
    fields.chain(names).chain(unread_nodes).collect()
}
