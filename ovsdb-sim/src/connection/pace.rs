//! Rate limit for updates that are written without delay.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum credit: the number of updates in a burst that are written without delay.
const BURST_UPDATES: u32 = 16;
/// Time after which the credit grows by one update.
const CREDIT_INTERVAL: Duration = Duration::from_millis(50);

/// Distinguishes single updates from a stream of them.
///
/// A program with two connections, such as a test suite, expects an update on one of them at about
/// the time of the reply on the other. A program that follows a stream of changes is better off
/// with few large pieces.
#[derive(Debug)]
pub(super) struct UpdatePacer {
    /// Number of updates that may still be written without delay.
    credit: u32,
    /// Time at which the credit last grew.
    credited: Instant,
}

impl UpdatePacer {
    pub(super) fn new() -> Self {
        Self { credit: BURST_UPDATES, credited: Instant::now() }
    }

    /// Takes the credit for one update. Returns `false` if there is none left: the next updates are
    /// delayed.
    pub(super) fn take_credit(&mut self) -> bool {
        let more = self.credited.elapsed().as_millis() / CREDIT_INTERVAL.as_millis();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(BURST_UPDATES);
            self.credit = self.credit.saturating_add(more).min(BURST_UPDATES);
            self.credited = Instant::now();
        }
        let has_credit = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        has_credit
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Takes all credit and returns the number of updates.
    fn take_all(pacer: &mut UpdatePacer) -> usize {
        std::iter::repeat_with(|| pacer.take_credit()).take_while(|has_credit| *has_credit).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_written_without_delay_and_a_stream_is_not() {
        let mut pacer = UpdatePacer::new();
        assert_eq!(take_all(&mut pacer), BURST_UPDATES as usize);
        assert!(!pacer.take_credit());
        advance(CREDIT_INTERVAL * 3).await;
        assert_eq!(take_all(&mut pacer), 3);
        // The credit has a maximum, however long the pause.
        advance(CREDIT_INTERVAL * BURST_UPDATES * 10).await;
        assert_eq!(take_all(&mut pacer), BURST_UPDATES as usize);
    }
}
