//! The task of the cluster-wide half.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::config::Timing;
use super::events::{Events, Told};
use super::known::{Known, has_caught_up};
use super::objects::{SeenConnect, SeenNode};
use super::pace::{Backoff, Happening, settle, sleep_or_forever, sleep_until_or_forever};
use super::reports::{self, SeenReport};
use super::store::{Objects as Stored, Reader, WatchEnded};
use super::writes::{Annotation, WriteError, Writes, own_part};
use crate::api::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use crate::api::nad::NetworkAttachmentDefinition;
use crate::cluster::{
    ACCEPTED, ClusterController, CncOutcome, Holds, Objects, Verdict, with_verdict,
};
use crate::model::{ClusterSettings, Networks, NodeId};
use crate::zone::{CONNECTED, connected};

/// How long a watch may be behind a list before the list may be outdated itself.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The objects that the cluster-wide half looks at.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) connects: Reader<Arc<SeenConnect>>,
    pub(super) nads: Reader<Arc<NetworkAttachmentDefinition>>,
    pub(super) namespaces: Reader<Arc<Namespace>>,
}

impl Sources {
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        self.connects.ready().await?;
        self.nads.ready().await?;
        self.namespaces.ready().await
    }
}

impl Happening for Sources {
    type Ended = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        tokio::select! {
            changed = self.connects.changed() => changed,
            changed = self.nads.changed() => changed,
            changed = self.namespaces.changed() => changed,
        }
    }
}

/// What the cluster-wide half looks at beside that: the nodes' ids, and what zones report.
#[derive(Clone, Debug)]
pub(super) struct ClusterSources {
    pub(super) common: Sources,
    pub(super) nodes: Reader<Arc<SeenNode>>,
    pub(super) reports: Reader<Option<Arc<SeenReport>>>,
}

/// The cluster-wide half. It works while this process leads.
#[derive(Debug)]
pub(super) struct ClusterTask {
    pub(super) settings: ClusterSettings,
    pub(super) sources: ClusterSources,
    pub(super) writes: Writes,
    pub(super) events: Events,
    pub(super) leads: watch::Receiver<bool>,
    pub(super) timing: Timing,
}

impl ClusterTask {
    /// Works, for ever. Dropping the future leaves at most one write under way, which is right or will be corrected.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(super) async fn run(self) -> Result<Infallible, WatchEnded> {
        let mut leads = self.leads.clone();
        loop {
            let begun = leads.wait_for(|leads| *leads).await;
            begun.map_err(|_| WatchEnded)?;
            let mut term = Term::new(&self);
            tokio::select! {
                ended = term.run() => return ended,
                lost = leads.wait_for(|leads| !*leads) => { lost.map_err(|_| WatchEnded)?; }
            }
        }
    }
}

/// The time from becoming the leader to not being it any more.
///
/// What has been handed out is known from annotations alone, so a leader starts from nothing.
struct Term<'a> {
    task: &'a ClusterTask,
    sources: Sources,
    nodes: Reader<Arc<SeenNode>>,
    /// The ids of nodes that were looked at last.
    node_ids: BTreeMap<String, Option<NodeId>>,
    reports: Reader<Option<Arc<SeenReport>>>,
    /// When to look at what zones have reported.
    reports_due: Option<Instant>,
    controller: ClusterController,
    known: Known,
    warned: BTreeSet<String>,
}

/// Something could not be written: when to try again.
struct TryAgain {
    after: Option<Duration>,
    /// Whether it is no use to write anything else until then.
    any: bool,
}

impl TryAgain {
    /// What the API server does not accept now may be right when other objects have changed.
    const REFUSED: Self = Self {
        after: None,
        any: false,
    };
}

impl<'a> Term<'a> {
    fn new(task: &'a ClusterTask) -> Self {
        Self {
            task,
            sources: task.sources.common.clone(),
            nodes: task.sources.nodes.clone(),
            node_ids: BTreeMap::new(),
            reports: task.sources.reports.clone(),
            reports_due: None,
            controller: ClusterController::new(task.settings.clone()),
            known: Known::default(),
            warned: BTreeSet::new(),
        }
    }

    async fn run(&mut self) -> Result<Infallible, WatchEnded> {
        let timing = &self.task.timing;
        self.sources.ready().await?;
        self.nodes.ready().await?;
        let mut backoff = Backoff::new(timing);
        self.catch_up(&mut backoff).await?;
        loop {
            let wait = match self.pass().await {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(TryAgain { after, .. }) => {
                    Some(backoff.failed().max(after.unwrap_or_default()))
                }
            };
            tokio::select! {
                happened = self.happening() => happened?,
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Waits until something has happened: to the sources; to the nodes, if there are others or they have other ids; or until
    /// it is time to look at what zones have reported.
    async fn happening(&mut self) -> Result<(), WatchEnded> {
        let timing = &self.task.timing;
        loop {
            let due = self.reports_due;
            tokio::select! {
                changed = self.sources.changed() => {
                    changed?;
                    return settle(timing, &mut self.sources).await;
                }
                changed = self.nodes.changed() => {
                    changed?;
                    if node_ids(&self.nodes.objects()) != self.node_ids {
                        return Ok(());
                    }
                }
                changed = self.reports.changed() => {
                    changed?;
                    // Looked at below: this is not to happen again for the same.
                    self.reports.objects();
                    let due = || Instant::now() + timing.report;
                    self.reports_due.get_or_insert_with(due);
                }
                () = sleep_until_or_forever(due) => {
                    self.reports_due = None;
                    return Ok(());
                }
            }
        }
    }

    /// Waits until the watch has seen what a former leader has written: whoever does not know what was handed out must
    /// not hand out.
    async fn catch_up(&mut self, backoff: &mut Backoff) -> Result<(), WatchEnded> {
        loop {
            match self.task.writes.current().await {
                Ok(current) => {
                    let end = Instant::now() + CATCH_UP;
                    while !has_caught_up(&self.sources.connects.objects(), &current) {
                        match timeout_at(end, self.sources.connects.changed()).await {
                            Ok(changed) => changed?,
                            Err(_) => break,
                        }
                    }
                    if has_caught_up(&self.sources.connects.objects(), &current) {
                        return Ok(());
                    }
                    tracing::info!("the watch of connects is behind");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot list connects");
                    tokio::time::sleep(backoff.failed()).await;
                }
            }
        }
    }

    /// Brings all connects to where they should be.
    async fn pass(&mut self) -> Result<(), TryAgain> {
        let now = Time(Timestamp::now());
        let connects = self.known.newest(self.sources.connects.objects());
        let (nads, namespaces) = (
            self.sources.nads.objects(),
            self.sources.namespaces.objects(),
        );
        let report = {
            let networks = Networks::read(values(&nads), values(&namespaces));
            let readable: Vec<_> = connects
                .values()
                .map(|seen| self.known.understand(seen))
                .collect();
            self.node_ids = node_ids(&self.nodes.objects());
            let ids = self.node_ids.iter();
            let objects = Objects::new(
                &networks,
                values(&nads),
                values(&namespaces),
                readable.iter().map(AsRef::as_ref),
            )
            .with_nodes(ids.filter_map(|(name, id)| Some((name.as_str(), (*id)?))));
            self.controller.reconcile(&objects, &now)
        };
        let warnings = report.warnings.iter().map(ToString::to_string).collect();
        for warning in BTreeSet::difference(&warnings, &self.warned) {
            tracing::warn!("{warning}");
        }
        self.warned = warnings;
        let mut later = None;
        let reports = self.reports.is_ready().then(|| self.reports.objects());
        let zones = reports.as_ref().map(|reports| {
            let told = reports.values().flatten();
            told.map(|report| (&*report.zone, &**report)).collect()
        });
        for outcome in report.outcomes {
            let seen = &connects[&outcome.name];
            match self.write(seen, outcome, zones.as_ref(), &now).await {
                Ok(()) => {}
                Err(failed) if failed.any => return Err(failed),
                // The others do not wait for one that cannot be written.
                Err(failed) => later = later.max(Some(failed.after)),
            }
        }
        match later {
            None => Ok(()),
            Some(after) => Err(TryAgain { after, any: false }),
        }
    }

    /// The status with what zones report about the connect, if any of them ever has. As long as it is not known what they
    /// report, it stays what it was.
    fn with_connected(
        &self,
        object: &ClusterNetworkConnect,
        status: ClusterNetworkConnectStatus,
        zones: Option<&BTreeMap<&str, &SeenReport>>,
        now: &Time,
    ) -> ClusterNetworkConnectStatus {
        let Some(zones) = zones else {
            return status;
        };
        let nodes = self.node_ids.keys().map(String::as_str);
        let (told, silent) = reports::about(&object.metadata, nodes, zones);
        let mut conditions = status.conditions.iter();
        if told.is_empty() && !conditions.any(|condition| condition.type_ == CONNECTED) {
            return status;
        }
        let verdict = connected(told, &silent);
        with_verdict(Some(&status), verdict, object.metadata.generation, now)
    }

    /// Writes what differs.
    async fn write(
        &mut self,
        seen: &Arc<SeenConnect>,
        outcome: CncOutcome,
        zones: Option<&BTreeMap<&str, &SeenReport>>,
        now: &Time,
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
                Verdict {
                    type_: ACCEPTED,
                    holds: Holds::False,
                    reason: "ResourceAllocationFailed",
                    message,
                },
                latest.object.metadata.generation,
                now,
            ),
            None => outcome.status,
        };
        let status = self.with_connected(&latest.object, status, zones, now);
        self.write_status(&latest, &status).await?;
        if again {
            return Err(TryAgain::REFUSED);
        }
        Ok(())
    }

    async fn write_status(
        &mut self,
        latest: &SeenConnect,
        status: &ClusterNetworkConnectStatus,
    ) -> Result<(), TryAgain> {
        let object = &latest.object;
        let before = object.status.clone().unwrap_or_default();
        if own_part(&before) == own_part(status) {
            return Ok(());
        }
        let written = self.task.writes.status(object, status).await;
        match self.note(&object.name_any(), written)? {
            Written::Done(_) => {
                self.tell(object, &before, status);
                Ok(())
            }
            Written::Gone => Ok(()),
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

    /// Tells people when a connect is accepted or connected, and when it is not for another reason than before.
    fn tell(
        &self,
        object: &ClusterNetworkConnect,
        before: &ClusterNetworkConnectStatus,
        after: &ClusterNetworkConnectStatus,
    ) {
        for (type_, good, bad) in [
            (ACCEPTED, Told::Accepted, Told::Refused),
            (CONNECTED, Told::Connected, Told::NotConnected),
        ] {
            let (Some(now), was) = (condition(after, type_), condition(before, type_)) else {
                continue;
            };
            if was.is_some_and(|was| was.status == now.status && was.message == now.message) {
                continue;
            }
            let (connect, message) = (object.name_any(), &now.message);
            let told = match &*now.status {
                "True" => good,
                "False" => bad,
                // Nobody knows yet.
                _ => continue,
            };
            tracing::info!(connect, ?told, message, "verdict");
            self.task.events.tell(object, told, message);
        }
    }
}

enum Written {
    Done(Arc<SeenConnect>),
    Gone,
    Refused(String),
}

fn node_ids(nodes: &Stored<Arc<SeenNode>>) -> BTreeMap<String, Option<NodeId>> {
    let ids = nodes.values().map(|seen| &seen.node);
    ids.map(|node| (node.name.clone(), node.id)).collect()
}

fn values<V>(objects: &Stored<Arc<V>>) -> impl Iterator<Item = &V> {
    objects.values().map(AsRef::as_ref)
}

fn condition<'s>(status: &'s ClusterNetworkConnectStatus, type_: &str) -> Option<&'s Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}
