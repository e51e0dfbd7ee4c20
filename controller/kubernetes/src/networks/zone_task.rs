//! The zone controller's part of the networks.

use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use patchbay_app::Cluster;
use patchbay_app::northbound::Remote;
use patchbay_app::zone::{ZoneError, ZoneOutcome, ZoneReconciler};
use patchbay_engine::client::{ClientClosed, Remotes, Tls};
use patchbay_model::{ClusterSettings, POD_NETWORKS};
use patchbay_pods::{AllocationScope, PodAllocator};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object as _, Pod, Time};
use patchbay_schemas::uuids::UuidSource;
use thiserror::Error;

use super::problem_log::ProblemLog;
use super::sources::ObjectSources;
use super::writer::{ObjectWriter, WriteOutcome};
use crate::config::Timing;
use crate::store::WatchEnded;

/// The zone controller of networks.
#[derive(Debug)]
pub(crate) struct NetworkZoneTask {
    pub(crate) zone: String,
    pub(crate) settings: ClusterSettings,
    pub(crate) northbound: Remotes,
    pub(crate) tls: Option<Tls>,
    pub(crate) sources: ObjectSources,
    pub(crate) writer: ObjectWriter,
    pub(crate) timing: Timing,
}

/// Why the zone controller of networks ended.
#[derive(Debug, Error)]
pub(crate) enum NetworkZoneError {
    #[error(transparent)]
    Watch(#[from] WatchEnded),
    #[error(transparent)]
    Northbound(#[from] ClientClosed),
}

impl NetworkZoneTask {
    /// Reconciles forever. Dropping the future leaves at most one transaction and one request in
    /// progress, each of which is executed completely or not at all.
    ///
    /// # Errors
    /// A task that this one depends on has ended.
    pub(crate) async fn run(mut self) -> Result<Infallible, NetworkZoneError> {
        // An incomplete set of objects would look like deletions.
        self.sources.ready().await?;
        let northbound = self.connect().await;
        let mut changes = northbound.changes();
        let mut work = ZoneWork {
            allocator: PodAllocator::new(AllocationScope::Zone),
            rows: ZoneReconciler::new(&*self.zone, northbound, UuidSource::random()),
            writer: self.writer,
            sources: self.sources,
            settings: self.settings,
            problems: ProblemLog::default(),
            next_removal: None,
        };
        let mut backoff = self.timing.retry_backoff();
        loop {
            let retry = match work.reconcile().await {
                Ok(outcome) => {
                    let retry_after = outcome.retry_after;
                    let is_complete = outcome.failures.is_empty();
                    let limit = self.timing.request_timeout;
                    work.sources.wait_for_writes(outcome.written, limit).await?;
                    if is_complete {
                        backoff.reset();
                    }
                    let retry = (!is_complete).then(|| backoff.next_delay().max(retry_after));
                    retry.into_iter().chain(work.time_to_removal()).min()
                }
                Err(error) => {
                    tracing::warn!(%error, "the rows of networks are incomplete");
                    Some(backoff.next_delay())
                }
            };
            tokio::select! {
                ready = work.sources.wait_for_work(&self.timing, retry) => ready?,
                changed = changes.next() => { changed?; }
            }
        }
    }

    /// Connects to the database, and retries until that succeeds.
    async fn connect(&self) -> Remote {
        let mut backoff = self.timing.retry_backoff();
        loop {
            let limit: Duration = self.timing.request_timeout;
            let remotes = self.northbound.to_string();
            match Remote::open(&remotes, self.tls.clone(), limit).await {
                Ok(northbound) => return northbound,
                Err(error) => {
                    tracing::warn!(%error, "waiting for the Northbound database");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}

/// The state of the zone controller of networks.
struct ZoneWork {
    sources: ObjectSources,
    settings: ClusterSettings,
    allocator: PodAllocator,
    rows: ZoneReconciler<Remote>,
    writer: ObjectWriter,
    problems: ProblemLog,
    /// When the next network without users is to be removed. `None`: there is none.
    next_removal: Option<Timestamp>,
}

impl ZoneWork {
    /// Time until the next network without users is to be removed. `None`: there is none.
    fn time_to_removal(&self) -> Option<Duration> {
        let wait = Timestamp::now().duration_until(self.next_removal?);
        Some(wait.try_into().unwrap_or_default())
    }

    /// Gives the zone's pods their addresses, and makes the rows what the objects define.
    async fn reconcile(&mut self) -> Result<WriteOutcome, ZoneError> {
        let (inventory, undecoded) = self.sources.inventory();
        let settings = self.settings.clone();
        let mut cluster = Cluster::watched(inventory, settings, Time(Timestamp::now()));
        let outcome = self.write_addresses(&mut cluster).await;
        let rows = self.rows.reconcile_without_connects(&cluster).await?;
        self.next_removal = rows.next_removal;
        let failures = outcome.failures.iter().cloned();
        let problems = self.allocator.problems();
        let problems = problems.map(|(pod, problem)| format!("Pod {pod}: {problem}"));
        let problems = problems.chain(failures).chain(undecoded);
        let problems: Vec<String> = problems.collect();
        self.problems
            .update(problems.into_iter().chain(row_problems(&rows)));
        Ok(outcome)
    }

    /// Writes the addresses of pods, and keeps in the inventory those that are written.
    async fn write_addresses(&mut self, cluster: &mut Cluster) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        let Some(pods) = self.rows.pods(cluster) else {
            return outcome;
        };
        let inventory = &mut cluster.inventory;
        let observed = inventory.clone();
        let mut desired = observed.clone();
        for (pod, networks) in self.allocator.allocate(pods) {
            let key = ObjectKey::namespaced(&*pod.namespace, &*pod.name);
            if let Some(changed) = desired.pods.get_mut(&key) {
                let annotations = changed.object.annotations_mut();
                annotations.insert(POD_NETWORKS.to_owned(), networks.to_json());
            }
        }
        self.writer
            .write_kind::<Pod>(&observed, &desired, &mut outcome)
            .await;
        for written in &outcome.written {
            if let Some(pod) = desired.pods.get(&written.key) {
                inventory.pods.insert(pod.clone());
            }
        }
        outcome
    }
}

/// Reasons why rows are not what the objects say.
fn row_problems(outcome: &ZoneOutcome) -> impl Iterator<Item = String> {
    let networks = outcome.skipped_networks.iter();
    let networks =
        networks.map(|skipped| format!("network {}: {}", skipped.network, skipped.reason));
    let pods = outcome.pod_problems.iter();
    let pods = pods.map(|(pod, problem)| format!("Pod {pod}: {problem}"));
    let policies = outcome.policy_problems.iter().map(ToString::to_string);
    let services = outcome.service_problems.iter();
    let services = services.map(|(service, problem)| format!("Service {service}: {problem}"));
    let egress = outcome.egress_problems.iter().map(ToString::to_string);
    let warnings = outcome.warnings.iter().cloned();
    networks
        .chain(pods)
        .chain(policies)
        .chain(services)
        .chain(egress)
        .chain(warnings)
}
