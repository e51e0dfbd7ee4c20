//! Conditions in the status of objects.

mod reasons;

pub use reasons::{CONDITION_REASONS, ConditionReason, is_known_reason};

/// Reason of the condition `Connected` of a connect that is accepted and has no network to connect.
pub const NO_NETWORKS_SELECTED: &str = "NoNetworksSelected";

/// Status of a condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The state is not known yet.
    Unknown,
}

impl ConditionStatus {
    /// The value of `status` in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Condition as the cluster manager or the zone reports determine it: without times and generation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConditionReport {
    /// Type of the condition, for example `Accepted`.
    pub type_: &'static str,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason in CamelCase, for programs.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}
