//! Objects whose writes fail, and when they are written again.

use std::collections::BTreeMap;
use std::time::Duration;

use patchbay_engine::backoff::Backoff;
use patchbay_resources::manifests::ObjectKey;
use tokio::time::Instant;

use crate::config::Timing;

/// Shortest duration of a failed write that holds up others, such as one of a webhook that does not
/// respond. Quick failures of many objects do not.
const SLOW_FAILURE: Duration = Duration::from_secs(1);

/// Time from the first failure of an object's write to the one that users see. A change of etcd's
/// leader takes less; a webhook that is down fails until it is back.
const LASTING_FAILURE: Duration = Duration::from_secs(3);

/// Objects, by kind and key, whose last write failed although the same write may succeed later.
///
/// Each has a back-off of its own, so that a slow failure, such as a webhook that does not respond,
/// does not delay the writes of other objects in each pass.
#[derive(Debug, Default)]
pub(crate) struct WriteRetries(BTreeMap<(&'static str, ObjectKey), FailedWrite>);

/// Failure of a write that may succeed later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteFailure<'a> {
    pub(crate) error: &'a str,
    /// Begin of the write.
    pub(crate) begun: Instant,
    /// Time that the API server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// `true` if the API server answers that it cannot write this object.
    pub(crate) is_answer: bool,
}

#[derive(Debug)]
struct FailedWrite {
    error: String,
    /// `true` if the error is an answer of the API server about this object.
    is_answer: bool,
    /// `true` if the write took [`SLOW_FAILURE`].
    is_slow: bool,
    /// Begin of the first of successive writes that failed.
    since: Instant,
    backoff: Backoff,
    /// Time of the next attempt.
    due: Instant,
    /// `true` if the present pass still has something to write to the object.
    is_current: bool,
}

impl WriteRetries {
    /// Starts a pass: forgets objects to which the last one had nothing to write.
    pub(crate) fn begin_pass(&mut self) {
        self.0.retain(|_, failed| std::mem::take(&mut failed.is_current));
    }

    /// `true` if the last write of the object failed. The present pass has something to write to it,
    /// also if an earlier failure stops the pass before.
    pub(crate) fn note_current(&mut self, object: &(&'static str, ObjectKey)) -> bool {
        self.0.get_mut(object).is_some_and(|failed| {
            failed.is_current = true;
            true
        })
    }

    /// The error of the last write, if the next attempt is not due. `None`: the object may be
    /// written.
    pub(crate) fn delayed(&mut self, object: &(&'static str, ObjectKey)) -> Option<&str> {
        let failed = self.0.get_mut(object)?;
        failed.is_current = true;
        (Instant::now() < failed.due).then_some(&failed.error)
    }

    /// Records a failed write. The next one waits for the back-off, or longer if the API server
    /// asks for that.
    pub(crate) fn record_failure(
        &mut self,
        object: (&'static str, ObjectKey),
        failure: WriteFailure<'_>,
        timing: &Timing,
    ) {
        let WriteFailure { error, begun, retry_after, is_answer } = failure;
        let now = Instant::now();
        let failed = self.0.entry(object).or_insert_with(|| FailedWrite {
            error: String::new(),
            is_answer,
            is_slow: false,
            since: begun,
            backoff: timing.retry_backoff(),
            due: now,
            is_current: true,
        });
        error.clone_into(&mut failed.error);
        failed.is_answer = is_answer;
        failed.is_slow = now.duration_since(begun) >= SLOW_FAILURE;
        failed.is_current = true;
        failed.due = now + failed.backoff.next_delay().max(retry_after.unwrap_or_default());
    }

    /// The answer of the API server that it cannot write the object, if the writes have failed for
    /// [`LASTING_FAILURE`].
    pub(crate) fn lasting_answer(&self, object: &(&'static str, ObjectKey)) -> Option<&str> {
        let failed = self
            .0
            .get(object)
            .filter(|one| one.is_answer && one.since.elapsed() >= LASTING_FAILURE);
        failed.map(|failed| &*failed.error)
    }

    /// Keeps the failure of an object that is being written.
    pub(crate) fn keep(&mut self, object: &(&'static str, ObjectKey)) {
        if let Some(failed) = self.0.get_mut(object) {
            failed.is_current = true;
        }
    }

    /// `true` if the last write of the object failed after [`SLOW_FAILURE`].
    pub(crate) fn was_slow(&self, object: &(&'static str, ObjectKey)) -> bool {
        self.0.get(object).is_some_and(|failed| failed.is_slow)
    }

    /// Records a write that did not fail in this way.
    pub(crate) fn forget(&mut self, object: &(&'static str, ObjectKey)) {
        self.0.remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> (&'static str, ObjectKey) {
        ("Pod", ObjectKey::namespaced("blue", name))
    }

    fn answer(error: &str, retry_after: Option<Duration>) -> WriteFailure<'_> {
        WriteFailure { error, begun: Instant::now(), retry_after, is_answer: true }
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_waits_for_its_own_back_off() {
        let timing = Timing::default();
        let mut retries = WriteRetries::default();
        retries.record_failure(pod("a"), answer("busy", None), &timing);
        retries.record_failure(pod("b"), answer("busy", Some(Duration::from_secs(7))), &timing);
        assert_eq!(retries.delayed(&pod("a")), Some("busy"));
        assert_eq!(retries.delayed(&pod("c")), None);
        tokio::time::sleep(timing.retry.0).await;
        assert_eq!(retries.delayed(&pod("a")), None);
        assert_eq!(retries.delayed(&pod("b")), Some("busy"));
        retries.record_failure(pod("a"), answer("gone", None), &timing);
        tokio::time::sleep(timing.retry.0).await;
        assert_eq!(retries.delayed(&pod("a")), Some("gone"));
        assert_eq!(retries.lasting_answer(&pod("a")), None);
        tokio::time::sleep(LASTING_FAILURE).await;
        retries.record_failure(pod("a"), answer("gone", None), &timing);
        assert_eq!(retries.lasting_answer(&pod("a")), Some("gone"));
        retries.forget(&pod("a"));
        assert!(!retries.note_current(&pod("a")) && retries.lasting_answer(&pod("a")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn objects_without_writes_are_forgotten() {
        let mut retries = WriteRetries::default();
        for object in ["a", "b"] {
            retries.record_failure(pod(object), answer("busy", None), &Timing::default());
        }
        retries.begin_pass();
        retries.delayed(&pod("a"));
        retries.begin_pass();
        assert!(retries.note_current(&pod("a")) && !retries.note_current(&pod("b")));
    }
}
