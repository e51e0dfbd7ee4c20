//! Writes of `ClusterNetworkConnect`s, which go on while the cluster manager does other work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Condition, Object};
use tokio::time::Instant;

use super::config::Timing;
use super::connect_requests::{ConnectPlanner, ConnectRequest, PlannedConnect, StatusRequest};
use super::connect_writer::{ConnectWriter, WriteError};
use super::event_throttle::EventThrottle;
use super::events::{EventReason, EventSender};
use super::projections::WatchedConnect;
use super::request_pool::{Progress, RequestPool};
use super::write_overlay::WriteOverlay;
use super::write_retries::{WriteFailure, WriteRetries};

/// `ClusterNetworkConnect`s that are written.
pub(super) struct ConnectWrites {
    writer: ConnectWriter,
    events: EventSender,
    timing: Timing,
    pub(super) overlay: WriteOverlay,
    pub(super) event_throttle: EventThrottle,
    /// Objects whose writes fail.
    retries: WriteRetries,
    requests: RequestPool<ConnectAnswer>,
}

/// Answer to a request about a ClusterNetworkConnect.
struct ConnectAnswer {
    connect: String,
    request: ConnectRequest,
    result: Result<Arc<WatchedConnect>, WriteError>,
}

/// Outcome of the writes of one pass.
#[derive(Debug, Default)]
pub(super) struct PassOutcome {
    /// Annotations that the API server refuses or has failed to write for some time, as messages by
    /// name of the object.
    refusals: BTreeMap<String, String>,
    /// Longest time that the API server asks to wait before the next pass. `None`: no pass has to
    /// repeat a write.
    pub(super) retry_after: Option<Duration>,
    /// `true` if more writes would fail, too.
    is_stopped: bool,
}

impl PassOutcome {
    fn retry_later(&mut self, retry_after: Option<Duration>) {
        self.retry_after = self.retry_after.max(Some(retry_after.unwrap_or_default()));
    }
}

impl ConnectWrites {
    pub(super) fn new(writer: ConnectWriter, events: EventSender, timing: Timing) -> Self {
        Self {
            writer,
            events,
            timing,
            overlay: WriteOverlay::default(),
            event_throttle: EventThrottle::default(),
            retries: WriteRetries::default(),
            requests: RequestPool::default(),
        }
    }

    /// Starts a pass. The outcome has the answers since the last one.
    pub(super) fn begin_pass(&mut self) -> PassOutcome {
        let mut outcome = PassOutcome::default();
        self.retries.begin_pass();
        for name in self.requests.running() {
            self.retries.keep(name);
        }
        for answer in self.requests.take_answers() {
            self.settle(answer, &mut outcome);
        }
        outcome
    }

    /// Writes what differs between objects and their outcomes, several at a time. Slow writes have
    /// no answer when it returns.
    pub(super) async fn write(
        &mut self,
        planned: Vec<PlannedConnect>,
        planner: &ConnectPlanner<'_>,
        outcome: &mut PassOutcome,
    ) {
        let mut planned: BTreeMap<String, PlannedConnect> = planned
            .into_iter()
            .map(|one| (one.outcome.name.clone(), one))
            .collect();
        // The last ones are those that failed, so that they do not hold up the others.
        let (failed, others): (Vec<String>, Vec<String>) = planned
            .keys()
            .cloned()
            .partition(|connect| self.retries.contains(&object_name(connect)));
        let mut waiting: VecDeque<String> = others.into_iter().chain(failed).collect();
        loop {
            while !outcome.is_stopped && self.requests.has_room() {
                let Some(connect) = waiting.pop_front() else {
                    break;
                };
                if let Some(one) = planned.get(&connect) {
                    self.begin(one, planner, outcome);
                }
            }
            match self.requests.progress().await {
                Progress::Answer(answer) => {
                    let connect = answer.connect.clone();
                    let written = self.settle(answer, outcome);
                    let has_more = written.is_some() || outcome.refusals.contains_key(&connect);
                    if let (Some(written), Some(one)) = (written, planned.get_mut(&connect)) {
                        one.seen = written;
                    }
                    if has_more {
                        waiting.push_front(connect);
                    }
                }
                Progress::Slow => {}
                Progress::Idle => return,
            }
        }
    }

    /// Waits for an answer, and until answers pause.
    pub(super) async fn wait_for_answers(&mut self) {
        self.requests.wait_for_answers(&self.timing).await;
    }

    /// Begins the next request about an object, unless it has to wait.
    fn begin(
        &mut self,
        planned: &PlannedConnect,
        planner: &ConnectPlanner<'_>,
        outcome: &mut PassOutcome,
    ) {
        let connect = &planned.outcome.name;
        let name = object_name(connect);
        if self.requests.is_busy(&name) {
            return;
        }
        let refusal = outcome.refusals.remove(connect);
        if refusal.is_none() && self.retries.delayed(&name).is_some() {
            outcome.retry_later(None);
            return;
        }
        let request = planner.next_request(planned, refusal);
        if let ConnectRequest::Status(status) = &request
            && status.is_done()
        {
            self.finish(status);
            return;
        }
        let (writer, connect) = (self.writer.clone(), connect.clone());
        let was_slow = self.retries.was_slow(&name);
        self.requests.begin(name, was_slow, async move {
            let result = request.send(&writer).await;
            ConnectAnswer {
                connect,
                request,
                result,
            }
        });
    }

    /// Takes an answer. Returns the object after the write of an annotation.
    fn settle(
        &mut self,
        answer: ConnectAnswer,
        outcome: &mut PassOutcome,
    ) -> Option<Arc<WatchedConnect>> {
        let ConnectAnswer {
            connect,
            request,
            result,
        } = answer;
        let name = object_name(&connect);
        let begun = self.requests.end(&name);
        let error = match result {
            Ok(seen) => {
                self.overlay.record_write(seen.clone());
                let ConnectRequest::Status(status) = &request else {
                    return Some(seen);
                };
                self.emit_accepted_event(status);
                self.finish(status);
                return None;
            }
            Err(error) => error,
        };
        let refusal = match error {
            WriteError::Gone => {
                self.retries.forget(&name);
                return None;
            }
            WriteError::Rejected(error) => {
                self.retries.forget(&name);
                outcome.retry_later(None);
                if matches!(request, ConnectRequest::Status(_)) {
                    tracing::error!(connect, error, "the API server rejects the status");
                }
                Some(error)
            }
            WriteError::Conflict(error) => {
                self.retries.forget(&name);
                outcome.retry_later(None);
                log_failure(&connect, &error);
                None
            }
            WriteError::Retry {
                error,
                retry_after,
                blocks_all,
                is_answer,
            } => {
                log_failure(&connect, &error);
                let failure = WriteFailure {
                    error: &error,
                    begun,
                    retry_after,
                    is_answer,
                };
                self.retries
                    .record_failure(name.clone(), failure, &self.timing);
                outcome.retry_later(retry_after);
                outcome.is_stopped |= blocks_all;
                self.retries.lasting_answer(&name).map(str::to_owned)
            }
        };
        if let (ConnectRequest::Annotation { annotation, .. }, Some(error)) = (request, refusal) {
            let title = annotation.title();
            let refusal = format!("failed to update {title} for CNC {connect}: {error}");
            outcome.refusals.insert(connect, refusal);
        }
        None
    }

    /// Ends the writes of an object that has its status.
    fn finish(&mut self, status: &StatusRequest) {
        if !status.is_refusal {
            self.retries
                .forget(&object_name(&status.object().name_any()));
        }
        self.emit_connected_event(status);
    }

    /// Emits an event when `Accepted` changes its status or its message.
    fn emit_accepted_event(&self, status: &StatusRequest) {
        let is_same = |now: &Condition, was: &Condition| {
            was.status == now.status && was.message == now.message
        };
        let (was, now) = status.condition(ACCEPTED);
        if let Some(now) = now
            && !was.is_some_and(|was| is_same(now, was))
        {
            let reasons = (EventReason::Accepted, EventReason::Refused);
            self.emit_event(status.object(), now, reasons);
        }
    }

    /// Emits an event when `Connected` changes its status or its obstacles, but not when zones join
    /// or leave.
    fn emit_connected_event(&mut self, status: &StatusRequest) {
        let (before, Some(now)) = status.condition(CONNECTED) else {
            return;
        };
        let Some(obstacles) = &status.obstacles else {
            return;
        };
        let obstacles = obstacles.iter().map(String::as_str).collect();
        let (meta, at) = (&status.object().metadata, Instant::now());
        let throttle = &mut self.event_throttle;
        if throttle.admit(meta, before, now, &obstacles, at) {
            let reasons = (EventReason::Connected, EventReason::NotConnected);
            self.emit_event(status.object(), now, reasons);
        }
    }

    fn emit_event(
        &self,
        object: &ClusterNetworkConnect,
        now: &Condition,
        (good, bad): (EventReason, EventReason),
    ) {
        let reason = match &*now.status {
            "True" => good,
            "False" => bad,
            // `Unknown` is no news.
            _ => return,
        };
        let (connect, message) = (object.name_any(), &now.message);
        tracing::info!(connect, ?reason, message, "condition changed");
        self.events.emit(object, reason, message);
    }
}

fn log_failure(connect: &str, error: &str) {
    tracing::warn!(
        connect,
        error,
        "cannot write the ClusterNetworkConnect; retrying later"
    );
}

/// Kind and key of a `ClusterNetworkConnect`.
fn object_name(connect: &str) -> (&'static str, ObjectKey) {
    (ClusterNetworkConnect::KIND, ObjectKey::cluster(connect))
}
