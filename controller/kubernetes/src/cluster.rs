//! The task of the cluster-wide half: when to look at everything, and what to decide from.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_resources::object::Namespace;
use patchbay_resources::object::Time;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::config::Timing;
use super::events::Events;
use super::known::{Known, has_caught_up};
use super::lease;
use super::news::News;
use super::objects::{SeenConnect, SeenNode};
use super::pace::{Backoff, Happening, settle, sleep_or_forever, sleep_until_or_forever};
use super::reports::SeenReport;
use super::store::{Objects as Stored, Reader, WatchEnded};
use super::verdicts::{TryAgain, Verdicts};
use super::writes::Writes;
use patchbay_allocate::connects::{ClusterController, Objects};
use patchbay_model::{ClusterSettings, NodeId};
use patchbay_resources::nad::NetworkAttachmentDefinition;

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
    pub(super) leads: watch::Receiver<lease::Term>,
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
            let begun = leads.wait_for(Option::is_some).await;
            begun.map_err(|_| WatchEnded)?;
            let mut term = Term::new(&self);
            tokio::select! {
                ended = term.run() => return ended,
                lost = leads.wait_for(Option::is_none) => { lost.map_err(|_| WatchEnded)?; }
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
    /// What zones had reported when it was looked at last; none before it is known. What makes the leader look at
    /// connects in between changes nothing about it: zones answer to a change one by one, and each would be a write.
    collected: Option<Stored<Option<Arc<SeenReport>>>>,
    /// When to look at what zones have reported.
    reports_due: Option<Instant>,
    controller: ClusterController,
    known: Known,
    news: News,
    warned: BTreeSet<String>,
}

impl<'a> Term<'a> {
    fn new(task: &'a ClusterTask) -> Self {
        Self {
            task,
            sources: task.sources.common.clone(),
            nodes: task.sources.nodes.clone(),
            node_ids: BTreeMap::new(),
            reports: task.sources.reports.clone(),
            collected: None,
            reports_due: None,
            controller: ClusterController::new(task.settings.clone()),
            known: Known::default(),
            news: News::default(),
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
    /// it is time to look at what zones have reported, or to tell of it.
    async fn happening(&mut self) -> Result<(), WatchEnded> {
        let timing = &self.task.timing;
        loop {
            let (due, news_due) = (self.reports_due, self.news.due());
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
                    // Collected below: this is not to happen again for the same.
                    self.reports.objects();
                    let due = || Instant::now() + timing.report;
                    self.reports_due.get_or_insert_with(due);
                }
                () = sleep_until_or_forever(news_due) => {
                    self.news.look(Instant::now());
                    return Ok(());
                }
                () = sleep_until_or_forever(due) => {
                    self.reports_due = None;
                    self.collected = Some(self.reports.objects());
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
            let networks =
                patchbay_resources::conversion::networks(values(&nads), values(&namespaces));
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
        if self.collected.is_none() && self.reports.is_ready() {
            self.collected = Some(self.reports.objects());
        }
        let zones: Option<BTreeMap<&str, &SeenReport>> = self.collected.as_ref().map(|reports| {
            let told = reports.values().flatten();
            told.map(|report| (&*report.zone, &**report)).collect()
        });
        self.news.retain(|connect| connects.contains_key(connect));
        let mut verdicts = Verdicts {
            task: self.task,
            known: &mut self.known,
            news: &mut self.news,
            nodes: &self.node_ids,
            zones: zones.as_ref(),
            now: &now,
        };
        let mut later = None;
        for outcome in report.outcomes {
            let seen = &connects[&outcome.name];
            match verdicts.write(seen, outcome).await {
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
}

fn node_ids(nodes: &Stored<Arc<SeenNode>>) -> BTreeMap<String, Option<NodeId>> {
    let ids = nodes.values().map(|seen| &seen.node);
    ids.map(|node| (node.name.clone(), node.id)).collect()
}

fn values<V>(objects: &Stored<Arc<V>>) -> impl Iterator<Item = &V> {
    objects.values().map(AsRef::as_ref)
}
