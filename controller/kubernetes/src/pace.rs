//! When to look at what has happened, and when to try again.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::config::Timing;

/// Something in which things happen.
pub(super) trait Happening {
    /// Why nothing can happen any more.
    type Ended;

    /// Waits for the next thing that happens.
    fn changed(&mut self) -> impl Future<Output = Result<(), Self::Ended>> + Send;
}

/// Something has happened: waits until nothing more does, but not for ever.
///
/// # Errors
/// Nothing can happen any more.
pub(super) async fn settle<H: Happening>(
    timing: &Timing,
    happening: &mut H,
) -> Result<(), H::Ended> {
    let latest = Instant::now() + timing.latest;
    loop {
        let quiet = (Instant::now() + timing.quiet).min(latest);
        match timeout_at(quiet, happening.changed()).await {
            Ok(changed) => changed?,
            Err(_) => return Ok(()),
        }
    }
}

/// Waits that grow from failure to failure.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(timing: &Timing) -> Self {
        let (shortest, longest) = timing.retry;
        Self {
            shortest,
            longest,
            next: shortest,
        }
    }

    /// How long to wait after another failure.
    pub(super) fn failed(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Something went well: the next wait is short again.
    pub(super) fn reset(&mut self) {
        self.next = self.shortest;
    }
}

/// Sleeps, or waits for ever if there is nothing to wait for.
pub(super) async fn sleep_or_forever(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => forever().await,
    }
}

/// Sleeps until then, or for ever if there is no such time.
pub(super) async fn sleep_until_or_forever(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => forever().await,
    }
}

async fn forever() {
    std::future::pending::<Infallible>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something in which something happens at this interval.
    struct Every(Duration);

    impl Happening for Every {
        type Ended = Infallible;

        async fn changed(&mut self) -> Result<(), Infallible> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_never_ends_is_looked_at_all_the_same() {
        let timing = Timing {
            quiet: Duration::from_millis(20),
            latest: Duration::from_millis(100),
            ..Timing::default()
        };
        let start = Instant::now();
        settle(&timing, &mut Every(Duration::from_millis(1)))
            .await
            .unwrap();
        assert!(start.elapsed() >= timing.latest);

        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        settle(&timing, &mut Every(hour)).await.unwrap();
        assert!(start.elapsed() >= timing.quiet);
    }

    #[test]
    fn waits_grow_to_a_limit() {
        let retry = (Duration::from_secs(1), Duration::from_secs(5));
        let timing = Timing {
            retry,
            ..Timing::default()
        };
        let mut backoff = Backoff::new(&timing);
        let waits: Vec<_> = (0..5).map(|_| backoff.failed().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.failed().as_secs(), 1);
    }
}
