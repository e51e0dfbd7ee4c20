//! Problems that may end by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Time after which a problem is reported. A new network has its definition, its subnets and its rows
/// sooner, and until then its pods have none.
const PASSING_TIME: Duration = Duration::from_secs(5);

/// The problems of the last pass, each with the time of the first pass that had it.
#[derive(Debug, Default)]
pub(crate) struct PassingProblems(BTreeMap<String, Instant>);

impl PassingProblems {
    /// Takes the problems of a pass. Returns those that have been there for [`PASSING_TIME`].
    pub(crate) fn lasting(&mut self, problems: BTreeSet<String>) -> BTreeSet<String> {
        let now = Instant::now();
        self.0.retain(|problem, _| problems.contains(problem));
        let is_lasting = |problem: &String| {
            let since = self.0.entry(problem.clone()).or_insert(now);
            now.duration_since(*since) >= PASSING_TIME
        };
        problems.into_iter().filter(is_lasting).collect()
    }

    /// Time until another problem is to be reported. `None`: there is none.
    pub(crate) fn time_to_report(&self) -> Option<Duration> {
        let ages = self.0.values().map(Instant::elapsed);
        let left = ages.filter_map(|age| PASSING_TIME.checked_sub(age));
        left.filter(|left| !left.is_zero()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn problems_are_reported_when_they_last() {
        let mut problems = PassingProblems::default();
        assert_eq!(problems.time_to_report(), None);
        assert_eq!(problems.lasting(texts(&["a", "b"])), texts(&[]));
        tokio::time::advance(PASSING_TIME / 2).await;
        assert_eq!(problems.lasting(texts(&["a", "c"])), texts(&[]));
        assert_eq!(problems.time_to_report(), Some(PASSING_TIME / 2));
        tokio::time::advance(PASSING_TIME / 2).await;
        assert_eq!(problems.lasting(texts(&["a", "b", "c"])), texts(&["a"]));
        tokio::time::advance(PASSING_TIME).await;
        assert_eq!(problems.lasting(texts(&["a", "b", "c"])), texts(&["a", "b", "c"]));
        assert_eq!(problems.time_to_report(), None);
    }
}
