//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// What part of the usual wait is enough for a cluster to elect a leader, which takes it about a second.
const ELECTION: u32 = 4;

/// Whatever is asked for, nobody is called again and again without a pause, or after a time that clocks cannot tell.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(86_400);

/// Doubles from attempt to attempt, between two bounds.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    current: Duration,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        let min = min.clamp(SHORTEST, LONGEST);
        Self {
            min,
            max: max.clamp(min, LONGEST),
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

    /// How long to wait after a server, after so long a time, does not lead its cluster any more: not at all, if it has led it
    /// for a while.
    pub(super) fn after_leader(&mut self, lived: Duration) -> Duration {
        if lived < self.min {
            return self.after_no_leader();
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

    /// How long to wait after servers answered, but none of them leads its cluster yet.
    pub(super) fn after_no_leader(&mut self) -> Duration {
        self.after_failure() / ELECTION
    }
}

/// A wait, made longer by up to a half of it, so that the many clients of one server do not come back all at once.
pub(super) fn with_jitter(wait: Duration) -> Duration {
    wait.mul_f64(rand::random_range(1.0..1.5))
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
        assert_eq!(backoff.after_no_leader(), Duration::from_millis(500));
        assert_eq!(backoff.after_leader(seconds(1)), Duration::ZERO);
    }

    #[test]
    fn leaders_that_come_and_go_are_not_hammered() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(400));
        let waits = [0; 4].map(|_| backoff.after_leader(Duration::ZERO).as_millis());
        assert_eq!(waits, [25, 50, 100, 100]);
    }

    #[test]
    fn there_is_always_a_wait_and_never_an_endless_one() {
        assert_eq!(
            Backoff::new(Duration::ZERO, Duration::ZERO).after_failure(),
            SHORTEST
        );
        let mut endless = Backoff::new(Duration::MAX, Duration::MAX);
        assert!(with_jitter(endless.after_failure()) < 2 * LONGEST);
        assert_eq!(endless.after_failure(), LONGEST);
    }

    #[test]
    fn jitter_makes_waits_longer_by_up_to_a_half() {
        let wait = Duration::from_secs(1);
        let waits: Vec<_> = (0..100).map(|_| with_jitter(wait)).collect();
        assert!(waits.iter().all(|it| (wait..wait * 3 / 2).contains(it)));
        assert!(waits.iter().any(|it| *it != waits[0]));
    }
}
