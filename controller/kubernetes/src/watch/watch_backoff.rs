//! Delays before a list or watch is retried.

use std::time::Duration;

use patchbay_engine::backoff::{Backoff, with_jitter};
use tokio::sync::watch;
use tokio::time::Instant;

/// Shortest and longest delay before a list or watch is retried: those of client-go's reflector.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// Shortest delay before a list or watch is retried after another one of this process has succeeded
/// again. With jitter, so that not all processes retry at the same time.
const RECOVERY_DELAY: Duration = Duration::from_millis(500);

/// Time without a relist after which the delay before the next relist is the shortest one again.
const RELIST_RESET_INTERVAL: Duration = Duration::from_secs(120);

/// Success after failures of any watch of this process, which ends the back-off of the others. So
/// all watches resume together when an API server comes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovery(watch::Sender<()>);

impl Recovery {
    /// Announces a success after failures.
    pub(crate) fn announce(&self) {
        self.0.send_replace(());
    }

    /// Waits for `delay`, or shortly after another watch has recovered.
    pub(crate) async fn wait(&self, delay: Duration) {
        let mut recovered = self.0.subscribe();
        let early = async {
            // The sender lives as long as `self`.
            if recovered.changed().await.is_ok() {
                tokio::time::sleep(with_jitter(RECOVERY_DELAY)).await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = early => {}
        }
    }
}

/// Delays before a list or watch is retried, with jitter.
#[derive(Debug)]
pub(crate) struct WatchBackoff {
    failures: Backoff,
    relists: Backoff,
    last_relist: Option<Instant>,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        let (min, max) = RETRY_DELAYS;
        Self {
            failures: Backoff::new(min, max),
            relists: Backoff::new(min, max),
            last_relist: None,
        }
    }
}

impl WatchBackoff {
    /// Shortens the delay after the next failure. Call this after a successful request.
    pub(crate) fn reset(&mut self) {
        self.failures.reset();
    }

    /// The delay before a failed list or watch is retried.
    pub(crate) fn after_failure(&mut self) -> Duration {
        self.failures.jittered()
    }

    /// The delay before all objects are listed again.
    ///
    /// A relist follows watches that succeeded, so only time resets this delay.
    pub(crate) fn before_relist(&mut self) -> Duration {
        let now = Instant::now();
        let is_recent = |last: Instant| now.duration_since(last) < RELIST_RESET_INTERVAL;
        if !self.last_relist.replace(now).is_some_and(is_recent) {
            self.relists.reset();
        }
        self.relists.jittered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_until_the_server_answers() {
        let mut backoff = WatchBackoff::default();
        for shortest in [800, 1600, 3200] {
            let delay = backoff.after_failure();
            assert!(delay >= Duration::from_millis(shortest), "{delay:?}");
        }
        backoff.reset();
        assert!(backoff.after_failure() <= Duration::from_millis(1600));
    }

    #[tokio::test(start_paused = true)]
    async fn delays_of_relists_grow_until_none_was_needed_for_a_while() {
        let mut backoff = WatchBackoff::default();
        let shortest = Duration::from_millis(800);
        assert!(backoff.before_relist() < shortest * 2);
        backoff.reset();
        assert!(backoff.before_relist() >= shortest * 2);
        tokio::time::sleep(RELIST_RESET_INTERVAL).await;
        assert!(backoff.before_relist() < shortest * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_watch_ends_the_delays_of_the_others() {
        let recovery = Recovery::default();
        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        let announced = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            recovery.announce();
        };
        let waits = [recovery.clone(), recovery.clone()];
        tokio::join!(waits[0].wait(hour), waits[1].wait(hour), announced);
        assert!(start.elapsed() < Duration::from_secs(7));
        // An earlier recovery is no reason to hurry.
        let start = Instant::now();
        recovery.wait(hour).await;
        assert!(start.elapsed() >= hour);
    }
}
