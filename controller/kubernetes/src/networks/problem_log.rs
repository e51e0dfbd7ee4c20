//! Problems that are logged once for as long as they last.

use std::collections::BTreeSet;

/// The problems of the last pass.
#[derive(Debug, Default)]
pub(super) struct ProblemLog(BTreeSet<String>);

impl ProblemLog {
    /// Logs the problems that the last pass did not have.
    pub(super) fn update(&mut self, problems: impl IntoIterator<Item = String>) {
        let problems: BTreeSet<String> = problems.into_iter().collect();
        for problem in problems.difference(&self.0) {
            tracing::warn!("{problem}");
        }
        self.0 = problems;
    }
}
