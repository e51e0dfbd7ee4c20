//! Writes the outcome of a reconciliation to the API server: annotations, status and events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use patchbay_allocate::connects::{ACCEPTED, CncOutcome, with_condition};
use patchbay_connects::CONNECTED;
use patchbay_model::Networks;
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use patchbay_resources::object::Object;
use patchbay_resources::object::{Condition, Time};
use tokio::time::Instant;

use super::cluster_manager::ClusterManagerTask;
use super::connect_writer::{ManagedAnnotation, WriteError, managed_part};
use super::event_throttle::EventThrottle;
use super::events::EventReason;
use super::input_digest::NodeDigests;
use super::projections::WatchedConnect;
use super::write_overlay::WriteOverlay;
use super::zone_reports::{self, CollectedReports, WatchedZoneReport, ZoneNode};

/// Writes the outcomes of one reconciliation.
pub(super) struct OutcomeWriter<'a> {
    pub(super) task: &'a ClusterManagerTask,
    pub(super) overlay: &'a mut WriteOverlay,
    pub(super) event_throttle: &'a mut EventThrottle,
    pub(super) zones: ZoneKnowledge<'a>,
    /// The time of the reconciliation.
    pub(super) now: &'a Time,
}

/// Zones as the leader knows them.
pub(super) struct ZoneKnowledge<'a> {
    pub(super) nodes: Vec<ZoneNode<'a>>,
    /// The zones' reports by zone. `None`: not known yet.
    pub(super) reports: Option<&'a BTreeMap<&'a str, &'a WatchedZoneReport>>,
    pub(super) node_digests: &'a NodeDigests,
    pub(super) networks: &'a Networks,
}

impl<'a> ZoneKnowledge<'a> {
    /// The reports of all zones about one ClusterNetworkConnect. `None`: not known yet.
    fn reports_about(&self, connect: &WatchedConnect) -> Option<CollectedReports<'a>> {
        let reports = self.reports?;
        let inputs = self.node_digests.digest_of(&connect.owners, self.networks);
        let nodes = self.nodes.iter().copied();
        Some(zone_reports::reports_about(
            connect, &inputs, nodes, reports,
        ))
    }
}

/// A write failed and is to be retried.
pub(super) struct RetryLater {
    pub(super) retry_after: Option<Duration>,
    /// Error after which the object waits for a back-off of its own. `None`: the next pass writes
    /// it again.
    pub(super) error: Option<String>,
    /// `true` if all other writes would fail, too.
    pub(super) blocks_all: bool,
    /// `true` if the API server answers that it cannot write this object.
    pub(super) is_answer: bool,
}

impl RetryLater {
    /// Logs the error of the write.
    fn logged(self, connect: &str, error: &str) -> Self {
        tracing::warn!(
            connect,
            error,
            "cannot write the ClusterNetworkConnect; retrying later"
        );
        self
    }

    /// A rejected write may succeed after changes of other objects.
    const REJECTED: Self = Self {
        retry_after: None,
        error: None,
        blocks_all: false,
        is_answer: false,
    };
}

impl OutcomeWriter<'_> {
    /// Writes what differs between an object and its outcome.
    ///
    /// An annotation that the API server refuses is in the status, and one that it has failed to
    /// write for some time (`is_lasting`).
    pub(super) async fn write(
        &mut self,
        seen: &Arc<WatchedConnect>,
        outcome: CncOutcome,
        is_lasting: bool,
    ) -> Result<(), RetryLater> {
        let mut latest = seen.clone();
        let (mut rejected, mut failed) = (None, None);
        if seen.spec_error.is_none() {
            for (key, value) in outcome.annotations() {
                let Some(annotation) = ManagedAnnotation::of(key) else {
                    continue;
                };
                if latest.object.annotations().get(key) == Some(&value) {
                    continue;
                }
                let written = self
                    .task
                    .writer
                    .apply_annotation(&latest.object, annotation, &value)
                    .await;
                let (error, later) = match self.record_write(&outcome.name, written) {
                    Ok(WriteOutcome::Written(seen)) => {
                        latest = seen;
                        continue;
                    }
                    Ok(WriteOutcome::Gone) => return Ok(()),
                    Ok(WriteOutcome::Rejected(error)) => (error, RetryLater::REJECTED),
                    Err(later) => match &later.error {
                        Some(error) if is_lasting && later.is_answer => (error.clone(), later),
                        _ => return Err(later),
                    },
                };
                let (title, name) = (annotation.title(), &outcome.name);
                rejected = Some(format!("failed to update {title} for CNC {name}: {error}"));
                failed = Some(later);
                break;
            }
        }
        let spec_error = seen
            .spec_error
            .as_ref()
            .map(|error| format!("failed to read CNC {}: {error}", outcome.name));
        let status = match spec_error.or(rejected) {
            // The outcome's own status is not used, because the time of its condition would change
            // with each attempt.
            Some(message) => with_condition(
                latest.object.status.as_ref(),
                ConditionReport {
                    type_: ACCEPTED,
                    status: ConditionStatus::False,
                    reason: "ResourceAllocationFailed",
                    message,
                },
                latest.object.metadata.generation,
                self.now,
            ),
            None => outcome.status,
        };
        let reports = self.zones.reports_about(&latest);
        let status = self.with_connected_condition(&latest.object, status, reports.as_ref());
        let is_written = self.write_status(&latest, &status).await?;
        if let Some(reports) = reports.filter(|_| is_written) {
            let obstacles = reports.reports.obstacles();
            self.emit_connected_event(&latest.object, &status, &obstacles);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Adds the condition `Connected` to a status.
    ///
    /// Without any report so far there is no condition. While the reports are not known, the
    /// condition stays as it is. It does not become true while it is not known whether all zones
    /// run, because a former leader may have seen that one does not.
    fn with_connected_condition(
        &self,
        object: &ClusterNetworkConnect,
        status: ClusterNetworkConnectStatus,
        collected: Option<&CollectedReports<'_>>,
    ) -> ClusterNetworkConnectStatus {
        let Some(collected) = collected else {
            return status;
        };
        let reports = &collected.reports;
        let before = condition(&status, CONNECTED);
        if reports.is_empty() && before.is_none() {
            return status;
        }
        let report = reports.condition();
        let becomes_true = report.status == ConditionStatus::True
            && before.is_none_or(|before| before.status != report.status.as_str());
        if becomes_true && collected.is_unobserved {
            return status;
        }
        let generation = object.metadata.generation;
        with_condition(Some(&status), report, generation, self.now)
    }

    /// Writes the status if it differs. Returns `true` if the object has the status now.
    async fn write_status(
        &mut self,
        latest: &WatchedConnect,
        status: &ClusterNetworkConnectStatus,
    ) -> Result<bool, RetryLater> {
        let object = &latest.object;
        let before = object.status.clone().unwrap_or_default();
        if managed_part(&before) == managed_part(status) {
            return Ok(true);
        }
        let written = self.task.writer.apply_status(object, status).await;
        match self.record_write(&object.name_any(), written)? {
            WriteOutcome::Written(_) => {
                self.emit_accepted_event(object, &before, status);
                Ok(true)
            }
            WriteOutcome::Gone => Ok(false),
            WriteOutcome::Rejected(error) => {
                tracing::error!(
                    connect = object.name_any(),
                    error,
                    "the API server rejects the status"
                );
                Err(RetryLater::REJECTED)
            }
        }
    }

    /// Records the result of a write in the overlay.
    fn record_write(
        &mut self,
        connect: &str,
        written: Result<Arc<WatchedConnect>, WriteError>,
    ) -> Result<WriteOutcome, RetryLater> {
        match written {
            Ok(seen) => {
                self.overlay.record_write(seen.clone());
                Ok(WriteOutcome::Written(seen))
            }
            Err(WriteError::Gone) => Ok(WriteOutcome::Gone),
            Err(WriteError::Rejected(error)) => Ok(WriteOutcome::Rejected(error)),
            Err(WriteError::Conflict(error)) => {
                let retry = RetryLater {
                    retry_after: None,
                    error: None,
                    blocks_all: false,
                    is_answer: false,
                };
                Err(retry.logged(connect, &error))
            }
            Err(WriteError::Retry {
                error,
                retry_after,
                blocks_all,
                is_answer,
            }) => {
                let retry = RetryLater {
                    retry_after,
                    error: Some(error.clone()),
                    blocks_all,
                    is_answer,
                };
                Err(retry.logged(connect, &error))
            }
        }
    }

    /// Emits an event when `Accepted` changes its status or its message.
    fn emit_accepted_event(
        &self,
        object: &ClusterNetworkConnect,
        before: &ClusterNetworkConnectStatus,
        after: &ClusterNetworkConnectStatus,
    ) {
        let (now, was) = (condition(after, ACCEPTED), condition(before, ACCEPTED));
        let is_same = |now: &Condition, was: &Condition| {
            was.status == now.status && was.message == now.message
        };
        if let Some(now) = now
            && !was.is_some_and(|was| is_same(now, was))
        {
            self.emit_event(object, now, (EventReason::Accepted, EventReason::Refused));
        }
    }

    /// Emits an event when `Connected` changes its status or its obstacles, but not when zones join
    /// or leave.
    fn emit_connected_event(
        &mut self,
        object: &ClusterNetworkConnect,
        status: &ClusterNetworkConnectStatus,
        obstacles: &BTreeSet<&str>,
    ) {
        let Some(now) = condition(status, CONNECTED) else {
            return;
        };
        let before = object.status.as_ref();
        let before = before.and_then(|before| condition(before, CONNECTED));
        let (meta, at) = (&object.metadata, Instant::now());
        if self.event_throttle.admit(meta, before, now, obstacles, at) {
            self.emit_event(
                object,
                now,
                (EventReason::Connected, EventReason::NotConnected),
            );
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
        self.task.events.emit(object, reason, message);
    }
}

enum WriteOutcome {
    Written(Arc<WatchedConnect>),
    Gone,
    Rejected(String),
}

fn condition<'s>(status: &'s ClusterNetworkConnectStatus, type_: &str) -> Option<&'s Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}
