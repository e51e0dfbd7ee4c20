//! Conditions of Kube-OVN's objects.

use patchbay_model::condition::{ConditionStatus, is_known_reason};
use patchbay_resources::object::Time;
use patchbay_resources::object::kube_ovn::KubeOvnCondition;

/// Sets the condition of a type. Nothing changes if status, reason and message are as before.
pub(super) fn set(
    conditions: &mut Vec<KubeOvnCondition>,
    type_: &str,
    result: Result<&str, (&str, String)>,
    now: &Time,
) {
    let (known, (reason, message)) = match result {
        Ok(reason) => (ConditionStatus::True, (reason, String::new())),
        Err(problem) => (ConditionStatus::False, problem),
    };
    debug_assert!(is_known_reason(type_, known, reason), "{type_}: {reason} is not listed");
    let status = known.as_str();
    let former = conditions.iter().find(|one| one.type_ == type_);
    let is_equal = |one: &&KubeOvnCondition| {
        (&*one.status, &*one.reason, &one.message) == (status, reason, &message)
    };
    if former.is_some_and(|one| is_equal(&one)) {
        return;
    }
    let transition =
        former.filter(|one| one.status == status).and_then(|one| one.last_transition_time.clone());
    let condition = KubeOvnCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: former.and_then(|one| one.observed_generation),
        last_update_time: Some(now.clone()),
        last_transition_time: transition.or_else(|| Some(now.clone())),
        node: String::new(),
    };
    match conditions.iter_mut().find(|one| one.type_ == type_) {
        Some(former) => *former = condition,
        None => conditions.push(condition),
    }
}
