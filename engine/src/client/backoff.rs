//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Doubles from attempt to attempt, between two bounds.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    current: Duration,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            current: min,
        }
    }

    /// How long to wait after a connection that lived for `lived`: not at all if it was a good one.
    pub(super) fn after_connection(&mut self, lived: Duration) -> Duration {
        if lived < self.current {
            return self.after_failure();
        }
        self.current = self.min;
        Duration::ZERO
    }

    /// How long to wait after no remote could be used.
    pub(super) fn after_failure(&mut self) -> Duration {
        let now = self.current;
        self.current = (now * 2).min(self.max);
        now
    }

    /// How long an attempt to connect may take.
    pub(super) fn attempt_limit(&self) -> Duration {
        self.current.max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_start_over_after_a_good_connection() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(8));
        let waits = [0; 5].map(|_| backoff.after_failure().as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 8]);
        assert_eq!(backoff.after_connection(seconds(7)), seconds(8));
        assert_eq!(backoff.after_connection(seconds(8)), Duration::ZERO);
        assert_eq!(backoff.after_connection(Duration::ZERO), seconds(1));
        assert_eq!(backoff.attempt_limit(), seconds(2));
    }
}
