//! The task of the cluster-wide half.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::watch;

use super::config::Timing;
use super::events::{Events, Told};
use super::objects::SeenConnect;
use super::pace::{Backoff, Happening, settle, sleep_or_forever};
use super::store::{Objects as Stored, Reader, WatchEnded};
use super::writes::{Annotation, WriteError, Writes, own_part};
use crate::api::cnc::{
    ClusterNetworkConnect, ClusterNetworkConnectSpec, ClusterNetworkConnectStatus,
};
use crate::api::nad::NetworkAttachmentDefinition;
use crate::cluster::{
    ACCEPTED, ClusterConfig, ClusterController, CncOutcome, Objects, Verdict, with_verdict,
};
use crate::model::Networks;

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

/// The cluster-wide half. It works while this process leads.
#[derive(Debug)]
pub(super) struct ClusterTask {
    pub(super) config: ClusterConfig,
    pub(super) sources: Sources,
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
    controller: ClusterController,
    /// Connects as our own writes left them, until the watch has seen as much.
    written: BTreeMap<String, Arc<SeenConnect>>,
    /// The last spec of each connect that could be understood, with the object's UID.
    understood: BTreeMap<String, (Option<String>, ClusterNetworkConnectSpec)>,
    warned: BTreeSet<String>,
}

/// Something could not be written: when to try again.
struct TryAgain {
    after: Option<Duration>,
}

impl<'a> Term<'a> {
    fn new(task: &'a ClusterTask) -> Self {
        Self {
            task,
            sources: task.sources.clone(),
            controller: ClusterController::new(task.config.clone()),
            written: BTreeMap::new(),
            understood: BTreeMap::new(),
            warned: BTreeSet::new(),
        }
    }

    async fn run(&mut self) -> Result<Infallible, WatchEnded> {
        let timing = &self.task.timing;
        self.sources.ready().await?;
        let mut backoff = Backoff::new(timing);
        self.read_current(&mut backoff).await;
        loop {
            let wait = match self.pass().await {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(TryAgain { after }) => Some(backoff.failed().max(after.unwrap_or_default())),
            };
            tokio::select! {
                changed = self.sources.changed() => {
                    changed?;
                    settle(timing, &mut self.sources).await?;
                }
                () = sleep_or_forever(wait) => {}
            }
        }
    }

    /// Learns what a former leader has written, which the watch may not have seen yet: whoever does not know what was
    /// handed out must not hand out.
    async fn read_current(&mut self, backoff: &mut Backoff) {
        loop {
            match self.task.writes.current().await {
                Ok(current) => {
                    let named = |seen: Arc<SeenConnect>| (seen.object.name_any(), seen);
                    self.written = current.into_iter().map(named).collect();
                    backoff.reset();
                    return;
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
        let connects = self.connects();
        let (nads, namespaces) = (
            self.sources.nads.objects(),
            self.sources.namespaces.objects(),
        );
        let report = {
            let networks = Networks::read(values(&nads), values(&namespaces));
            let readable: Vec<_> = connects
                .values()
                .map(|seen| self.understand(seen))
                .collect();
            let objects = Objects::new(
                &networks,
                values(&nads),
                values(&namespaces),
                readable.iter().map(AsRef::as_ref),
            );
            self.controller.reconcile(&objects, &now)
        };
        let warnings = report.warnings.iter().map(ToString::to_string).collect();
        for warning in BTreeSet::difference(&warnings, &self.warned) {
            tracing::warn!("{warning}");
        }
        self.warned = warnings;
        let mut complete = true;
        for outcome in report.outcomes {
            let seen = &connects[&outcome.name];
            complete &= self.write(seen, outcome, &now).await?;
        }
        if complete {
            Ok(())
        } else {
            Err(TryAgain { after: None })
        }
    }

    /// All connects: as the watch has seen them or as we have left them, whichever is newer.
    fn connects(&mut self) -> BTreeMap<String, Arc<SeenConnect>> {
        let mut connects: BTreeMap<String, Arc<SeenConnect>> = self
            .sources
            .connects
            .objects()
            .into_iter()
            .map(|(key, seen)| (key.name, seen))
            .collect();
        self.written
            .retain(|name, written| match connects.get_mut(name) {
                Some(seen) if is_newer(written, seen) => {
                    *seen = written.clone();
                    true
                }
                _ => false,
            });
        self.understood.retain(|name, (uid, _)| {
            connects
                .get(name)
                .is_some_and(|seen| seen.object.metadata.uid == *uid)
        });
        connects
    }

    /// A connect to reconcile. One whose spec cannot be understood is taken as it was when it could. If it never could,
    /// it keeps its tunnel key and takes no part, as an object of its own: it has no UID until it is understood.
    fn understand<'s>(&mut self, seen: &'s SeenConnect) -> Cow<'s, ClusterNetworkConnect> {
        let object = &seen.object;
        let name = object.name_any();
        if seen.unreadable.is_none() {
            let known = self.understood.get(&name);
            if known.is_none_or(|(_, spec)| *spec != object.spec) {
                let spec = (object.metadata.uid.clone(), object.spec.clone());
                self.understood.insert(name, spec);
            }
            return Cow::Borrowed(object);
        }
        let mut stand_in = object.clone();
        match self.understood.get(&name) {
            Some((_, spec)) => stand_in.spec = spec.clone(),
            None => stand_in.metadata.uid = None,
        }
        Cow::Owned(stand_in)
    }

    /// Writes what differs. Returns whether all of it is written, or need not be.
    async fn write(
        &mut self,
        seen: &Arc<SeenConnect>,
        outcome: CncOutcome,
        now: &Time,
    ) -> Result<bool, TryAgain> {
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
                    Written::Gone => return Ok(true),
                    Written::Refused(error) => {
                        let (title, name) = (annotation.title(), &outcome.name);
                        refused = Some(format!("failed to update {title} for CNC {name}: {error}"));
                        break;
                    }
                }
            }
        }
        let complete = refused.is_none();
        let unreadable = seen.unreadable.as_ref();
        let unreadable =
            unreadable.map(|error| format!("failed to read CNC {}: {error}", outcome.name));
        let status = match unreadable.or(refused) {
            Some(message) => with_verdict(
                latest.object.status.as_ref(),
                Verdict {
                    type_: ACCEPTED,
                    holds: false,
                    reason: "ResourceAllocationFailed",
                    message,
                },
                latest.object.metadata.generation,
                now,
            ),
            None => outcome.status,
        };
        Ok(self.write_status(&latest, &status).await? && complete)
    }

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
                self.tell(object, &before, status);
                Ok(true)
            }
            Written::Gone => Ok(true),
            Written::Refused(error) => {
                tracing::error!(
                    connect = object.name_any(),
                    error,
                    "cannot write the status"
                );
                Ok(false)
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
                self.written.insert(connect.to_owned(), seen.clone());
                Ok(Written::Done(seen))
            }
            Err(WriteError::Gone) => Ok(Written::Gone),
            Err(WriteError::Refused(error)) => Ok(Written::Refused(error)),
            Err(WriteError::Later { error, after }) => {
                tracing::warn!(connect, error, "cannot write now");
                Err(TryAgain { after })
            }
        }
    }

    /// Tells people when a connect is accepted, or refused for another reason than before.
    fn tell(
        &self,
        object: &ClusterNetworkConnect,
        before: &ClusterNetworkConnectStatus,
        after: &ClusterNetworkConnectStatus,
    ) {
        let (Some(now), was) = (accepted(after), accepted(before)) else {
            return;
        };
        if was.is_some_and(|was| was.status == now.status && was.message == now.message) {
            return;
        }
        let told = if now.status == "True" {
            Told::Accepted
        } else {
            Told::Refused
        };
        tracing::info!(
            connect = object.name_any(),
            ?told,
            message = now.message,
            "verdict"
        );
        self.task.events.tell(object, told, &now.message);
    }
}

enum Written {
    Done(Arc<SeenConnect>),
    Gone,
    Refused(String),
}

fn values<V>(objects: &Stored<Arc<V>>) -> impl Iterator<Item = &V> {
    objects.values().map(AsRef::as_ref)
}

fn accepted(status: &ClusterNetworkConnectStatus) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == ACCEPTED)
}

/// Whether one version of an object is newer than the other. Resource versions grow as numbers; an API server of which
/// that is not true makes us believe the watch.
fn is_newer(one: &SeenConnect, other: &SeenConnect) -> bool {
    let version = |seen: &SeenConnect| -> Option<u64> {
        seen.object.metadata.resource_version.as_ref()?.parse().ok()
    };
    let same = one.object.metadata.uid == other.object.metadata.uid;
    same && version(one)
        .zip(version(other))
        .is_some_and(|(one, other)| one > other)
}
