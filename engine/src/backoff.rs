//! Delays between repeated attempts.
//!
//! One policy for the whole workspace: the client's reconnects, and the retries of controllers.

use std::time::Duration;

/// Lower limit of every delay: no configuration makes a caller retry in a busy loop.
const MIN_DELAY: Duration = Duration::from_millis(1);

/// Upper limit of every delay, one day: an `Instant` plus a delay never overflows.
const MAX_DELAY: Duration = Duration::from_secs(86_400);

/// Exponential back-off: delays that double from attempt to attempt, between two bounds.
///
/// Delays are deterministic; [`jittered`](Self::jittered) and [`with_jitter`] add a random part.
/// The type holds no clock and never sleeps.
///
/// ```
/// use std::time::Duration;
///
/// use patchbay_engine::backoff::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
/// let delays = [(); 5].map(|()| backoff.next_delay().as_secs());
/// assert_eq!(delays, [1, 2, 4, 8, 8]);
/// backoff.reset();
/// assert_eq!(backoff.next_delay(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// A back-off whose first delay is `min` and whose longest delay is `max`.
    ///
    /// Both are limited to the range from 1 ms to 24 h. A `max` below `min` counts as `min`.
    pub fn new(min: Duration, max: Duration) -> Self {
        let min = min.clamp(MIN_DELAY, MAX_DELAY);
        Self { min, max: max.clamp(min, MAX_DELAY), next: min }
    }

    /// The shortest delay.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// The longest delay.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The delay that the next call of [`next_delay`](Self::next_delay) returns.
    pub fn peek(&self) -> Duration {
        self.next
    }

    /// Returns the delay before the next attempt, and doubles the one after it.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.max);
        delay
    }

    /// [`next_delay`](Self::next_delay) with [jitter](with_jitter).
    pub fn jittered(&mut self) -> Duration {
        with_jitter(self.next_delay())
    }

    /// Starts over with the shortest delay. Call this after a successful attempt.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}

/// Lengthens a delay by a random part of up to one half, so that many clients of one server do not
/// retry at the same time.
pub fn with_jitter(delay: Duration) -> Duration {
    delay.mul_f64(rand::random_range(1.0..1.5))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            8 => (0..100_000_u64).prop_map(Duration::from_millis),
            1 => Just(Duration::ZERO),
            1 => Just(Duration::MAX),
        ]
    }

    fn backoff() -> impl Strategy<Value = Backoff> {
        (duration(), duration()).prop_map(|(min, max)| Backoff::new(min, max))
    }

    proptest! {
        #[test]
        fn delays_stay_within_the_bounds(
            min in duration(),
            max in duration(),
            attempts in 1..40_usize,
        ) {
            let mut backoff = Backoff::new(min, max);
            for _ in 0..attempts {
                let delay = backoff.next_delay();
                prop_assert!(delay >= MIN_DELAY && delay <= MAX_DELAY);
                prop_assert!(delay >= backoff.min() && delay <= backoff.max());
            }
            if min >= MIN_DELAY && max >= min && max <= MAX_DELAY {
                prop_assert_eq!((backoff.min(), backoff.max()), (min, max));
            }
        }

        #[test]
        fn delays_double_up_to_the_maximum(mut backoff in backoff(), attempts in 1..40_usize) {
            let mut expected = backoff.min();
            for _ in 0..attempts {
                prop_assert_eq!(backoff.peek(), expected);
                prop_assert_eq!(backoff.next_delay(), expected);
                expected = (expected * 2).min(backoff.max());
            }
        }

        #[test]
        fn jitter_adds_at_most_one_half(delay in 0..86_400_000_u64) {
            let delay = Duration::from_millis(delay);
            let jittered = with_jitter(delay);
            prop_assert!(jittered >= delay && jittered <= delay.mul_f64(1.5));
        }

        #[test]
        fn jittered_delays_grow_like_the_plain_ones(backoff in backoff(), attempts in 1..40_usize) {
            let (mut plain, mut jittered) = (backoff.clone(), backoff);
            for _ in 0..attempts {
                let (delay, jittered_delay) = (plain.next_delay(), jittered.jittered());
                prop_assert!(jittered_delay >= delay && jittered_delay <= delay.mul_f64(1.5));
                prop_assert_eq!(&plain, &jittered);
            }
        }

        #[test]
        fn a_reset_starts_over(backoff in backoff(), attempts in 0..40_usize) {
            let mut used = backoff.clone();
            for _ in 0..attempts {
                used.next_delay();
            }
            used.reset();
            prop_assert_eq!(used, backoff);
        }
    }

    #[test]
    fn jitter_is_random() {
        let second = Duration::from_secs(1);
        let delays: Vec<_> = (0..100).map(|_| with_jitter(second)).collect();
        assert!(delays.iter().any(|delay| *delay != delays[0]));
    }
}
