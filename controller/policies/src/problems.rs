//! Reasons why policies do not apply, as far as the objects alone show them.

use std::sync::Arc;

use patchbay_model::{
    ACL_LOGGING, EGRESS_FIREWALL, EgressFirewall, Feature, FieldProblem, FirewallDestination,
    HOST_CIDRS, ObjectProblem, ObjectRef, POLICY_FOR, Policy, PolicyKind, Role, object_kind,
};
use patchbay_zone::{MAX_FIREWALL_RULES, ZoneObjects};

use super::firewall::unread_node;

/// Reasons why policies and namespaces with networks do not apply as their objects specify, as
/// far as the objects alone show them.
pub(super) fn object_problems(objects: &ZoneObjects) -> Vec<ObjectProblem> {
    let namespaces = objects.namespaces().flat_map(|(name, namespace)| {
        let object = ObjectRef::cluster(object_kind::NAMESPACE, name.clone());
        let reasons = namespace.logging_problems.iter();
        reasons.map(move |reason| {
            let logging = FieldProblem::of_annotation(ACL_LOGGING, reason);
            ObjectProblem::new(object.clone(), logging)
        })
    });
    let policies = objects.policies().flat_map(|policy| {
        let problems = policy_problems(objects, policy).into_iter();
        problems.map(|problem| ObjectProblem::new(&policy.key, problem))
    });
    let firewalls = objects.firewalls().flat_map(|firewall| {
        let namespace = firewall.namespace.clone();
        let object =
            ObjectRef::namespaced(object_kind::EGRESS_FIREWALL, namespace, EGRESS_FIREWALL);
        let problems = firewall_problems(objects, firewall).into_iter();
        problems.map(move |problem| ObjectProblem::new(object.clone(), problem))
    });
    namespaces.chain(policies).chain(firewalls).collect()
}

fn policy_problems(objects: &ZoneObjects, policy: &Policy) -> Vec<FieldProblem> {
    let is_read = policy.key.kind == PolicyKind::MultiNetworkPolicy
        || objects.attached_primary_of(&policy.key.namespace).is_some();
    let fields = policy.problems.iter().filter(|_| is_read).cloned();
    let definitions = policy.definitions.iter().filter_map(|key| {
        let reason = match objects.defined_network(key).map(|network| network.role) {
            Some(Role::Secondary) => return None,
            Some(Role::Primary) => format!(
                "the network of NetworkAttachmentDefinition {key} is primary, so NetworkPolicies \
                 apply to it"
            ),
            None => format!("NetworkAttachmentDefinition {key} has no network"),
        };
        Some(FieldProblem::of_annotation(POLICY_FOR, reason))
    });
    let unmanaged = objects.unmanaged_networks(policy).into_iter().map(|network| {
        let reason = format!(
            "network {network} does not manage addresses, so peers are selected by ipBlock only; \
             the policy does not apply there"
        );
        FieldProblem::new("spec", reason)
    });
    fields.chain(definitions).chain(unmanaged).collect()
}

fn firewall_problems(objects: &ZoneObjects, firewall: &EgressFirewall) -> Vec<FieldProblem> {
    if objects.attached_primary_of(&firewall.namespace).is_none() {
        // It is about the default network.
        return Vec::new();
    }
    if !objects.settings().has_feature(Feature::EgressFirewall) {
        return vec![FieldProblem::of_feature(Feature::EgressFirewall)];
    }
    let count = firewall.rules.len();
    if count > MAX_FIREWALL_RULES {
        let reason = format!(
            "{count} rules, but at most {MAX_FIREWALL_RULES} have priorities; no rule applies"
        );
        return vec![FieldProblem::new("spec.egress", reason)];
    }
    let fields = firewall.problems.iter().map(|FieldProblem { field, reason }| {
        FieldProblem::new(field, format!("{reason}; no rule applies"))
    });
    let rules = firewall.rules.iter().enumerate();
    let names = rules.filter_map(|(index, rule)| match &rule.destination {
        FirewallDestination::Name(name) => {
            let reason =
                format!("{name:?} is not resolved, so the rule does not apply; use cidrSelector");
            Some(FieldProblem::new(format!("spec.egress[{index}].to.dnsName"), reason))
        }
        FirewallDestination::Cidr { .. } | FirewallDestination::Nodes(_) => None,
    });
    let unread_nodes = firewall.rules.iter().enumerate().filter_map(|(index, rule)| {
        let node = unread_node(objects, &rule.destination)?;
        Some(unread_node_problem(&format!("egress[{index}].to.nodeSelector"), node))
    });
    fields.chain(names).chain(unread_nodes).collect()
}

/// Problem of a rule that selects a node whose addresses cannot be read. As in OVN-Kubernetes, the
/// rows of the firewall or the administrator's policy stay as they are. `field`: path of the rule's
/// peers below `spec`.
pub(super) fn unread_node_problem(field: &str, node: &Arc<str>) -> FieldProblem {
    let reason = format!(
        "selects node {node}, whose annotation {HOST_CIDRS} cannot be read; rows stay as they are"
    );
    FieldProblem::new(format!("spec.{field}"), reason)
}
