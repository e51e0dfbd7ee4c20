//! Policies of administrators that have rows, and why others have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::{
    ACL_LOGGING, AdminPolicy, AdminPolicyKey, AdminPolicyKind, Feature, FieldProblem,
    ObjectProblem, PodKey,
};
use patchbay_zone::{AclLogging, ZoneObjects};

use crate::problems::unread_node_problem;

/// The policies that have rows.
pub(super) fn applied(objects: &ZoneObjects) -> impl Iterator<Item = &Arc<AdminPolicy>> {
    let policies = objects.admin_policies().filter(|_| objects.has_admin_policies());
    policies.filter(|policy| is_usable(objects, policy))
}

/// `true` if all of a policy can be read, and the addresses of the nodes that it selects. Otherwise
/// its rows stay as they are.
pub(super) fn is_usable(objects: &ZoneObjects, policy: &AdminPolicy) -> bool {
    let (_, unread) = AclLogging::read(&policy.logging);
    policy.problems.is_empty() && unread.is_empty() && objects.unread_nodes(policy).is_empty()
}

/// `true` if some policy selects the pod.
pub(super) fn is_selected(objects: &ZoneObjects, key: &PodKey) -> bool {
    let pod = objects.selectable_pod(key);
    pod.is_some_and(|pod| applied(objects).any(|policy| objects.is_about(policy, pod)))
}

/// Reasons why policies do not apply as their objects specify, as far as the objects alone show
/// them.
pub(super) fn object_problems(objects: &ZoneObjects) -> Vec<ObjectProblem> {
    let of_policies = objects.admin_policies().flat_map(|policy| {
        let problems = policy_problems(objects, policy).into_iter();
        problems.map(|problem| ObjectProblem::new(&policy.key, problem))
    });
    of_policies.chain(equal_priorities(objects)).collect()
}

fn policy_problems(objects: &ZoneObjects, policy: &AdminPolicy) -> Vec<FieldProblem> {
    if !objects.has_admin_policies() {
        return vec![FieldProblem::of_feature(Feature::AdminNetworkPolicy)];
    }
    let (_, unread) = AclLogging::read(&policy.logging);
    let logging = unread.into_iter();
    let logging = logging.map(|reason| FieldProblem::of_annotation(ACL_LOGGING, reason));
    let unusable = logging.chain(policy.problems.iter().cloned());
    let unusable = unusable.map(|FieldProblem { field, reason }| {
        FieldProblem::new(field, format!("{reason}; rows of the policy stay as they are"))
    });
    let unread_nodes = objects.unread_nodes(policy);
    let unread_nodes = unread_nodes.iter();
    unusable.chain(unread_nodes.map(|(field, node)| unread_node_problem(field, node))).collect()
}

/// Rules of two policies with one priority have no order.
fn equal_priorities(objects: &ZoneObjects) -> Vec<ObjectProblem> {
    let mut first_of = BTreeMap::<i64, &AdminPolicyKey>::new();
    let mut problems = Vec::new();
    let policies = applied(objects);
    for policy in policies.filter(|policy| policy.key.kind == AdminPolicyKind::Admin) {
        let first = *first_of.entry(policy.priority).or_insert(&policy.key);
        if *first != policy.key {
            let reason = format!(
                "{} is that of AdminNetworkPolicy {}, too, so it is undefined whose rule decides \
                 where both match",
                policy.priority, first.name
            );
            let priority = FieldProblem::new("spec.priority", reason);
            problems.push(ObjectProblem::new(&policy.key, priority));
        }
    }
    problems
}
