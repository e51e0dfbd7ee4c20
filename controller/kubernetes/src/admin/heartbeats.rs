//! Heartbeats of the tasks of a process.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval at which a task that waits is polled, and shows that it is alive.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Last beat of a task that has ended.
const ENDED: u64 = u64::MAX;

/// Heartbeats of the tasks of a process, by name.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(Vec<(String, Heartbeat)>);

/// Time of the last sign of life of a task. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    start: Instant,
    /// Milliseconds from `start` to the last beat.
    last: Arc<AtomicU64>,
}

impl Heartbeats {
    /// Adds a task with a heartbeat of its own.
    pub(crate) fn add(&mut self, task: impl Into<String>) -> Heartbeat {
        let heartbeat = Heartbeat::new();
        self.0.push((task.into(), heartbeat.clone()));
        heartbeat
    }

    /// The tasks with their heartbeats, in the order of their start.
    pub(crate) fn into_tasks(self) -> Vec<(String, Heartbeat)> {
        self.0
    }
}

impl Heartbeat {
    /// A heartbeat with its first beat now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: Arc::default() }
    }

    /// Records a beat.
    pub(crate) fn beat(&self) {
        self.last.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time since the last beat. `None`: the task has ended.
    pub(crate) fn age(&self) -> Option<Duration> {
        let last = self.last.load(Ordering::Relaxed);
        let beat = Duration::from_millis(Some(last).filter(|last| *last != ENDED)?);
        Some(self.start.elapsed().saturating_sub(beat))
    }

    /// Runs a task, with a beat whenever it is polled: when something wakes it, and at least once
    /// for each [`BEAT_INTERVAL`]. The heart of a task stops that computes without an end or blocks
    /// its thread.
    pub(crate) async fn during<T>(self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        let mut beats = tokio::time::interval(BEAT_INTERVAL);
        let output = poll_fn(|context| {
            self.beat();
            while beats.poll_tick(context).is_ready() {}
            let polled = task.as_mut().poll(context);
            self.beat();
            polled
        })
        .await;
        self.last.store(ENDED, Ordering::Relaxed);
        output
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_waits_beats_until_it_ends() {
        let heartbeat = Heartbeat::new();
        let last = || heartbeat.last.load(Ordering::Relaxed);
        let waiting = heartbeat.clone().during(pending::<()>());
        std::thread::sleep(Duration::from_millis(2));
        assert!(tokio::time::timeout(BEAT_INTERVAL * 3, waiting).await.is_err());
        assert!(last() > 0);
        assert!(heartbeat.age().is_some());
        heartbeat.clone().during(async {}).await;
        assert_eq!(heartbeat.age(), None);
    }
}
