//! What the cluster-wide half decides goes to the API server: annotations, status, and events about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use patchbay_resources::object::Object;
use patchbay_resources::object::{Condition, Time};
use tokio::time::Instant;

use super::cluster::ClusterTask;
use super::events::Told;
use super::known::Known;
use super::news::News;
use super::objects::SeenConnect;
use super::reports::{self, SeenReport};
use super::writes::{Annotation, WriteError, own_part};
use patchbay_allocate::connects::{ACCEPTED, CncOutcome, with_verdict};
use patchbay_connects::{CONNECTED, ZoneReports};
use patchbay_model::NodeId;
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};

/// Writes what one pass has decided.
pub(super) struct Verdicts<'a> {
    pub(super) task: &'a ClusterTask,
    pub(super) known: &'a mut Known,
    pub(super) news: &'a mut News,
    pub(super) nodes: &'a BTreeMap<String, Option<NodeId>>,
    /// What zones report, by their names; none as long as that is not known.
    pub(super) zones: Option<&'a BTreeMap<&'a str, &'a SeenReport>>,
    /// The time of the pass.
    pub(super) now: &'a Time,
}

/// Something could not be written: when to try again.
pub(super) struct TryAgain {
    pub(super) after: Option<Duration>,
    /// Whether it is no use to write anything else until then.
    pub(super) any: bool,
}

impl TryAgain {
    /// What the API server does not accept now may be right when other objects have changed.
    const REFUSED: Self = Self {
        after: None,
        any: false,
    };
}

impl Verdicts<'_> {
    /// Writes what differs.
    pub(super) async fn write(
        &mut self,
        seen: &Arc<SeenConnect>,
        outcome: CncOutcome,
    ) -> Result<(), TryAgain> {
        let mut latest = seen.clone();
        let mut refused = None;
        if seen.unreadable.is_none() {
            for (key, value) in outcome.annotations() {
                let Some(annotation) = Annotation::of(key) else {
                    continue;
                };
                if latest.object.annotations().get(key) == Some(&value) {
                    continue;
                }
                let written = self
                    .task
                    .writes
                    .annotate(&latest.object, annotation, &value)
                    .await;
                match self.note(&outcome.name, written)? {
                    Written::Done(seen) => latest = seen,
                    Written::Gone => return Ok(()),
                    Written::Refused(error) => {
                        let (title, name) = (annotation.title(), &outcome.name);
                        refused = Some(format!("failed to update {title} for CNC {name}: {error}"));
                        break;
                    }
                }
            }
        }
        let again = refused.is_some();
        let unreadable = seen.unreadable.as_ref();
        let unreadable =
            unreadable.map(|error| format!("failed to read CNC {}: {error}", outcome.name));
        let status = match unreadable.or(refused) {
            // Not what the outcome would have been: the time of the condition would move with each attempt.
            Some(message) => with_verdict(
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
        let (zones, nodes) = (self.zones, self.nodes);
        let reports = zones.map(|zones| {
            let nodes = nodes.keys().map(String::as_str);
            reports::about(&latest, nodes, zones)
        });
        let status = self.with_connected(&latest.object, status, reports.as_ref());
        let is_written = self.write_status(&latest, &status).await?;
        if let Some(reports) = reports.filter(|_| is_written) {
            self.tell_connected(&latest.object, &status, &reports.obstacles());
        }
        if again {
            return Err(TryAgain::REFUSED);
        }
        Ok(())
    }

    /// The status with what zones report about the connect, if any of them ever has. As long as it is not known what they
    /// report, it stays what it was.
    fn with_connected(
        &self,
        object: &ClusterNetworkConnect,
        status: ClusterNetworkConnectStatus,
        reports: Option<&ZoneReports<'_>>,
    ) -> ClusterNetworkConnectStatus {
        let Some(reports) = reports else {
            return status;
        };
        if reports.is_empty() && condition(&status, CONNECTED).is_none() {
            return status;
        }
        let generation = object.metadata.generation;
        with_verdict(Some(&status), reports.verdict(), generation, self.now)
    }

    /// Returns whether the object has the status now.
    async fn write_status(
        &mut self,
        latest: &SeenConnect,
        status: &ClusterNetworkConnectStatus,
    ) -> Result<bool, TryAgain> {
        let object = &latest.object;
        let before = object.status.clone().unwrap_or_default();
        if own_part(&before) == own_part(status) {
            return Ok(true);
        }
        let written = self.task.writes.status(object, status).await;
        match self.note(&object.name_any(), written)? {
            Written::Done(_) => {
                self.tell_accepted(object, &before, status);
                Ok(true)
            }
            Written::Gone => Ok(false),
            Written::Refused(error) => {
                tracing::error!(
                    connect = object.name_any(),
                    error,
                    "cannot write the status"
                );
                Err(TryAgain::REFUSED)
            }
        }
    }

    /// Keeps what a write has led to.
    fn note(
        &mut self,
        connect: &str,
        written: Result<Arc<SeenConnect>, WriteError>,
    ) -> Result<Written, TryAgain> {
        match written {
            Ok(seen) => {
                self.known.wrote(seen.clone());
                Ok(Written::Done(seen))
            }
            Err(WriteError::Gone) => Ok(Written::Gone),
            Err(WriteError::Refused(error)) => Ok(Written::Refused(error)),
            Err(WriteError::Later { error, after, any }) => {
                tracing::warn!(connect, error, "cannot write now");
                Err(TryAgain { after, any })
            }
        }
    }

    /// Tells people when a connect is accepted, and when it is not for another reason than before.
    fn tell_accepted(
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
            self.tell(object, now, (Told::Accepted, Told::Refused));
        }
    }

    /// Tells people when a connect is connected, and when it is not for another reason than before: not with each zone
    /// that joins or leaves those that say so.
    fn tell_connected(
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
        if self.news.hear(meta, before, now, obstacles, at) {
            self.tell(object, now, (Told::Connected, Told::NotConnected));
        }
    }

    fn tell(&self, object: &ClusterNetworkConnect, now: &Condition, (good, bad): (Told, Told)) {
        let told = match &*now.status {
            "True" => good,
            "False" => bad,
            // Nobody knows yet.
            _ => return,
        };
        let (connect, message) = (object.name_any(), &now.message);
        tracing::info!(connect, ?told, message, "verdict");
        self.task.events.tell(object, told, message);
    }
}

enum Written {
    Done(Arc<SeenConnect>),
    Gone,
    Refused(String),
}

fn condition<'s>(status: &'s ClusterNetworkConnectStatus, type_: &str) -> Option<&'s Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}
