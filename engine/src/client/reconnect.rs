//! Delays between the connection attempts of a client.

use std::time::Duration;

use crate::backoff::Backoff;

/// Divisor of delays while a cluster elects a leader.
///
/// An election takes about a second, so a quarter of the usual delay (1 s to 8 s) finds the new
/// leader soon.
const ELECTION_DIVISOR: u32 = 4;

/// Chooses the delay before each round of connection attempts.
#[derive(Clone, Debug)]
pub(super) struct ReconnectDelay(Backoff);

impl ReconnectDelay {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self(Backoff::new(min, max))
    }

    /// Returns the delay after a connection that lasted for `lived`. Zero if it lasted at least as
    /// long as the next delay.
    pub(super) fn after_connection(&mut self, lived: Duration) -> Duration {
        self.after_uptime(lived, self.0.peek(), Self::after_failure)
    }

    /// Returns the delay after a server lost the leadership that it had for `lived`. Zero if it had
    /// it for at least the shortest delay.
    pub(super) fn after_leader(&mut self, lived: Duration) -> Duration {
        self.after_uptime(lived, self.0.min(), Self::after_no_leader)
    }

    fn after_uptime(
        &mut self,
        lived: Duration,
        enough: Duration,
        otherwise: fn(&mut Self) -> Duration,
    ) -> Duration {
        if lived < enough {
            return otherwise(self);
        }
        self.0.reset();
        Duration::ZERO
    }

    /// Returns the delay after a round in which no remote could be used.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.0.next_delay()
    }

    /// Returns the delay after a round in which servers answered, but none is the leader yet.
    pub(super) fn after_no_leader(&mut self) -> Duration {
        self.after_failure() / ELECTION_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_start_over_after_a_lasting_connection() {
        let seconds = Duration::from_secs;
        let mut delay = ReconnectDelay::new(seconds(1), seconds(8));
        let delays = [0; 5].map(|_| delay.after_failure().as_secs());
        assert_eq!(delays, [1, 2, 4, 8, 8]);
        assert_eq!(delay.after_connection(seconds(7)), seconds(8));
        assert_eq!(delay.after_connection(seconds(8)), Duration::ZERO);
        assert_eq!(delay.after_connection(Duration::ZERO), seconds(1));
        assert_eq!(delay.after_no_leader(), Duration::from_millis(500));
        assert_eq!(delay.after_leader(seconds(1)), Duration::ZERO);
    }

    #[test]
    fn short_leaderships_have_growing_delays() {
        let mut delay = ReconnectDelay::new(Duration::from_millis(100), Duration::from_millis(400));
        let delays = [0; 4].map(|_| delay.after_leader(Duration::ZERO).as_millis());
        assert_eq!(delays, [25, 50, 100, 100]);
    }
}
