//! Collects bursts of changes, and sleeps for optional times.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::config::Timing;

/// A source of changes: watched objects, a database, or several of them.
pub(crate) trait ChangeSource {
    /// Reason why no more changes can come.
    type Error;

    /// Waits for the next change.
    ///
    /// # Errors
    /// No more changes can come.
    fn changed(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Waits after a change until the source has been quiet for `timing.debounce_quiet`, but no longer
/// than `timing.debounce_max`.
///
/// # Errors
/// No more changes can come.
pub(crate) async fn debounce<S: ChangeSource>(
    timing: &Timing,
    source: &mut S,
) -> Result<(), S::Error> {
    let latest = Instant::now() + timing.debounce_max;
    loop {
        let quiet = (Instant::now() + timing.debounce_quiet).min(latest);
        match timeout_at(quiet, source.changed()).await {
            Ok(changed) => changed?,
            Err(_) => return Ok(()),
        }
    }
}

/// Sleeps for `duration`. `None`: never returns.
pub(crate) async fn sleep_or_forever(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => forever().await,
    }
}

/// Sleeps until `deadline`. `None`: never returns.
pub(crate) async fn sleep_until_or_forever(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => forever().await,
    }
}

async fn forever() {
    std::future::pending::<Infallible>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that changes at this interval.
    struct PeriodicChanges(Duration);

    impl ChangeSource for PeriodicChanges {
        type Error = Infallible;

        async fn changed(&mut self) -> Result<(), Infallible> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_source_that_never_pauses_is_debounced_for_a_limited_time() {
        let timing = Timing {
            debounce_quiet: Duration::from_millis(20),
            debounce_max: Duration::from_millis(100),
            ..Timing::default()
        };
        let start = Instant::now();
        debounce(&timing, &mut PeriodicChanges(Duration::from_millis(1))).await.unwrap();
        assert!(start.elapsed() >= timing.debounce_max);

        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        debounce(&timing, &mut PeriodicChanges(hour)).await.unwrap();
        assert!(start.elapsed() >= timing.debounce_quiet);
    }
}
