//! Results of checks.

use patchbay_model::abbreviation::abbreviate_list;

use crate::check::reader::{Answer, NoAnswer};

/// Number of names that a finding lists; further ones are counted.
const MAX_NAMES: usize = 10;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Everything is as it should be.
    Ok,
    /// Something deserves attention, and works.
    Warning,
    /// Something does not work.
    Failed,
    /// The check was not made, because something that it needs is missing.
    Skipped,
}

/// Result of a check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// Stable name, in lower case with hyphens.
    pub name: String,
    /// Verdict.
    pub verdict: Verdict,
    /// What was found, or why the check was skipped.
    pub finding: String,
    /// What to do, of a warning and of a failure.
    pub remedy: Option<String>,
}

/// Checks about one subject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckGroup {
    /// Stable name, in lower case with hyphens.
    pub name: &'static str,
    /// Results in the order of the questions.
    pub checks: Vec<Check>,
}

impl Check {
    /// A check whose subject is as it should be.
    pub fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Ok, finding: finding.into(), remedy: None }
    }

    /// A check whose subject works, with something to do.
    pub fn warning(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let verdict = Verdict::Warning;
        Self { remedy: Some(remedy.into()), verdict, ..Self::ok(name, finding) }
    }

    /// A check whose subject does not work, with something to do.
    pub fn failed(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let verdict = Verdict::Failed;
        Self { verdict, ..Self::warning(name, finding, remedy) }
    }

    /// A check that was not made, with the reason.
    pub fn skipped(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, ..Self::ok(name, reason) }
    }

    /// A check of an answer, or what follows from its absence. `what`: what was asked for.
    pub(crate) fn of<T>(
        name: &str,
        what: &str,
        answer: &Answer<T>,
        judge: impl FnOnce(&T) -> Self,
    ) -> Self {
        match answer {
            Ok(known) => judge(known),
            Err(NoAnswer::Unreachable) => Self::skipped(name, "the API server does not answer"),
            Err(NoAnswer::Missing) => Self::skipped(name, format!("the cluster has no {what}")),
            Err(NoAnswer::Refused(reason)) => Self::warning(
                name,
                format!("cannot see {what}: {reason}"),
                "Repeat the check as a user who may read them.",
            ),
            Err(NoAnswer::Failed(reason)) => Self::failed(
                name,
                format!("cannot read {what}: {reason}"),
                "See the log of the API server, then repeat the check.",
            ),
        }
    }
}

/// Names in a finding.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    abbreviate_list(names, MAX_NAMES)
}

/// A number with its noun, whose plural ends with an `s`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
