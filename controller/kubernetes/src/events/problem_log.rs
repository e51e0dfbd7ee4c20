//! Problems that are logged once for as long as they last.

use std::collections::BTreeSet;

/// The problems and conflicts of the last pass.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    problems: BTreeSet<String>,
    conflicts: BTreeSet<String>,
}

impl ProblemLog {
    /// Logs the problems that the last pass did not have. A conflict is one if the last pass had
    /// it, too: the first is how two clients of an object meet. Returns the number of all problems.
    pub(crate) fn update(
        &mut self,
        problems: impl IntoIterator<Item = String>,
        conflicts: &[String],
    ) -> usize {
        for problem in self.next(problems.into_iter().collect(), conflicts) {
            tracing::warn!("{problem}");
        }
        self.problems.len()
    }

    /// The new problems of a pass.
    fn next(&mut self, mut problems: BTreeSet<String>, conflicts: &[String]) -> Vec<String> {
        let conflicts = conflicts.iter().cloned().collect();
        problems.extend(self.conflicts.intersection(&conflicts).cloned());
        self.conflicts = conflicts;
        let new = problems.difference(&self.problems).cloned().collect();
        self.problems = problems;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_new_once() {
        let mut log = ProblemLog::default();
        let mut next = |problems: &[&str], conflicts: &[&str]| {
            let problems = problems.iter().map(ToString::to_string);
            let conflicts: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
            log.next(problems.collect(), &conflicts)
        };
        assert_eq!(next(&["a"], &[]), ["a"]);
        assert_eq!(next(&["a", "b"], &["c"]), ["b"]);
        // A conflict that stays is a problem.
        assert_eq!(next(&["b"], &["c"]), ["c"]);
        assert_eq!(next(&["b"], &["c"]), [""; 0]);
        assert_eq!(next(&["a", "b"], &[]), ["a"]);
        assert_eq!(next(&["a", "b"], &["c"]), [""; 0]);
    }
}
