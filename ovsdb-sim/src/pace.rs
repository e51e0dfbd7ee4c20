//! How fast updates come.

use std::time::Duration;

use tokio::time::Instant;

/// So many updates are written as they come, one after the other.
const AT_ONCE: u32 = 16;
/// After so long one more may be.
const ONE_MORE: Duration = Duration::from_millis(50);

/// Tells few updates from a stream of them. Programs with two connections expect to hear of a change on one about when it
/// is answered on the other; those that follow a stream of changes are better off with few pieces.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many updates may still be written at once.
    left: u32,
    counted: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            left: AT_ONCE,
            counted: Instant::now(),
        }
    }

    /// Counts an update; false when many came lately.
    pub(crate) fn is_one_of_few(&mut self) -> bool {
        let more = self.counted.elapsed().as_millis() / ONE_MORE.as_millis();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(AT_ONCE);
            self.left = self.left.saturating_add(more).min(AT_ONCE);
            self.counted = Instant::now();
        }
        let is_one_of_few = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_one_of_few
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// How many updates in a row are few.
    fn few(pace: &mut Pace) -> usize {
        std::iter::repeat_with(|| pace.is_one_of_few())
            .take_while(|few| *few)
            .count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_few_and_a_stream_is_not() {
        let mut pace = Pace::new();
        assert_eq!(few(&mut pace), AT_ONCE as usize);
        assert!(!pace.is_one_of_few());
        advance(ONE_MORE * 3).await;
        assert_eq!(few(&mut pace), 3);
        // However long nothing comes, a burst is no longer than the first.
        advance(ONE_MORE * AT_ONCE * 10).await;
        assert_eq!(few(&mut pace), AT_ONCE as usize);
    }
}
