//! Time limits of a busy machine.

use std::time::Duration;

use tokio::time::sleep;

/// Part of a limit that one look at the clock counts. A machine that stops for a minute, or that
/// does not run this process for as long, uses up one part.
const TICK: Duration = Duration::from_millis(100);

/// Waits for a future. `None`: the limit is over.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let over = async {
        let mut counted = Duration::ZERO;
        while counted < limit {
            sleep(TICK).await;
            counted += TICK;
        }
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        () = over => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::time::{Instant, advance};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends() {
        let start = Instant::now();
        assert_eq!(within(LIMIT, pending::<()>()).await, None);
        assert!(start.elapsed() >= LIMIT);
        assert_eq!(within(LIMIT, async { 1 }).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stops_for_longer_than_a_limit_has_time() {
        let (done, doing) = oneshot::channel();
        let waiting = tokio::spawn(within(LIMIT, doing));
        for _ in 0..10 {
            sleep(TICK / 2).await;
            advance(2 * LIMIT).await;
        }
        done.send(()).unwrap();
        assert_eq!(waiting.await.unwrap(), Some(Ok(())));
    }
}
