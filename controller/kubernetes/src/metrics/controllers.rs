//! Metrics of the passes and of the writes of a controller.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::time::Instant;

use crate::metrics::names;

/// Metrics of the passes of a controller.
#[derive(Clone)]
pub(crate) struct PassMetrics {
    success: Counter,
    error: Counter,
    requeue_after: Counter,
    errors: Counter,
    seconds: Histogram,
    active: Gauge,
}

/// Result of a pass.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PassResult {
    /// Everything is done.
    Success,
    /// Everything is done, and a later pass is due without a change.
    RequeueAfter,
    /// Something has failed.
    Error,
}

/// A pass in progress. Dropping it without a result counts nothing.
pub(crate) struct MeasuredPass {
    begun: Instant,
    active: Gauge,
}

/// Metrics of a queue whose entries are requests to the API server.
#[derive(Clone)]
pub(crate) struct QueueMetrics {
    adds: Counter,
    depth: Gauge,
    retries: Counter,
    seconds: Histogram,
}

impl PassMetrics {
    pub(crate) fn new(controller: &'static str) -> Self {
        let result = |result: &'static str| counter!(names::PASSES, "controller" => controller, "result" => result);
        Self {
            success: result("success"),
            error: result("error"),
            requeue_after: result("requeue_after"),
            errors: counter!(names::PASS_ERRORS, "controller" => controller),
            seconds: histogram!(names::PASS_SECONDS, "controller" => controller),
            active: gauge!(names::ACTIVE_WORKERS, "controller" => controller),
        }
    }

    /// Begins a pass.
    pub(crate) fn begin(&self) -> MeasuredPass {
        self.active.set(1.0);
        MeasuredPass { begun: Instant::now(), active: self.active.clone() }
    }

    /// Ends a pass.
    pub(crate) fn end(&self, pass: &MeasuredPass, result: PassResult) {
        self.seconds.record(pass.begun.elapsed());
        match result {
            PassResult::Success => self.success.increment(1),
            PassResult::RequeueAfter => self.requeue_after.increment(1),
            PassResult::Error => {
                self.error.increment(1);
                self.errors.increment(1);
            }
        }
    }
}

impl Drop for MeasuredPass {
    fn drop(&mut self) {
        self.active.set(0.0);
    }
}

impl QueueMetrics {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            adds: counter!(names::QUEUE_ADDS, "name" => name),
            depth: gauge!(names::QUEUE_DEPTH, "name" => name),
            retries: counter!(names::QUEUE_RETRIES, "name" => name),
            seconds: histogram!(names::QUEUE_WORK_SECONDS, "name" => name),
        }
    }

    /// Counts a new entry.
    pub(crate) fn add(&self) {
        self.adds.increment(1);
    }

    /// Counts an answered entry.
    pub(crate) fn settle(&self, work: Duration, is_failed: bool) {
        self.seconds.record(work);
        self.retries.increment(u64::from(is_failed));
    }

    /// Sets the number of entries.
    pub(crate) fn set_depth(&self, entries: usize) {
        self.depth.set(entries as f64);
    }
}
