//! Policies of administrators that have rows, and why others have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::{AdminPolicy, AdminPolicyKey, AdminPolicyKind, Feature, PodKey};
use patchbay_zone::{AclLogging, ZoneObjects};

use crate::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};

/// The policies that have rows.
pub(super) fn applied(objects: &ZoneObjects) -> impl Iterator<Item = &Arc<AdminPolicy>> {
    let policies = objects
        .admin_policies()
        .filter(|_| objects.has_admin_policies());
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

/// Reasons why policies do not apply as their objects specify.
pub(super) fn object_problems(objects: &ZoneObjects) -> Vec<PolicyProblem> {
    let of_policies = objects.admin_policies().flat_map(|policy| {
        let reasons = reasons(objects, policy).into_iter();
        reasons.map(|reason| problem(&policy.key, reason))
    });
    of_policies.chain(equal_priorities(objects)).collect()
}

fn reasons(objects: &ZoneObjects, policy: &AdminPolicy) -> Vec<PolicyProblemReason> {
    if !objects.has_admin_policies() {
        let off = PolicyProblemReason::FeatureOff(Feature::AdminNetworkPolicy);
        return vec![off];
    }
    let (_, unread) = AclLogging::read(&policy.logging);
    let unusable = policy.problems.iter().cloned();
    let unread_nodes = objects.unread_nodes(policy).into_iter();
    unread
        .into_iter()
        .map(PolicyProblemReason::AdminLogging)
        .chain(unusable.map(PolicyProblemReason::Admin))
        .chain(unread_nodes.map(|(field, node)| PolicyProblemReason::UnreadNode { field, node }))
        .collect()
}

/// Rules of two policies with one priority have no order.
fn equal_priorities(objects: &ZoneObjects) -> Vec<PolicyProblem> {
    let mut first_of = BTreeMap::<i64, &AdminPolicyKey>::new();
    let mut problems = Vec::new();
    let policies = applied(objects);
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

fn problem(key: &AdminPolicyKey, reason: PolicyProblemReason) -> PolicyProblem {
    PolicyProblem {
        subject: PolicySubject::Admin(key.clone()),
        reason,
    }
}
