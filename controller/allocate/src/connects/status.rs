//! Status of a ClusterNetworkConnect.

use patchbay_model::abbreviation::truncate_text;
use patchbay_model::condition::{
    ConditionReport, ConditionStatus, NO_NETWORKS_SELECTED, is_known_reason,
};
use patchbay_model::printable::{is_unprintable, printable};
use patchbay_resources::aggregate::aggregate;
use patchbay_resources::cnc::{ClusterNetworkConnectStatus, StatusType};
use patchbay_resources::object::{Condition, Time};

use super::error::Failure;

/// Type of the condition that the cluster manager reports.
pub const ACCEPTED: &str = "Accepted";

/// Bytes that the message of a condition must not reach: one less than Kubernetes' limit of 32768.
const MESSAGE_BYTES_LIMIT: usize = 32_767;

/// The condition `Accepted` after a reconcile with these failures.
pub(super) fn accepted_condition(failures: &[Failure]) -> ConditionReport {
    if failures.is_empty() {
        ConditionReport {
            type_: ACCEPTED,
            status: ConditionStatus::True,
            reason: "ResourceAllocationSucceeded",
            message: "All validation checks passed successfully".to_owned(),
        }
    } else {
        ConditionReport {
            type_: ACCEPTED,
            status: ConditionStatus::False,
            reason: "ResourceAllocationFailed",
            message: aggregate(failures),
        }
    }
}

/// Replaces or adds a condition in a status; conditions of other types stay.
///
/// The time of a condition changes only with its status. A message that is too long is truncated.
/// `status` becomes `Failure` if a condition is false, and is absent while one is unknown. A connect
/// without networks is no failure, because OVN-Kubernetes accepts it.
#[must_use]
pub fn with_condition(
    status: Option<&ClusterNetworkConnectStatus>,
    report: ConditionReport,
    generation: Option<i64>,
    now: &Time,
) -> ClusterNetworkConnectStatus {
    let mut status = status.cloned().unwrap_or_default();
    let known = status.conditions.iter_mut().find(|condition| condition.type_ == report.type_);
    debug_assert!(
        is_known_reason(report.type_, report.status, report.reason),
        "{report:?} is not listed"
    );
    let condition_status = report.status.as_str();
    let since = known
        .as_ref()
        .filter(|condition| condition.status == condition_status)
        .map_or_else(|| now.clone(), |condition| condition.last_transition_time.clone());
    let condition = Condition {
        type_: report.type_.to_owned(),
        status: condition_status.to_owned(),
        reason: report.reason.to_owned(),
        message: truncate_message(report.message),
        observed_generation: generation,
        last_transition_time: since,
    };
    match known {
        Some(known) => *known = condition,
        None => status.conditions.push(condition),
    }
    let is_failure = |one: &Condition| one.status == "False" && one.reason != NO_NETWORKS_SELECTED;
    let mut conditions = status.conditions.iter();
    status.status = if conditions.clone().any(is_failure) {
        Some(StatusType::Failure)
    } else if conditions.any(|one| one.status == "Unknown") {
        None
    } else {
        Some(StatusType::Success)
    };
    status
}

/// Truncates a message to the length that a condition may have. Names and errors from outside stay
/// on its line.
fn truncate_message(mut message: String) -> String {
    if message.contains(is_unprintable) {
        message = printable(&message, MESSAGE_BYTES_LIMIT).into_owned();
    }
    message.truncate(truncate_text(&message, MESSAGE_BYTES_LIMIT - 1).len());
    message
}

#[cfg(test)]
mod tests {
    use super::super::error::Stage;
    use super::*;

    fn time(text: &str) -> Time {
        Time(text.parse().unwrap())
    }

    fn failure(text: &str) -> Vec<Failure> {
        Failure::of(Stage::Validation, "c", [text])
    }

    #[test]
    fn times_change_only_with_the_status() {
        let (first, second, third) = (
            time("2026-01-01T00:00:00Z"),
            time("2026-01-02T00:00:00Z"),
            time("2026-01-03T00:00:00Z"),
        );
        let status = with_condition(None, accepted_condition(&failure("x")), Some(1), &first);
        assert_eq!(status.status, Some(StatusType::Failure));
        let status =
            with_condition(Some(&status), accepted_condition(&failure("y")), Some(2), &second);
        let condition = &status.conditions[0];
        assert_eq!(condition.message, "validation failed for CNC c: y");
        assert_eq!(condition.last_transition_time, first);
        assert_eq!(condition.observed_generation, Some(2));
        let status = with_condition(Some(&status), accepted_condition(&[]), Some(2), &third);
        assert_eq!(status.status, Some(StatusType::Success));
        assert_eq!(status.conditions[0].last_transition_time, third);
        assert_eq!(status.conditions.len(), 1);
    }

    #[test]
    fn conditions_of_others_stay() {
        let now = time("2026-01-01T00:00:00Z");
        let other = ConditionReport {
            type_: "Connected",
            status: ConditionStatus::False,
            reason: "SomethingSkipped",
            message: "1 of 2".to_owned(),
        };
        let status = with_condition(None, other, None, &now);
        let status = with_condition(Some(&status), accepted_condition(&[]), None, &now);
        let types: Vec<_> = status.conditions.iter().map(|one| one.type_.as_str()).collect();
        assert_eq!(types, ["Connected", "Accepted"]);
        assert_eq!(status.status, Some(StatusType::Failure));
    }

    #[test]
    fn a_message_is_one_line() {
        let now = time("2026-01-01T00:00:00Z");
        let report = accepted_condition(&failure("a\n\u{1b}[2Jb"));
        let status = with_condition(None, report, None, &now);
        let message = &status.conditions[0].message;
        assert_eq!(message, r"validation failed for CNC c: a\n\u001b[2Jb");
    }

    #[test]
    fn there_is_no_short_status_while_a_condition_is_unknown() {
        let now = time("2026-01-01T00:00:00Z");
        let connected = |status, reason| ConditionReport {
            type_: "Connected",
            status,
            reason,
            message: String::new(),
        };
        let status = with_condition(None, accepted_condition(&[]), None, &now);
        assert_eq!(status.status, Some(StatusType::Success));
        let nothing = connected(ConditionStatus::False, NO_NETWORKS_SELECTED);
        let without_networks = with_condition(Some(&status), nothing, None, &now);
        assert_eq!(without_networks.status, Some(StatusType::Success));
        for (condition, reason, expected) in [
            (ConditionStatus::Unknown, "ZonesSilent", None),
            (ConditionStatus::True, "AllNetworksConnected", Some(StatusType::Success)),
            (ConditionStatus::False, "SomethingSkipped", Some(StatusType::Failure)),
        ] {
            let status = with_condition(Some(&status), connected(condition, reason), None, &now);
            assert_eq!(status.status, expected);
        }
    }

    #[test]
    fn long_messages_are_truncated() {
        let now = time("2026-01-01T00:00:00Z");
        let report = accepted_condition(&failure(&"ü".repeat(20_000)));
        let status = with_condition(None, report, None, &now);
        let length = status.conditions[0].message.len();
        assert!((32_760..=32_766).contains(&length), "{length}");
    }
}
