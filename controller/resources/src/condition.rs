//! Conditions of a status.

use crate::object::{Condition, Time};

/// Puts a condition in place of the one of its type. Its time is that of the last change of `status`: `now` if it
/// changes with this call. Returns whether anything but the time changes.
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
    let Some(old) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    else {
        conditions.push(new);
        return true;
    };
    if old.status == new.status {
        new.last_transition_time = old.last_transition_time.clone();
    }
    new.observed_generation = old.observed_generation;
    let changed = *old != new;
    *old = new;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips() {
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
