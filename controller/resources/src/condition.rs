//! Conditions of a status.

use patchbay_model::abbreviation::truncate_text;
use patchbay_model::condition::{ConditionStatus, is_known_reason};

use crate::object::{Condition, Time};

/// Limit of a message in bytes, that of Kubernetes.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// Sets the condition of a type, and returns `true` if it changes.
///
/// `lastTransitionTime` becomes `now` if `status` changes, and stays otherwise. A message that is
/// too long is truncated.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    now: &Time,
) -> bool {
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    debug_assert!(is_known_reason(type_, status, reason), "{type_}: {reason} is not listed");
    let mut message = message.into();
    message.truncate(truncate_text(&message, MAX_MESSAGE_BYTES).len());
    let mut new = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: now.clone(),
        observed_generation: None,
    };
    let Some(existing) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(new);
        return true;
    };
    if existing.status == new.status {
        new.last_transition_time = existing.last_transition_time.clone();
    }
    new.observed_generation = existing.observed_generation;
    let is_changed = *existing != new;
    *existing = new;
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let mut conditions = Vec::new();
        assert!(set_condition(
            &mut conditions,
            "IPsAllocated",
            true,
            "SuccessfulAllocation",
            "m",
            &at(1)
        ));
        assert!(!set_condition(
            &mut conditions,
            "IPsAllocated",
            true,
            "SuccessfulAllocation",
            "m",
            &at(2)
        ));
        assert!(set_condition(
            &mut conditions,
            "IPsAllocated",
            true,
            "SuccessfulAllocation",
            "other",
            &at(3)
        ));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(set_condition(
            &mut conditions,
            "IPsAllocated",
            false,
            "SubnetExhausted",
            "other",
            &at(4)
        ));
        assert_eq!(conditions[0].last_transition_time, at(4));
        assert!(set_condition(&mut conditions, "Ready", true, "Balanced", "", &at(5)));
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn a_message_is_no_longer_than_kubernetes_allows() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, "Ready", true, "Balanced", "ü".repeat(20_000), &at(1));
        assert_eq!(conditions[0].message.len(), 32_768);
        assert!(!set_condition(
            &mut conditions,
            "Ready",
            true,
            "Balanced",
            "ü".repeat(30_000),
            &at(2)
        ));
    }
}
