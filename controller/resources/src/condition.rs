//! Conditions of a status.

use crate::object::{Condition, Time};

/// Sets the condition of a type, and returns `true` if it changes.
///
/// `lastTransitionTime` becomes `now` if `status` changes, and stays otherwise.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    now: &Time,
) -> bool {
    let mut new = Condition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: now.clone(),
        observed_generation: None,
    };
    let Some(existing) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    else {
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
            "A",
            true,
            "Good",
            "m",
            &at(1)
        ));
        assert!(!set_condition(
            &mut conditions,
            "A",
            true,
            "Good",
            "m",
            &at(2)
        ));
        assert!(set_condition(
            &mut conditions,
            "A",
            true,
            "Good",
            "other",
            &at(3)
        ));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(set_condition(
            &mut conditions,
            "A",
            false,
            "Bad",
            "other",
            &at(4)
        ));
        assert_eq!(conditions[0].last_transition_time, at(4));
        assert!(set_condition(
            &mut conditions,
            "B",
            true,
            "Good",
            "",
            &at(5)
        ));
        assert_eq!(conditions.len(), 2);
    }
}
