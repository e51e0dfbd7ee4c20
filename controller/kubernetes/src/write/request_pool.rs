//! Requests that wait for their answers while their controller does other work.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use patchbay_resources::manifests::ObjectKey;
use tokio::time::{Instant, sleep_until};

use crate::config::Timing;
use crate::debounce::{ChangeSource, debounce};

/// Maximum number of prompt requests at a time. More would be queued by the API server's priority
/// levels, which have some tens of seats for all clients.
const CONCURRENT_REQUESTS: usize = 8;

/// Maximum number of slow requests at a time, beside [`CONCURRENT_REQUESTS`].
const MAX_SLOW_REQUESTS: usize = 24;

/// Number of slow requests about one kind in one namespace from which on no further object is
/// written there. A webhook that does not respond often concerns the objects of one namespace.
const MAX_SLOW_IN_NAMESPACE: usize = 4;

/// Time for which a pass waits for the answer to a request. Most take some milliseconds. A request
/// that waits for a webhook is slow, and goes on beside later passes.
const PROMPT_REQUEST: Duration = Duration::from_secs(1);

/// Time for which a pass waits for the answer about an object whose last write was slow.
const PROMPT_RETRY: Duration = Duration::from_millis(100);

/// Requests of one controller with answers of this type, at most one about each object.
pub(crate) struct RequestPool<A> {
    requests: FuturesUnordered<BoxFuture<'static, A>>,
    /// Times of the requests, by kind and key of the object.
    running: BTreeMap<(&'static str, ObjectKey), RunningRequest>,
    /// Answers that no pass has seen.
    answers: Vec<A>,
}

/// Times of a request without an answer.
#[derive(Clone, Copy, Debug)]
struct RunningRequest {
    begun: Instant,
    /// Time from which the request is slow.
    slow_from: Instant,
}

/// Progress of the requests for which a pass waits.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Progress<A> {
    Answer(A),
    /// A request has become slow, so another one may begin.
    Slow,
    /// Only slow requests are left, or none.
    Idle,
}

impl<A> Default for RequestPool<A> {
    fn default() -> Self {
        Self { requests: FuturesUnordered::new(), running: BTreeMap::new(), answers: Vec::new() }
    }
}

impl<A: Send> RequestPool<A> {
    /// `true` if another request may begin.
    pub(crate) fn has_room(&self) -> bool {
        let now = Instant::now();
        let prompt = self.running.values().filter(|one| now < one.slow_from);
        prompt.count() < CONCURRENT_REQUESTS
            && self.running.len() < CONCURRENT_REQUESTS + MAX_SLOW_REQUESTS
    }

    /// `true` if the object has to wait: a request about it runs, or many about objects of its kind
    /// are slow in its namespace.
    pub(crate) fn is_busy(&self, name: &(&'static str, ObjectKey)) -> bool {
        let now = Instant::now();
        let slow = self.running.iter().filter(|((kind, key), running)| {
            *kind == name.0 && key.namespace == name.1.namespace && running.slow_from <= now
        });
        self.running.contains_key(name) || slow.count() >= MAX_SLOW_IN_NAMESPACE
    }

    /// Begins a request about an object. `was_slow`: the last one was.
    pub(crate) fn begin(
        &mut self,
        name: (&'static str, ObjectKey),
        was_slow: bool,
        request: impl Future<Output = A> + Send + 'static,
    ) {
        let begun = Instant::now();
        let patience = if was_slow { PROMPT_RETRY } else { PROMPT_REQUEST };
        let running = RunningRequest { begun, slow_from: begun + patience };
        self.running.insert(name, running);
        self.requests.push(Box::pin(request));
    }

    /// Ends the request about an object, which has its answer. Returns the time of its begin.
    pub(crate) fn end(&mut self, name: &(&'static str, ObjectKey)) -> Instant {
        let running = self.running.remove(name);
        running.map_or_else(Instant::now, |running| running.begun)
    }

    /// The objects of the requests without an answer.
    pub(crate) fn running(&self) -> impl Iterator<Item = &(&'static str, ObjectKey)> {
        self.running.keys()
    }

    /// Answers that no pass has seen.
    pub(crate) fn take_answers(&mut self) -> Vec<A> {
        std::mem::take(&mut self.answers)
    }

    /// Waits for an answer, or until a request becomes slow.
    pub(crate) async fn progress(&mut self) -> Progress<A> {
        let now = Instant::now();
        let Some(slow_from) =
            self.running.values().map(|running| running.slow_from).filter(|from| now < *from).min()
        else {
            return Progress::Idle;
        };
        tokio::select! {
            Some(answer) = self.requests.next() => Progress::Answer(answer),
            () = sleep_until(slow_from) => Progress::Slow,
        }
    }

    /// Does other work while requests go on.
    pub(crate) async fn go_on_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                output = &mut work => return output,
                Some(answer) = self.requests.next() => self.answers.push(answer),
            }
        }
    }

    /// Waits for an answer that no pass has seen, and until answers pause.
    pub(crate) async fn wait_for_answers(&mut self, timing: &Timing) {
        let answered = async {
            if self.answers.is_empty() {
                self.changed().await?;
            }
            debounce(timing, self).await
        };
        match answered.await {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
}

impl<A: Send> ChangeSource for RequestPool<A> {
    type Error = Infallible;

    async fn changed(&mut self) -> Result<(), Infallible> {
        match self.requests.next().await {
            Some(answer) => self.answers.push(answer),
            None => std::future::pending().await,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn pod(namespace: &str, name: &str) -> (&'static str, ObjectKey) {
        ("Pod", ObjectKey::namespaced(namespace, name))
    }

    #[tokio::test(start_paused = true)]
    async fn slow_requests_of_a_namespace_leave_room_for_others() {
        let mut pool = RequestPool::<u8>::default();
        for number in 0..CONCURRENT_REQUESTS {
            assert!(pool.has_room());
            pool.begin(pod("blue", &number.to_string()), false, pending());
        }
        assert!(!pool.has_room() && !pool.is_busy(&pod("blue", "x")));
        assert_eq!(pool.progress().await, Progress::Slow);
        assert_eq!(pool.progress().await, Progress::Idle);
        assert!(pool.has_room() && pool.is_busy(&pod("blue", "x")));
        let other = pod("red", "x");
        assert!(!pool.is_busy(&other));
        pool.begin(other.clone(), false, async { 7 });
        assert!(pool.is_busy(&other));
        assert_eq!(pool.progress().await, Progress::Answer(7));
        pool.end(&other);
        assert!(!pool.is_busy(&other));
        assert_eq!(pool.progress().await, Progress::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_during_other_work() {
        let mut pool = RequestPool::default();
        let slow = Duration::from_secs(7);
        pool.begin(pod("blue", "a"), true, async move {
            tokio::time::sleep(slow).await;
            "done"
        });
        let begun = Instant::now();
        assert_eq!(pool.progress().await, Progress::Slow);
        assert_eq!(begun.elapsed(), PROMPT_RETRY);
        pool.go_on_during(tokio::time::sleep(slow)).await;
        // An answer during other work is a reason for a pass.
        pool.wait_for_answers(&Timing::default()).await;
        assert_eq!(pool.take_answers(), ["done"]);
        assert_eq!(pool.end(&pod("blue", "a")), begun);
        assert!(pool.take_answers().is_empty());
    }
}
