//! Failures of a connect, as in the message of its condition.

use std::fmt;

use patchbay_resources::aggregate::aggregate;

/// Stage of a reconcile that failed, for all networks or some.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Allocator,
    Discovery,
    Validation,
    CrossValidation,
    TunnelKey,
    Subnets,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Allocator => "failed to initialize subnet allocator",
            Self::Discovery => "failed to discover selected networks",
            Self::Validation => "validation failed",
            Self::CrossValidation => "cross-validation failed",
            Self::TunnelKey => "failed to allocate tunnel key",
            Self::Subnets => "failed to allocate subnets",
        })
    }
}

/// Failed stage with its causes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Failure {
    stage: Stage,
    connect: String,
    causes: Vec<String>,
}

impl Failure {
    /// Makes the failure of a stage. Without causes the result is empty.
    pub(super) fn of<E: fmt::Display>(
        stage: Stage,
        connect: &str,
        causes: impl IntoIterator<Item = E>,
    ) -> Vec<Self> {
        let causes: Vec<String> = causes.into_iter().map(|cause| cause.to_string()).collect();
        if causes.is_empty() {
            return Vec::new();
        }
        vec![Self { stage, connect: connect.to_owned(), causes }]
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, connect, causes } = self;
        write!(formatter, "{stage} for CNC {connect}: {}", aggregate(causes))
    }
}

/// Formats items as a list in a message: `[a b]`.
pub(super) fn format_list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_is_bare_and_several_are_a_list() {
        let failure = |causes: &[&str]| {
            let failures = Failure::of(Stage::Subnets, "a", causes);
            failures.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(failure(&[]), [""; 0]);
        let one = "failed to allocate subnets for CNC a: x";
        assert_eq!(failure(&["x"]), [one]);
        assert_eq!(failure(&["x", "x"]), [one]);
        assert_eq!(failure(&["x", "y", "x"]), ["failed to allocate subnets for CNC a: [x, y]"]);
    }
}
